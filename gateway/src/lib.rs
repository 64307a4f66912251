//! The data plane of Sluice: connections, TLS, routing, policies, the upstream registry and telemetry.

pub mod registry;
pub mod router;
