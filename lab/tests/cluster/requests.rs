//! Faults during which no request is lost: each test injects one under load and counts failures.

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
