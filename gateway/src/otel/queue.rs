//! The queue between requests and the task that sends what they leave.
//!
//! Workers add without a lock: the channel is unbounded, and a counter bounds it. The task looks
//! into the queue at intervals; a worker wakes it only when a whole batch waits.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Mutex, PoisonError};

use sluice_config::TraceSettings;
use tokio::sync::{Notify, mpsc, watch};

use super::signal::Signal;

/// The sending side, with the counters.
pub(crate) struct Queue<S: Signal> {
    sender: mpsc::UnboundedSender<S::Item>,
    /// Records in the queue.
    waiting: AtomicUsize,
    /// Maximum of `waiting`.
    limit: AtomicUsize,
    /// Number of waiting records at which the task is woken.
    batch: AtomicUsize,
    pub(super) is_full_batch: Notify,
    pub(super) closing: watch::Sender<bool>,
    queued: Mutex<Option<Queued<S>>>,
    exported: AtomicU64,
    dropped: [AtomicU64; DropReason::ALL.len()],
}

/// The receiving side.
pub(super) struct Queued<S: Signal>(mpsc::UnboundedReceiver<S::Item>);

/// Why a record was not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DropReason {
    /// The queue was full.
    QueueFull,
    /// The collector could not be reached in time.
    Unavailable,
    /// The collector refused it.
    Rejected,
}

/// Numbers of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExportCounts {
    /// Accepted by the collector.
    pub(crate) exported: u64,
    /// Not sent, by reason.
    dropped: [u64; DropReason::ALL.len()],
    /// In the queue.
    pub(crate) waiting: usize,
}

impl DropReason {
    const ALL: [Self; 3] = [Self::QueueFull, Self::Unavailable, Self::Rejected];

    fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Unavailable => "unavailable",
            Self::Rejected => "rejected",
        }
    }
}

impl ExportCounts {
    /// Returns each reason with the number of records that were not sent for it.
    pub(crate) fn dropped_by_reason(self) -> impl Iterator<Item = (&'static str, u64)> {
        DropReason::ALL.map(DropReason::as_str).into_iter().zip(self.dropped)
    }
}

impl<S: Signal> Queue<S> {
    /// Creates a queue with the default limits.
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let queue = Self {
            sender,
            waiting: AtomicUsize::new(0),
            limit: AtomicUsize::new(0),
            batch: AtomicUsize::new(0),
            is_full_batch: Notify::new(),
            closing: watch::Sender::new(false),
            queued: Mutex::new(Some(Queued(receiver))),
            exported: AtomicU64::new(0),
            dropped: Default::default(),
        };
        queue.set_limits(&TraceSettings::default());
        queue
    }

    /// Returns the receiving side to the first caller.
    pub(super) fn receiver(&self) -> Option<Queued<S>> {
        self.queued.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Changes the limits.
    pub(crate) fn set_limits(&self, settings: &TraceSettings) {
        self.limit.store(settings.queue as usize, Relaxed);
        self.batch.store((settings.batch.min(settings.queue) as usize).max(1), Relaxed);
    }

    /// Adds the records of a request, unless they do not fit. Never blocks.
    pub(crate) fn push(&self, item: S::Item) {
        let count = S::count(&item);
        let before = self.waiting.fetch_add(count, Relaxed);
        if before + count > self.limit.load(Relaxed) || self.sender.send(item).is_err() {
            self.waiting.fetch_sub(count, Relaxed);
            self.count_dropped(DropReason::QueueFull, count);
            return;
        }
        let batch = self.batch.load(Relaxed);
        if before < batch && before + count >= batch {
            self.is_full_batch.notify_one();
        }
    }

    /// Lets the task send what waits, once, and end.
    pub(crate) fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Takes items that have about as many records, at least one item if any waits.
    pub(super) fn take(&self, queued: &mut Queued<S>, records: usize) -> Vec<S::Item> {
        let (mut taken, mut count) = (Vec::new(), 0);
        while count < records
            && let Ok(item) = queued.0.try_recv()
        {
            count += S::count(&item);
            taken.push(item);
        }
        self.waiting.fetch_sub(count, Relaxed);
        taken
    }

    pub(super) fn count_exported(&self, records: usize) {
        self.exported.fetch_add(records as u64, Relaxed);
    }

    pub(super) fn count_dropped(&self, reason: DropReason, records: usize) {
        self.dropped[reason as usize].fetch_add(records as u64, Relaxed);
    }

    /// Returns the numbers so far.
    pub(crate) fn counts(&self) -> ExportCounts {
        ExportCounts {
            exported: self.exported.load(Relaxed),
            dropped: self.dropped.each_ref().map(|count| count.load(Relaxed)),
            waiting: self.waiting.load(Relaxed),
        }
    }
}

impl<S: Signal> fmt::Debug for Queue<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple(S::NAME).field(&self.counts()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;
    use crate::otel::record::tests::request_trace;
    use crate::otel::signal::Spans;

    fn queue(limit: u32, batch: u32) -> Queue<Spans> {
        let queue = Queue::new();
        queue.set_limits(&TraceSettings { queue: limit, batch, ..TraceSettings::default() });
        queue
    }

    #[test]
    fn a_full_queue_drops_and_counts_spans() {
        let queue = queue(5, 2);
        for _ in 0..4 {
            queue.push(request_trace(1));
        }
        let ExportCounts { dropped, waiting, .. } = queue.counts();
        assert_eq!((dropped[0], waiting), (4, 4));
        let mut receiver = queue.receiver().unwrap();
        assert!(queue.receiver().is_none());
        assert_eq!(queue.take(&mut receiver, 1).len(), 1, "a request is taken as a whole");
        assert_eq!(queue.counts().waiting, 2);
        queue.push(request_trace(1));
        assert_eq!(queue.take(&mut receiver, 100).len(), 2);
        assert_eq!(queue.counts().waiting, 0);
    }

    #[test]
    fn threads_never_exceed_the_limit() {
        let queue = Arc::new(queue(100, 10));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || (0..1000).for_each(|_| queue.push(request_trace(2))))
            })
            .collect();
        let mut receiver = queue.receiver().unwrap();
        let mut taken = 0;
        while !threads.iter().all(thread::JoinHandle::is_finished) {
            assert!(queue.counts().waiting <= 100 + 4 * 3, "at most what the threads are about to give back");
            taken += queue.take(&mut receiver, 7).len() * 3;
        }
        taken += queue.take(&mut receiver, usize::MAX).len() * 3;
        let ExportCounts { dropped, waiting, .. } = queue.counts();
        assert_eq!((taken as u64 + dropped[0], waiting), (12_000, 0));
    }

    #[tokio::test]
    async fn a_complete_batch_wakes_the_task_once() {
        let queue = queue(10, 3);
        queue.push(request_trace(0));
        queue.push(request_trace(1));
        queue.is_full_batch.notified().await;
        queue.push(request_trace(1));
        let again = tokio::time::timeout(std::time::Duration::from_millis(1), queue.is_full_batch.notified());
        assert!(again.await.is_err(), "it is awake");
    }
}
