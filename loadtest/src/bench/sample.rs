//! What one proxy did in one scenario of one round.

use serde_json::{Value, json};

use super::load::Work;
use super::usage::Usage;

/// What one proxy did in one scenario of one round.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Which round, from 0.
    pub round: usize,
    /// Which scenario, by name.
    pub scenario: &'static str,
    /// Which proxy, by name.
    pub peer: String,
    /// What was answered.
    pub work: Work,
    /// CPU time of the proxy meanwhile.
    pub usage: Usage,
    /// Memory before the load, bytes.
    pub at_rest: u64,
    /// Memory shortly before the end of the load, bytes.
    pub under_load: u64,
    /// Answers that left no line in the access log, though they should have: a proxy that drops lines does less.
    pub unlogged: u64,
    /// What thousands of idle connections cost, in the scenarios that ask.
    pub idle: Option<Idle>,
}

/// Memory of idle connections.
#[derive(Clone, Copy, Debug)]
pub struct Idle {
    /// Bytes that each one took.
    pub each: f64,
    /// The share that was given back when they had closed.
    pub given_back: f64,
}

impl Sample {
    /// CPU time of a request, microseconds.
    pub fn cpu(&self) -> f64 {
        self.per_request(self.usage.total().as_secs_f64())
    }

    /// The part of it that the program itself took.
    pub fn user(&self) -> f64 {
        self.per_request(self.usage.user.as_secs_f64())
    }

    /// Requests a second.
    pub fn rate(&self) -> f64 {
        self.work.served as f64 / self.work.elapsed.as_secs_f64().max(1e-9)
    }

    /// The share of the time for which the proxy kept its core busy. Only then requests a second are what it can do.
    pub fn busy(&self) -> f64 {
        self.usage.total().as_secs_f64() / self.work.elapsed.as_secs_f64().max(1e-9)
    }

    /// The share of requests that failed.
    pub fn failures(&self) -> f64 {
        self.work.failed as f64 / (self.work.failed + self.work.served).max(1) as f64
    }

    /// The share of answers that should have been logged and were not.
    pub fn unlogged_share(&self) -> f64 {
        self.unlogged as f64 / self.work.served.max(1) as f64
    }

    fn per_request(&self, seconds: f64) -> f64 {
        seconds * 1e6 / self.work.served.max(1) as f64
    }

    /// All of it, for programs.
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
