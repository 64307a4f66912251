//! Faults that no request is lost to: each test puts a cluster through one while clients go on asking, and counts.

mod api_away;
mod bulk;
mod contested;
mod cut_off;
mod duties;
mod isolation;
mod nodes;
mod restore;
mod rights;
mod rollouts;
mod upgrade;
mod webhook;
mod without_a_past;
