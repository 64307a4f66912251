//! The data plane of Sluice: everything between a client's connection and a Pod's address.
//!
//! It is told what to serve by [`sluice_config::Delta`] and tells what it did by [`sluice_config::Report`]; it
//! knows neither Kubernetes nor annotations. A connection comes in by `listen`. A request passes `downstream` (bytes
//! to heads), `engine` (which has it judged by `pipeline`, with `router`, `policy` and `registry`, and carries it),
//! and `upstream` (connections to endpoints); `workers` and `data_plane` put them together. These modules form no cycle
//! (`module_cycles` checks).

pub mod admin;
pub mod apply;
pub(crate) mod body;
mod bounds;
mod compiled_settings;
pub mod configuration;
pub mod connection_info;
mod critical_task;
pub mod data_plane;
mod descriptors;
mod distrusted_proxies;
mod downstream;
pub mod drain;
pub mod driver;
mod engine;
pub mod failure;
mod idle_connections;
mod io;
pub mod listen;
pub mod message;
#[cfg(test)]
mod module_cycles;
mod per_worker;
pub mod pipeline;
pub mod policy;
pub mod readiness;
pub mod registry;
pub mod reporter;
pub mod route;
pub mod router;
pub mod snapshot;
pub mod state;
pub mod telemetry;
pub mod tls;
mod upstream;
mod worker;
pub mod workers;
