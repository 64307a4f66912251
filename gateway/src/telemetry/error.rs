//! Errors of setting up telemetry.

/// A failure at start. Telemetry has no errors of this kind later.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The metrics library rejects a metric.
    #[error(
        "metrics cannot be set up ({0}): the values of --time-buckets, --length-buckets and --size-buckets must rise"
    )]
    Metric(#[from] prometheus::Error),
    /// The thread of the access log cannot be started.
    #[error("the access log's thread cannot be started ({0}): raise the limit on processes or threads")]
    Thread(#[from] std::io::Error),
}
