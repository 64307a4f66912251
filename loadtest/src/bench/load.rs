//! Load generators. Each runs against a proxy for a time and returns the results.

pub mod h2load;
pub mod handshakes;
pub mod paced;
pub mod tcp;
pub mod udp;
pub mod websocket;
pub mod wrk;

use std::time::Duration;

use crate::latencies::Latencies;

/// The results of a load.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Requests with a correct response.
    pub served: u64,
    /// Failed requests.
    pub failed: u64,
    /// Requests in `served` whose response arrived before the end of the load.
    pub in_time: u64,
    /// Duration of the load.
    pub elapsed: Duration,
    /// Latencies, if requests had a scheduled time.
    pub latency: Option<Latency>,
}

/// Latencies in milliseconds from the scheduled time of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Latency {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
}

impl Latency {
    fn of(latencies: &Latencies) -> Self {
        Self { p50: latencies.quantile(0.5), p99: latencies.quantile(0.99), p999: latencies.quantile(0.999) }
    }
}
