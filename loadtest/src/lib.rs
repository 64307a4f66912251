//! What the load programs share: a gateway as a child process, cheap backends, clients, manifests, and reports.
//!
//! The programs are `churn` (nothing fails while everything changes), `scale` (what thousands of objects cost),
//! `idle` (what an idle connection costs) and `overload` (what happens beyond capacity). Each prints a table, or JSON
//! with `--json`, and exits with 1 when what it asserts does not hold. `bench` holds Sluice against other proxies.
//! `demo-backend` answers in the quickstart.

pub mod arguments;
pub mod backend;
pub mod bench;
pub mod certificate;
pub mod client;
pub mod crowd;
pub mod latencies;
pub mod load;
pub mod manifest;
pub mod process;
pub mod report;
