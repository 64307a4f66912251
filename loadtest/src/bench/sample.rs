//! The figures of one proxy in one scenario of one round.

use serde_json::{Value, json};

use super::load::Work;
use super::usage::Usage;

/// The figures of one proxy in one scenario of one round.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The round, starting at 0.
    pub round: usize,
    /// The name of the scenario.
    pub scenario: &'static str,
    /// The name of the proxy.
    pub peer: String,
    /// The results of the load.
    pub work: Work,
    /// CPU time of the proxy during the load.
    pub usage: Usage,
    /// Memory in bytes before the load.
    pub at_rest: u64,
    /// Memory in bytes shortly before the end of the load.
    pub under_load: u64,
    /// Responses without a line in the access log, if it is enabled: a proxy that drops lines does
    /// less work.
    pub unlogged: u64,
    /// The memory of idle connections, in scenarios that measure it.
    pub idle: Option<Idle>,
}

/// Memory of idle connections.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// Bytes per connection.
    pub each: f64,
    /// The share that was released after they had closed.
    pub given_back: f64,
}

impl Sample {
    /// Returns the CPU time per request in microseconds.
    pub fn cpu(&self) -> f64 {
        self.per_request(self.usage.total().as_secs_f64())
    }

    /// Returns the user part of [`cpu`](Self::cpu).
    pub fn user(&self) -> f64 {
        self.per_request(self.usage.user.as_secs_f64())
    }

    /// Returns the requests per second.
    pub fn rate(&self) -> f64 {
        self.work.served as f64 / self.work.elapsed.as_secs_f64().max(1e-9)
    }

    /// Returns the share of the time for which the core was busy. Only with a high share do
    /// requests per second show the proxy's capacity.
    pub fn busy(&self) -> f64 {
        self.usage.total().as_secs_f64() / self.work.elapsed.as_secs_f64().max(1e-9)
    }

    /// Returns the share of requests that failed.
    pub fn failures(&self) -> f64 {
        self.work.failed as f64 / (self.work.failed + self.work.served).max(1) as f64
    }

    /// Returns the share of responses that lack a log line.
    pub fn unlogged_share(&self) -> f64 {
        self.unlogged as f64 / self.work.served.max(1) as f64
    }

    fn per_request(&self, seconds: f64) -> f64 {
        seconds * 1e6 / self.work.served.max(1) as f64
    }

    /// Returns all figures as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "round": self.round + 1,
            "scenario": self.scenario,
            "peer": self.peer,
            "served": self.work.served,
            "failed": self.work.failed,
            "unlogged": self.unlogged,
            "seconds": self.work.elapsed.as_secs_f64(),
            "cpu_us": self.cpu(),
            "user_us": self.user(),
            "system_us": self.cpu() - self.user(),
            "requests_per_second": self.rate(),
            "busy": self.busy(),
            "p50_ms": self.work.latency.map(|latency| latency.p50),
            "p99_ms": self.work.latency.map(|latency| latency.p99),
            "p999_ms": self.work.latency.map(|latency| latency.p999),
            "at_rest_bytes": self.at_rest,
            "under_load_bytes": self.under_load,
            "idle_connection_bytes": self.idle.map(|idle| idle.each),
            "idle_given_back": self.idle.map(|idle| idle.given_back),
        })
    }
}
