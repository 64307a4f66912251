//! What all workers share: the current configuration and the meters. Read on every request without a lock;
//! changed by `apply` alone.

use std::sync::Arc;

use arc_swap::ArcSwap;
use sluice_config::Tuning;

use crate::telemetry::Telemetry;

/// The data plane's shared state.
#[derive(Debug)]
pub struct State {
    /// Global settings.
    pub tuning: ArcSwap<Tuning>,
    /// Meters and logs.
    pub telemetry: Arc<Telemetry>,
}
