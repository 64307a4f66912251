//! The task that sends spans or log records to the collector.
//!
//! It sends a batch when one is complete, or when the oldest record has waited for the delay. A
//! batch that the collector does not accept is sent again at growing intervals for a minute;
//! meanwhile the queue fills and drops further records.

mod connection;

use std::sync::Arc;
use std::time::Duration;

use prost::Message;
use sluice_config::text::one_line;
use sluice_config::{Collector, TraceSettings};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use self::connection::{Connection, ExportError};
use super::queue::{DropReason, Queue, Queued};
use super::signal::Signal;

/// Time limit of an export, with the look-up of the name and the connection (OTLP's default).
const DEADLINE: Duration = Duration::from_secs(10);
/// Time after which a batch that was not accepted is dropped.
const LONGEST_RETRY: Duration = Duration::from_secs(60);
/// The first interval between two attempts; it doubles up to the last one.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Maximum length of a message of the collector in problems.
const LONGEST_MESSAGE: usize = 200;

/// Why a collector does not accept records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CollectorFault {
    /// Its host and port.
    pub(crate) collector: String,
    /// Completes "the collector ...".
    pub(crate) reason: String,
}

/// The task. `Read` returns the current settings; `Report` gets each fault, and `None` once the
/// collector accepts records or is not used any more.
pub(crate) struct Exporter<S: Signal, Read, Report> {
    queue: Arc<Queue<S>>,
    /// Name of the machine or Pod, for `service.instance.id`.
    instance: &'static str,
    queued: Queued<S>,
    /// Signals that `read` may return other settings.
    updates: watch::Receiver<()>,
    read: Read,
    report: Report,
    settings: TraceSettings,
    closing: watch::Receiver<bool>,
    connection: Option<Connection>,
    /// Records of a request that did not fit into the last batch.
    rest: Vec<S::Record>,
}

/// Why a pause ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    Due,
    /// The settings have changed.
    Changed,
    Closing,
}

impl<S, Read, Report> Exporter<S, Read, Report>
where
    S: Signal,
    Read: Fn() -> TraceSettings,
    Report: Fn(Option<CollectorFault>),
{
    /// Creates the task of a queue; `None` if it has one.
    pub(crate) fn new(
        queue: Arc<Queue<S>>,
        instance: &'static str,
        updates: watch::Receiver<()>,
        read: Read,
        report: Report,
    ) -> Option<Self> {
        Some(Self {
            queued: queue.receiver()?,
            closing: queue.closing.subscribe(),
            queue,
            instance,
            updates,
            read,
            report,
            settings: TraceSettings::default(),
            connection: None,
            rest: Vec::new(),
        })
    }

    /// Sends records until the queue is closed.
    pub(crate) async fn run(mut self) {
        self.follow();
        loop {
            let began = Instant::now();
            let wake = loop {
                let due = self.settings.collector.as_ref().map(|_| began + self.settings.delay);
                match self.pause(due, true).await {
                    Wake::Changed => {}
                    wake => break wake,
                }
            };
            self.send_waiting().await;
            if wake == Wake::Closing {
                return;
            }
        }
    }

    /// Waits until a time, and if `wakes_for_batch`, at most until a batch is complete.
    async fn pause(&mut self, due: Option<Instant>, wakes_for_batch: bool) -> Wake {
        loop {
            let sleep = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            let Self { queue, updates, closing, .. } = self;
            let updated = tokio::select! {
                () = sleep => return Wake::Due,
                () = queue.is_full_batch.notified(), if wakes_for_batch => return Wake::Due,
                () = until_closing(closing) => return Wake::Closing,
                updated = updates.changed() => updated,
            };
            match updated {
                Ok(()) if self.follow() => return Wake::Changed,
                Ok(()) => {}
                Err(_) => return Wake::Closing,
            }
        }
    }

    /// Takes over the current settings. Returns whether they have changed.
    fn follow(&mut self) -> bool {
        let settings = (self.read)();
        if settings == self.settings {
            return false;
        }
        if settings.collector != self.settings.collector {
            self.connection = None;
            (self.report)(None);
        }
        self.queue.set_limits(&settings);
        self.settings = settings;
        true
    }

    /// Sends batches until the queue is empty.
    async fn send_waiting(&mut self) {
        loop {
            if self.updates.has_changed().unwrap_or(false) {
                self.updates.mark_unchanged();
                self.follow();
            }
            let batch = self.next_batch();
            if batch.is_empty() {
                return;
            }
            let count = batch.len();
            let request = S::request(&self.settings.service_name, self.instance, batch);
            self.deliver(&request.encode_to_vec(), count).await;
        }
    }

    fn next_batch(&mut self) -> Vec<S::Record> {
        let size = self.settings.batch as usize;
        let mut batch = std::mem::take(&mut self.rest);
        for item in self.queue.take(&mut self.queued, size.saturating_sub(batch.len())) {
            S::push(&mut batch, &item);
        }
        self.rest = batch.split_off(size.min(batch.len()));
        batch
    }

    /// Sends a batch until the collector has decided on it, or the time for that is over.
    async fn deliver(&mut self, request: &[u8], count: usize) {
        let (began, mut pause) = (Instant::now(), SHORTEST_PAUSE);
        loop {
            let Some(collector) = self.settings.collector.clone() else {
                return self.queue.count_dropped(DropReason::Unavailable, count);
            };
            let error = match self.attempt(&collector, request).await {
                Ok(response) => return self.accepted(&collector, response, count),
                Err(error) => error,
            };
            self.connection = None;
            self.report_fault(&collector, error.to_string());
            if !error.is_retryable() {
                return self.queue.count_dropped(DropReason::Rejected, count);
            }
            let is_over = began.elapsed() >= LONGEST_RETRY || *self.closing.borrow();
            if is_over || self.pause(Some(Instant::now() + jittered(pause)), false).await == Wake::Closing {
                return self.queue.count_dropped(DropReason::Unavailable, count);
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn attempt(&mut self, collector: &Collector, request: &[u8]) -> Result<S::Response, ExportError> {
        let connection = self.connection.take().filter(Connection::is_open);
        let export = async {
            let mut connection = match connection {
                Some(connection) => connection,
                None => Connection::open(collector).await?,
            };
            let response = connection.export::<S>(collector, request).await?;
            Ok::<_, ExportError>((connection, response))
        };
        let (connection, response) = timeout(DEADLINE, export).await.unwrap_or(Err(ExportError::Timeout))?;
        self.connection = Some(connection);
        Ok(response)
    }

    /// Counts the records of a batch that the collector has received.
    fn accepted(&self, collector: &Collector, response: S::Response, count: usize) {
        let (rejected, message) = S::rejected(response);
        let rejected = usize::try_from(rejected).unwrap_or(0).min(count);
        self.queue.count_exported(count - rejected);
        if rejected == 0 {
            return (self.report)(None);
        }
        self.queue.count_dropped(DropReason::Rejected, rejected);
        let reason = format!("does not accept some {}: {}", S::NAME, one_line(&message, LONGEST_MESSAGE));
        self.report_fault(collector, reason);
    }

    fn report_fault(&self, collector: &Collector, reason: String) {
        let collector = format!("{}:{}", collector.host, collector.port);
        (self.report)(Some(CollectorFault { collector, reason }));
    }
}

async fn until_closing(closing: &mut watch::Receiver<bool>) {
    // The sender lives as long as the queue.
    let _ = closing.wait_for(|closing| *closing).await;
}

/// Returns between half of a time and all of it, so that replicas do not ask together.
fn jittered(time: Duration) -> Duration {
    time.mul_f64(0.5 + fastrand::f64() / 2.0)
}
