//! Shared parts of the load programs: a gateway as a child process, cheap backends, clients,
//! manifests, and reports.
//!
//! The programs are `churn` (constant changes under load), `scale` (the cost of thousands of
//! objects), `idle` (the cost of idle connections), `overload` (behaviour under overload),
//! `endurance` (steady load with hostile clients and a replaced gateway), `propagation` (the delay
//! of cluster changes, in a lab) and `k6-suite` (the k6 scripts, against its own or an external
//! gateway). Each prints a table, or JSON with `--json`, and exits with 1 if an assertion fails.
//! `bench` compares Sluice with other proxies. `demo-backend` is the backend of the quickstart.

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
