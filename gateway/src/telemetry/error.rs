//! Why telemetry cannot be set up.

/// Nothing of this happens after the start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The metrics library refuses a metric.
    #[error(
        "metrics cannot be set up ({0}): the values of --time-buckets, --length-buckets and --size-buckets must rise"
    )]
    Metric(#[from] prometheus::Error),
    /// No thread for the access log.
    #[error("the access log's thread cannot be started ({0}): raise the limit on processes or threads")]
    Thread(#[from] std::io::Error),
}
