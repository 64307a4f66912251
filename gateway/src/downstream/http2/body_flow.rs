//! The request bodies of a connection: the bytes that `h2` holds, and those that are needed.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

use h2::FlowControl;

/// Bytes of a stream that may wait for an endpoint, with memory to spare.
pub(super) const STREAM_WINDOW: u32 = 256 * 1024;
/// Bodies with fewer bytes left need no larger window.
pub(super) const SMALL: usize = 16 * 1024;

/// The request body of a stream: the bytes that `h2` holds, and whether it is being read.
#[derive(Debug)]
pub(super) struct BodyFlow {
    flow: FlowControl,
    is_reading: AtomicBool,
    /// Bytes that the client may still send, as far as they affect the window.
    missing: AtomicUsize,
    /// Bytes that were read.
    read: AtomicU64,
    /// The stream was chosen to be reset.
    is_shed: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

/// What the bodies of a connection need and hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BodySum {
    pub(super) is_reading: bool,
    /// Bytes that reading streams need at a time.
    pub(super) needed: usize,
    /// Bytes that `h2` holds for waiting streams.
    pub(super) waiting: usize,
    /// Bytes that `h2` holds for all streams.
    pub(super) all: usize,
}

impl BodyFlow {
    pub(super) fn new(flow: FlowControl) -> Self {
        Self {
            flow,
            is_reading: AtomicBool::new(false),
            missing: AtomicUsize::new(0),
            read: AtomicU64::new(0),
            is_shed: AtomicBool::new(false),
            waker: Mutex::default(),
        }
    }

    /// Returns the bytes that `h2` holds.
    pub(super) fn held(&self) -> usize {
        self.flow.used_capacity()
    }

    /// Returns the bytes that `h2` holds while the body is not being read.
    pub(super) fn waiting(&self) -> usize {
        if self.is_reading.load(Relaxed) { 0 } else { self.held() }
    }

    /// Marks the body as being read. `left` is the number of missing bytes, if known.
    pub(super) fn reads(&self, left: Option<u64>) {
        let left = left.map_or_else(
            // A body of unknown length gets more window once it proves to be long.
            || if self.read.load(Relaxed) < SMALL as u64 { 0 } else { usize::MAX },
            |left| usize::try_from(left).unwrap_or(usize::MAX),
        );
        let missing = if left < SMALL { 0 } else { left.min(STREAM_WINDOW as usize) };
        self.missing.store(missing, Relaxed);
        self.is_reading.store(true, Relaxed);
    }

    /// Marks the body as not being read for now.
    pub(super) fn waits(&self) {
        self.is_reading.store(false, Relaxed);
    }

    /// Counts bytes that were read.
    pub(super) fn count(&self, bytes: usize) {
        self.read.fetch_add(bytes as u64, Relaxed);
    }

    /// Returns whether the stream is to be reset. If not, `cx` is woken when it is.
    pub(super) fn is_shed(&self, cx: &Context<'_>) -> bool {
        if self.is_shed.load(Relaxed) {
            return true;
        }
        let mut waker = self.waker();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        false
    }

    /// Marks the stream to be reset and wakes it.
    pub(super) fn shed(&self) {
        self.is_shed.store(true, Relaxed);
        let waker = self.waker().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BodySum {
    /// Adds one body.
    pub(super) fn add(&mut self, body: &BodyFlow) {
        let held = body.held();
        self.all += held;
        if body.is_reading.load(Relaxed) {
            self.is_reading = true;
            self.needed += body.missing.load(Relaxed);
        } else {
            self.waiting += held;
        }
    }
}
