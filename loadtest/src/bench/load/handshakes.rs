//! TLS connections with one request each, at full speed or at a fixed rate.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use super::{Latency, Work};
use crate::bench::setup::HOST;
use crate::client::GatewayTarget;
use crate::latencies::Latencies;
use crate::tls::{resuming_common, trusting_common};

/// TLS connections with one request each.
#[derive(Clone, Copy, Debug)]
pub struct Handshakes {
    /// Connections per second, in an open loop. `None`: as many as the clients achieve.
    pub rate: Option<u32>,
    /// Number of clients without a rate.
    pub clients: usize,
    /// Whether each of these clients resumes the session of its previous connection. A connection
    /// other than its first that does not counts as failed.
    pub resumes: bool,
    /// Time after which a client gives up.
    pub time_limit: Duration,
}

struct Tally {
    end: Instant,
    served: AtomicU64,
    in_time: AtomicU64,
    failed: AtomicU64,
    latencies: Mutex<Latencies>,
}

impl Handshakes {
    /// Runs the load.
    ///
    /// # Errors
    /// The client has no TLS.
    pub async fn run(self, address: SocketAddr, duration: Duration) -> anyhow::Result<Work> {
        let target = || {
            let config = if self.resumes { resuming_common() } else { trusting_common() };
            GatewayTarget::tls(address, HOST, config)
        };
        let started = Instant::now();
        let tally = Arc::new(Tally {
            end: started + duration,
            served: 0.into(),
            in_time: 0.into(),
            failed: 0.into(),
            latencies: Mutex::new(Latencies::new()),
        });
        let mut tasks = JoinSet::new();
        match self.rate {
            None => {
                for _ in 0..self.clients {
                    let (target, tally) = (target(), tally.clone());
                    tasks.spawn(async move {
                        let mut resumes = false;
                        while started.elapsed() < duration {
                            tally.one(&target, resumes, Instant::now(), self.time_limit).await;
                            resumes = self.resumes;
                        }
                    });
                }
            }
            Some(rate) => {
                let target = target();
                let every = Duration::from_secs(1) / rate.max(1);
                for number in 0.. {
                    let due = started + every * number;
                    if due >= started + duration {
                        break;
                    }
                    sleep_until(due.into()).await;
                    let (target, tally) = (target.clone(), tally.clone());
                    tasks.spawn(async move { tally.one(&target, false, due, self.time_limit).await });
                }
            }
        }
        while tasks.join_next().await.is_some() {}
        let latencies = tally.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Work {
            served: tally.served.load(Ordering::Relaxed),
            in_time: tally.in_time.load(Ordering::Relaxed),
            failed: tally.failed.load(Ordering::Relaxed),
            elapsed: started.elapsed(),
            latency: Some(Latency::of(&latencies)),
        })
    }
}

impl Tally {
    /// Makes one connection that was scheduled for `due`. With `resumes` it must resume a session.
    async fn one(&self, target: &GatewayTarget, resumes: bool, due: Instant, time_limit: Duration) {
        let left = (due + time_limit).saturating_duration_since(Instant::now());
        let exchange = async {
            let mut connection = target.connect().await?;
            anyhow::ensure!(connection.was_resumed() || !resumes, "the session was not resumed");
            connection.get_last_with("/", "").await
        };
        match timeout(left, exchange).await {
            // On a busy machine the timeout may fire late.
            Ok(Ok(answer)) if answer.status == 200 && due.elapsed() <= time_limit => {
                self.served.fetch_add(1, Ordering::Relaxed);
                self.in_time.fetch_add(u64::from(Instant::now() <= self.end), Ordering::Relaxed);
                let mut latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
                latencies.record(due.elapsed());
            }
            _ => {
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}
