//! What the load programs share: a gateway as a child process, cheap backends, clients, manifests, and reports.
//!
//! The programs are `churn` (nothing fails while everything changes), `scale` (what thousands of
//! objects cost), `idle` (what an idle connection costs), `overload` (what happens under overload),
//! `endurance` (steady load beside hostile clients and a replaced gateway), `propagation` (how soon
//! a cluster's changes are served, in the lab) and `k6-suite` (the k6 scripts, here or against a
//! gateway elsewhere). Each prints a table, or JSON with `--json`, and exits with 1 when what it
//! asserts does not hold. `bench` holds Sluice against other proxies. `demo-backend` answers in the
//! quickstart.

pub mod arguments;
pub mod backend;
pub mod bench;

pub mod client;
pub mod cluster;
pub mod crowd;
pub mod echo;
pub mod gateway_url;
pub mod hostile;
pub mod k6;
pub mod latencies;
pub mod load;
pub mod manifest;
#[cfg(test)]
mod module_cycles;
pub mod process;
pub mod propagation;
pub mod report;
pub mod sightings;
pub mod tls;
