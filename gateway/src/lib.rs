//! The data plane of Sluice: everything between a client's connection and a Pod's address.
//!
//! It is told what to serve by [`sluice_config::Delta`] and tells what it did by [`sluice_config::Report`]; it
//! knows neither Kubernetes nor annotations. A request passes `connection` (bytes to heads), `pipeline` (heads
//! to decisions, with `router`, `policy` and `registry`), and `direct` or `proxy` (decisions to bytes).

pub mod admin;
pub mod apply;
mod bounds;
pub mod connection;
pub mod connection_info;
pub mod data_plane;
mod descriptors;
pub mod direct;
pub mod drain;
mod io;
pub mod message;
pub mod pipeline;
pub mod policy;
mod proxy;
pub mod registry;
pub mod resources;
pub mod route;
pub mod router;
pub mod state;
pub mod telemetry;
pub mod tls;
mod vital;
pub mod worker;
