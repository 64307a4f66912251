//! The open streams of a connection, and statistics of ended ones.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Duration;

use h2::FlowControl;

use super::body_flow::{BodyFlow, BodySum};
use crate::io::rate::LeakyBucket;

/// Requests that a client may cancel at a time while an endpoint serves them, less those that it
/// allowed to finish. Each costs a connection to an endpoint. A browser that leaves a page cancels
/// all its open requests, once.
const CANCELLED: u32 = 500;
/// Beyond that, one request may be cancelled per this time. Long polls of many users behind a CDN
/// stay below.
const CANCELLED_LEAK: Duration = Duration::from_millis(10);
/// The streams of a connection. The task of the connection serves them and reads these counts after
/// polling them.
#[derive(Debug)]
pub(crate) struct Streams {
    open: AtomicUsize,
    /// The request bodies of streams that have one.
    bodies: Mutex<Vec<Arc<BodyFlow>>>,
    /// Bytes of bodies that were read or discarded since the last
    /// [`take_released`](Self::take_released).
    released: AtomicUsize,
    /// Streams that their clients cancelled.
    cancelled: LeakyBucket,
}

/// An open stream.
#[derive(Debug)]
pub(crate) struct OpenStream {
    streams: Arc<Streams>,
    body: Option<Arc<BodyFlow>>,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            open: AtomicUsize::new(0),
            bodies: Mutex::default(),
            released: AtomicUsize::new(0),
            cancelled: LeakyBucket::new(CANCELLED, CANCELLED_LEAK),
        }
    }
}

impl Streams {
    /// Opens a stream.
    pub(crate) fn open(self: &Arc<Self>) -> OpenStream {
        self.open.fetch_add(1, Relaxed);
        OpenStream { streams: self.clone(), body: None }
    }

    /// Returns the number of open streams.
    pub(super) fn under_way(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// Returns whether any stream has a request body.
    pub(super) fn have_bodies(&self) -> bool {
        !self.bodies().is_empty()
    }

    /// Returns what the request bodies need and hold.
    pub(super) fn sum_bodies(&self) -> BodySum {
        let mut sum = BodySum::default();
        self.bodies().iter().for_each(|body| sum.add(body));
        sum
    }

    /// Returns the bytes of bodies that were read or discarded since the previous call.
    pub(super) fn take_released(&self) -> usize {
        self.released.swap(0, Relaxed)
    }

    /// Resets the stream that holds most bytes of a body that is not being read.
    pub(super) fn shed_body(&self) {
        let largest = self.bodies().iter().max_by_key(|body| body.waiting()).cloned();
        if let Some(body) = largest {
            body.shed();
        }
    }

    fn bodies(&self) -> MutexGuard<'_, Vec<Arc<BodyFlow>>> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records how a stream ended that had reached an endpoint.
    pub(crate) fn ended(&self, cancelled: bool) {
        match cancelled {
            true => self.cancelled.count(),
            false => self.cancelled.forgive(),
        }
    }

    /// Returns whether too many streams were cancelled.
    pub(super) fn are_cancelled_too_often(&self) -> bool {
        self.cancelled.is_exceeded()
    }
}

impl OpenStream {
    /// Records how the stream ended.
    pub(crate) fn ended(&self, cancelled: bool) {
        self.streams.ended(cancelled);
    }

    /// Registers the request body of the stream.
    pub(super) fn begin_body(&mut self, flow: FlowControl) {
        let body = Arc::new(BodyFlow::new(flow));
        self.streams.bodies().push(body.clone());
        self.body = Some(body);
    }

    /// Marks its request body as being read. `left` is the number of missing bytes, if known.
    pub(super) fn reads(&self, left: Option<u64>) {
        if let Some(body) = &self.body {
            body.reads(left);
        }
    }

    /// Marks its request body as not being read for now.
    pub(super) fn waits(&self) {
        if let Some(body) = &self.body {
            body.waits();
        }
    }

    /// Counts bytes of its request body that were read.
    pub(super) fn count_released(&self, bytes: usize) {
        if let Some(body) = &self.body {
            body.count(bytes);
            self.streams.released.fetch_add(bytes, Relaxed);
        }
    }

    /// Returns the bytes of its request body that `h2` holds while the body is not being read.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.body.as_ref().map_or(0, |body| body.waiting())
    }

    /// Returns whether the stream is to be reset because others need its window. If not, `cx` is
    /// woken when it is.
    pub(super) fn is_shed(&self, cx: &Context<'_>) -> bool {
        self.body.as_ref().is_some_and(|body| body.is_shed(cx))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if let Some(body) = &self.body {
            self.streams.bodies().retain(|other| !Arc::ptr_eq(other, body));
            // `h2` discards what it still holds.
            self.streams.released.fetch_add(body.held(), Relaxed);
        }
        self.streams.open.fetch_sub(1, Relaxed);
    }
}
