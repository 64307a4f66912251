//! The load of `churn`: paced keep-alive clients, new connections, and open WebSockets. All
//! failures are counted, and the first ones are kept in words.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use crate::client::{Answer, Connection, GatewayTarget};
use crate::latencies::Latencies;

/// Time after which a request has failed.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Number of failures that are kept in words.
const EXAMPLES: usize = 5;

/// The amount of load. Half of the clients, and of the new connections, use TLS.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Number of clients that keep their connection.
    pub clients: u32,
    /// Requests per second of all these clients together.
    pub requests: u32,
    /// New connections per second, with one request each.
    pub connections: u32,
    /// The duration.
    pub duration: Duration,
}

/// The results of a load.
#[derive(Debug)]
pub struct LoadOutcome {
    /// Requests with status 200.
    pub served: u64,
    /// Failed requests.
    pub failed: u64,
    /// The first failures in words.
    pub examples: Vec<String>,
    latencies: Latencies,
    connection_latencies: Latencies,
}

impl LoadOutcome {
    fn new() -> Self {
        Self {
            served: 0,
            failed: 0,
            examples: Vec::new(),
            latencies: Latencies::new(),
            connection_latencies: Latencies::new(),
        }
    }

    /// Returns the latency quantile of keep-alive requests in milliseconds.
    pub fn quantile(&self, share: f64) -> f64 {
        self.latencies.quantile(share)
    }

    /// Returns the latency quantile of new connections in milliseconds: connect, handshake and one
    /// request.
    pub fn connection_quantile(&self, share: f64) -> f64 {
        self.connection_latencies.quantile(share)
    }

    fn fail(&mut self, what: &str, error: &anyhow::Error) {
        self.failed += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(format!("{what}: {error:#}"));
        }
    }
}

type Shared = Arc<Mutex<LoadOutcome>>;

impl Load {
    /// Runs the load against the plain and the TLS form of a target.
    pub async fn run(self, plain: &GatewayTarget, tls: &GatewayTarget) -> LoadOutcome {
        let outcome: Shared = Arc::new(Mutex::new(LoadOutcome::new()));
        let start = Instant::now();
        let mut tasks = JoinSet::new();
        let every = |rate: u32, share: u32| Duration::from_secs(1) * share / rate.max(1);
        for index in 0..self.clients {
            let target = if index % 2 == 0 { plain } else { tls };
            let pace = Pace::new(start, every(self.requests, self.clients), every(self.requests, 1) * index);
            tasks.spawn(keep_alive(target.clone(), pace, self.duration, outcome.clone()));
        }
        let mut pace = Pace::new(start, every(self.connections, 1), Duration::ZERO);
        for index in 0_u64.. {
            let Some(intended) = pace.next(self.duration).await else { break };
            let target = if index % 2 == 0 { plain } else { tls };
            tasks.spawn(new_connection(target.clone(), intended, outcome.clone()));
        }
        while tasks.join_next().await.is_some() {}
        let mut guard = lock(&outcome);
        std::mem::replace(&mut *guard, LoadOutcome::new())
    }
}

fn lock(outcome: &Shared) -> std::sync::MutexGuard<'_, LoadOutcome> {
    outcome.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Times at a fixed interval, regardless of delays in between.
struct Pace {
    start: Instant,
    next: Instant,
    every: Duration,
}

impl Pace {
    fn new(start: Instant, every: Duration, offset: Duration) -> Self {
        Self { start, next: start + offset, every }
    }

    /// Waits for the next time and returns it, or `None` at the end. If the wait was in time, the
    /// result is the time of waking, so that the coarseness of the timer does not count as latency.
    /// If it is late, the result is the scheduled time, so that waiting for the gateway does count.
    async fn next(&mut self, duration: Duration) -> Option<Instant> {
        let due = self.next;
        if due >= self.start + duration {
            return None;
        }
        self.next += self.every;
        if Instant::now() < due {
            sleep_until(due.into()).await;
            return Some(Instant::now());
        }
        Some(due)
    }
}

async fn keep_alive(target: GatewayTarget, mut pace: Pace, duration: Duration, outcome: Shared) {
    let mut connection: Option<Connection> = None;
    while let Some(intended) = pace.next(duration).await {
        let result = timeout(TIMEOUT, async {
            let mut used = match connection.take() {
                Some(connection) => connection,
                None => target.connect().await?,
            };
            let answer = expect_200(used.get("/").await?)?;
            anyhow::Ok((used, answer.close))
        });
        let result = result.await.unwrap_or_else(|_| Err(anyhow::anyhow!("no answer in {TIMEOUT:?}")));
        let mut outcome = lock(&outcome);
        match result {
            Ok((used, close)) => {
                outcome.served += 1;
                outcome.latencies.record(intended.elapsed());
                connection = (!close).then_some(used);
            }
            Err(error) => outcome.fail("keep-alive request", &error),
        }
    }
}

async fn new_connection(target: GatewayTarget, intended: Instant, outcome: Shared) {
    let result = timeout(TIMEOUT, async { expect_200(target.get_once("/").await?) }).await;
    let mut outcome = lock(&outcome);
    match result.unwrap_or_else(|_| Err(anyhow::anyhow!("no answer in {TIMEOUT:?}"))) {
        Ok(_) => {
            outcome.served += 1;
            outcome.connection_latencies.record(intended.elapsed());
        }
        Err(error) => outcome.fail("new connection", &error),
    }
}

fn expect_200(answer: Answer) -> anyhow::Result<Answer> {
    anyhow::ensure!(
        answer.status == 200,
        "status {}: {}",
        answer.status,
        String::from_utf8_lossy(&answer.body).lines().next().unwrap_or_default()
    );
    Ok(answer)
}

/// WebSockets that are opened before a run and should be open after it.
pub struct Sockets(Vec<Connection>);

impl Sockets {
    /// Opens `count` WebSockets, half of them over TLS.
    ///
    /// # Errors
    /// One cannot be opened.
    pub async fn open(count: usize, plain: &GatewayTarget, tls: &GatewayTarget) -> anyhow::Result<Self> {
        let mut sockets = Vec::new();
        for index in 0..count {
            let mut connection = if index % 2 == 0 { plain } else { tls }.connect().await?;
            connection.upgrade().await?;
            sockets.push(connection);
        }
        Ok(Self(sockets))
    }

    /// Returns how many still carry bytes in both directions.
    pub async fn alive(&mut self) -> usize {
        let mut alive = 0;
        for socket in &mut self.0 {
            let echo = timeout(TIMEOUT, socket.echo(b"still there?")).await;
            alive += usize::from(matches!(echo, Ok(Ok(()))));
        }
        alive
    }
}
