//! Load generators. Each runs against a proxy for a while and says what was answered.

pub mod h2load;
pub mod handshakes;
pub mod paced;
pub mod websocket;
pub mod wrk;

use std::time::Duration;

use crate::latencies::Latencies;

/// What came of a load.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Requests that were answered well.
    pub served: u64,
    /// Requests that were not.
    pub failed: u64,
    /// Those of them that were answered while the load went on, not after it.
    pub in_time: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// Latencies in milliseconds, where requests had a time to be sent at.
    pub latency: Option<Latency>,
}

/// Latencies in milliseconds, counted from the moment a request was due.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// 99 of 100 stayed below.
    pub p99: f64,
    /// 999 of 1,000 stayed below.
    pub p999: f64,
}

impl Latency {
    fn of(latencies: &Latencies) -> Self {
        Self { p50: latencies.quantile(0.5), p99: latencies.quantile(0.99), p999: latencies.quantile(0.999) }
    }
}
