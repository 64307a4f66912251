//! The streams of a connection that are under way, and how those before them ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::Context;

use futures::task::AtomicWaker;

/// Counts streams.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: AtomicUsize,
    /// Those that their clients took back, less those that were answered.
    cancelled: AtomicUsize,
    /// The connection, which waits for the last one to end.
    connection: AtomicWaker,
}

/// A stream under way.
#[derive(Debug)]
pub(super) struct OpenStream(Arc<Streams>);

impl Streams {
    /// Begins one.
    pub(super) fn open(self: &Arc<Self>) -> OpenStream {
        self.open.fetch_add(1, Relaxed);
        OpenStream(self.clone())
    }

    /// How many are under way.
    pub(super) fn under_way(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// How many were taken back, less those that were answered.
    pub(super) fn cancelled(&self) -> usize {
        self.cancelled.load(Relaxed)
    }

    /// Whether none is under way. If there are some, the caller is woken when the last one ends.
    pub(super) fn poll_none(&self, cx: &mut Context<'_>) -> bool {
        if self.under_way() == 0 {
            return true;
        }
        self.connection.register(cx.waker());
        false
    }
}

impl OpenStream {
    /// Counts how it ended. All streams of a connection are served by one thread.
    pub(super) fn ended(&self, cancelled: bool) {
        let before = self.0.cancelled.load(Relaxed);
        let now = if cancelled { before + 1 } else { before.saturating_sub(1) };
        self.0.cancelled.store(now, Relaxed);
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Relaxed) == 1 {
            self.0.connection.wake();
        }
    }
}
