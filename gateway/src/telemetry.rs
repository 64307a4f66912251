//! Metrics and the access log.

/// All meters and logs of the data plane.
#[derive(Debug, Default)]
pub struct Telemetry {}

impl Telemetry {
    /// A client connection was accepted.
    pub fn connection_opened(&self) {}

    /// A client connection ended.
    pub fn connection_closed(&self) {}

    /// A connection was refused because `limit` was reached: `max-worker-connections`.
    pub fn connection_refused(&self) {}

    /// A TLS handshake failed before a request could be read.
    pub fn handshake_failed(&self) {}
}
