//! Steady load through a gateway during a test, with every failure counted.
//!
//! The load is an open loop: requests start at fixed times whether or not earlier ones were
//! answered, so that a stalled gateway gets no less load. Only a limit on open requests slows the
//! load, for machines that cannot keep up. Every fourth request uses a new connection, the others
//! kept ones; every third is a POST with a body. A request fails unless it gets a response in time,
//! with status 200, from a Pod of its target Deployment, and with the echo of this very request.
//!
//! Tests wait for responses and never for a duration: [`Running::more`], [`Running::until`],
//! [`Running::settled`].

mod client;
mod tally;

pub use tally::{Failure, Tally};

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use http::Method;
use rustls::ClientConfig;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::Cluster;
use client::{Clients, Question};

/// Longer than any response takes on a busy machine. A request without a response by then has
/// failed.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum number of requests without a response.
const AT_ONCE: usize = 64;

/// Maximum wait of a test for responses.
const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// The target of requests, and the Deployment that must respond.
#[derive(Clone, Debug)]
pub struct LoadTarget {
    /// The host.
    pub host: String,
    /// The path, with a query.
    pub path: String,
    /// The Deployment of echo servers, in the test's namespace, one of whose Pods must respond.
    pub deployment: String,
}

/// A load that has not started.
#[derive(Clone, Debug)]
pub struct Load {
    address: SocketAddr,
    targets: Vec<LoadTarget>,
    namespace: String,
    rate: u32,
    posts: bool,
    tls: Option<Arc<ClientConfig>>,
}

/// A load that runs until it is stopped.
pub struct Running {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    pacer: JoinHandle<()>,
}

struct Shared {
    load: Load,
    clients: Clients,
    begun: Instant,
    tally: Mutex<Tally>,
    /// Numbers of the requests without a response.
    open: Mutex<BTreeSet<usize>>,
    next: AtomicUsize,
    answered: watch::Sender<u64>,
}

impl LoadTarget {
    /// Returns the root path of a host.
    pub fn new(host: &str, deployment: &str) -> Self {
        Self { host: host.to_owned(), path: "/".to_owned(), deployment: deployment.to_owned() }
    }

    /// Returns the same host with another path.
    #[must_use]
    pub fn path(self, path: &str) -> Self {
        Self { path: path.to_owned(), ..self }
    }
}

impl Load {
    /// Creates a load of 200 requests per second to an address, over these targets in turn.
    pub fn new(
        cluster: &Cluster,
        address: SocketAddr,
        targets: impl IntoIterator<Item = LoadTarget>,
    ) -> Self {
        Self {
            address,
            targets: targets.into_iter().collect(),
            namespace: cluster.namespace.clone(),
            rate: 200,
            posts: true,
            tls: None,
        }
    }

    /// Sets the number of requests per second.
    #[must_use]
    pub fn rate(self, rate: u32) -> Self {
        Self { rate, ..self }
    }

    /// Sends only idempotent requests.
    #[must_use]
    pub fn idempotent(self) -> Self {
        Self { posts: false, ..self }
    }

    /// Uses TLS.
    #[must_use]
    pub fn tls(self, config: Arc<ClientConfig>) -> Self {
        Self { tls: Some(config), ..self }
    }

    /// Starts the load and waits until every target has been answered a few times.
    ///
    /// # Errors
    /// Returns an error if that takes too long, or a request fails: the fault has not even been
    /// injected then.
    pub async fn start(self) -> Result<Running> {
        let needed = 8 * self.targets.len() as u64;
        let shared = Arc::new(Shared {
            clients: Clients::new(self.address, self.tls.clone()),
            begun: Instant::now(),
            tally: Mutex::default(),
            open: Mutex::default(),
            next: AtomicUsize::new(0),
            answered: watch::Sender::new(0),
            load: self,
        });
        let (stop, stopped) = watch::channel(false);
        let running = Running { pacer: tokio::spawn(pace(shared.clone(), stopped)), shared, stop };
        running.more(needed).await?;
        running.so_far().none_failed()?;
        Ok(running)
    }
}

impl Running {
    /// Waits for this number of further responses or failures.
    ///
    /// # Errors
    /// Returns an error if they take too long.
    pub async fn more(&self, count: u64) -> Result<()> {
        let wanted = *self.shared.answered.borrow() + count;
        self.until(&format!("{count} more answers"), |tally| tally.served + tally.failed >= wanted).await
    }

    /// Waits until the results so far fulfil a condition.
    ///
    /// # Errors
    /// Returns an error if it takes too long; the message contains the results.
    pub async fn until(&self, what: &str, condition: impl Fn(&Tally) -> bool) -> Result<()> {
        let mut answered = self.shared.answered.subscribe();
        let waiting = answered.wait_for(|_| condition(&self.shared.tally()));
        if !matches!(timeout(LONGEST_WAIT, waiting).await, Ok(Ok(_))) {
            bail!("waited {} s for {what}: {}", LONGEST_WAIT.as_secs(), self.so_far());
        }
        Ok(())
    }

    /// Waits until every request started so far is complete, so that none overlaps both the last
    /// fault and the next.
    ///
    /// # Errors
    /// Returns an error if it takes too long.
    pub async fn settled(&self) -> Result<()> {
        let begun = self.shared.next.load(Ordering::Relaxed);
        let open = || self.shared.open().first().is_some_and(|oldest| *oldest < begun);
        self.until("all requests to be answered", |_| !open()).await
    }

    /// Returns the results so far.
    pub fn so_far(&self) -> Tally {
        self.shared.tally().clone()
    }

    /// Stops sending, waits for open requests, and prints one line for the record.
    ///
    /// # Errors
    /// Returns an error if the load task panicked.
    pub async fn stop(self, fault: &str) -> Result<Tally> {
        self.stop.send_replace(true);
        self.pacer.await?;
        let tally = self.shared.tally().clone();
        println!("{fault}: {tally}");
        Ok(tally)
    }
}

impl Shared {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> MutexGuard<'_, BTreeSet<usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next request. Methods and targets vary independently of each other.
    fn question(&self) -> Question {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let target = self.load.targets[number % self.load.targets.len()].clone();
        let round = number / self.load.targets.len();
        let method = if self.load.posts && round % 3 == 2 { Method::POST } else { Method::GET };
        self.open().insert(number);
        Question { number, method, kept: round % 4 != 3, target }
    }

    async fn ask(&self, question: Question) {
        let asked = self.begun.elapsed();
        let outcome = timeout(TIMEOUT, self.clients.ask(&question, &self.load.namespace)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(anyhow::anyhow!("no answer in {TIMEOUT:?}")));
        let mut tally = self.tally();
        match outcome {
            Ok(pod) => tally.serve(pod),
            Err(error) => tally.fail(Failure {
                asked,
                after: self.begun.elapsed().saturating_sub(asked),
                what: format!("{question}: {error:#}"),
                method: question.method,
            }),
        }
        let answered = tally.served + tally.failed;
        drop(tally);
        self.open().remove(&question.number);
        self.answered.send_replace(answered);
    }
}

/// Starts requests at their times until the load is stopped, then waits for the open ones.
async fn pace(shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    let mut ticks = interval(Duration::from_secs(1) / shared.load.rate.max(1));
    // After a stall the missed requests are sent at once, so that the rate holds on average.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut asking = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            // An error means that the receiver of the results is gone, which also ends the load.
            _ = stopped.wait_for(|stopped| *stopped) => break,
            Some(_) = asking.join_next() => {}
            _ = ticks.tick(), if asking.len() < AT_ONCE => {
                let (shared, question) = (shared.clone(), shared.question());
                asking.spawn(async move { shared.ask(question).await });
            }
        }
    }
    while asking.join_next().await.is_some() {}
}
