//! The streams of a connection that are under way, and how those before them ended.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use super::rate::Rate;

/// Requests that a client may take back at a time while an endpoint is busy with them, less those that it let be
/// answered. Each of them costs a connection to an endpoint. A browser that leaves a page takes back what it waits
/// for, once.
const CANCELLED: u32 = 500;
/// From then on it may take back one for each of these. Long polls of many users, behind a CDN, stay below.
const CANCELLED_LEAK: Duration = Duration::from_millis(10);
/// Streams of a worker whose endpoints take nothing and that are made up for: 64 MiB with [`super::STREAM_WINDOW`].
const MADE_UP_FOR: usize = 256;
/// The same of one connection, so that it leaves some to the others.
pub(super) const MADE_UP_FOR_ONE: usize = 32;

thread_local! {
    /// Streams of this worker that are made up for.
    static MADE_UP: Cell<usize> = const { Cell::new(0) };
}

/// Counts streams. They are served by the task of their connection, which looks at the counts after it has polled them.
#[derive(Debug)]
pub(crate) struct Streams {
    open: AtomicUsize,
    /// Those whose endpoints take nothing, as far as they are made up for.
    stalled: AtomicUsize,
    /// Those that their clients took back.
    cancelled: Rate,
}

/// A stream under way.
#[derive(Debug)]
pub(crate) struct OpenStream {
    streams: Arc<Streams>,
    stalled: AtomicBool,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            open: AtomicUsize::new(0),
            stalled: AtomicUsize::new(0),
            cancelled: Rate::new(CANCELLED, CANCELLED_LEAK),
        }
    }
}

impl Streams {
    /// Begins one.
    pub(crate) fn open(self: &Arc<Self>) -> OpenStream {
        self.open.fetch_add(1, Relaxed);
        OpenStream { streams: self.clone(), stalled: AtomicBool::new(false) }
    }

    /// How many are under way.
    pub(super) fn under_way(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// How many hold a window that the others are to get in its place.
    pub(super) fn stalled(&self) -> usize {
        self.stalled.load(Relaxed)
    }

    /// Counts how one ended that an endpoint was asked.
    pub(crate) fn ended(&self, cancelled: bool) {
        match cancelled {
            true => self.cancelled.count(),
            false => self.cancelled.forgive(),
        }
    }

    /// Whether too many were taken back.
    pub(super) fn are_cancelled_too_often(&self) -> bool {
        self.cancelled.is_exceeded()
    }
}

impl OpenStream {
    /// Counts how it ended.
    pub(crate) fn ended(&self, cancelled: bool) {
        self.streams.ended(cancelled);
    }

    /// Its endpoint takes nothing of its body, or takes some again.
    pub(crate) fn set_stalled(&self, stalled: bool) {
        let has_room = MADE_UP.get() < MADE_UP_FOR && self.streams.stalled() < MADE_UP_FOR_ONE;
        if self.stalled.load(Relaxed) == stalled || stalled && !has_room {
            return;
        }
        self.stalled.store(stalled, Relaxed);
        match stalled {
            true => {
                MADE_UP.set(MADE_UP.get() + 1);
                self.streams.stalled.fetch_add(1, Relaxed);
            }
            false => {
                MADE_UP.set(MADE_UP.get().saturating_sub(1));
                self.streams.stalled.fetch_sub(1, Relaxed);
            }
        }
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.set_stalled(false);
        self.streams.open.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_makes_up_for_so_many_and_no_more() {
        let connections: Vec<Arc<Streams>> =
            (0..=MADE_UP_FOR / MADE_UP_FOR_ONE).map(|_| Arc::default()).collect();
        let all = || connections.iter().map(|streams| streams.stalled()).sum::<usize>();
        let open: Vec<Vec<OpenStream>> = connections
            .iter()
            .map(|streams| (0..=MADE_UP_FOR_ONE).map(|_| streams.open()).collect())
            .collect();
        for stream in &open[0] {
            stream.set_stalled(true);
            stream.set_stalled(true);
        }
        assert_eq!((all(), MADE_UP.get()), (MADE_UP_FOR_ONE, MADE_UP_FOR_ONE), "one leaves some to others");
        open[0][0].set_stalled(false);
        open[0][MADE_UP_FOR_ONE].set_stalled(true);
        assert_eq!(all(), MADE_UP_FOR_ONE, "it gets the place of another");
        for stream in open.iter().flatten() {
            stream.set_stalled(true);
        }
        assert_eq!((all(), MADE_UP.get()), (MADE_UP_FOR, MADE_UP_FOR));
        drop(open);
        assert_eq!((all(), MADE_UP.get(), connections[0].under_way()), (0, 0, 0));
    }
}
