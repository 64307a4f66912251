//! The streams of a connection that are under way, and how those before them ended.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Duration;

use h2::FlowControl;

use super::rate::Rate;
use super::window::{BodyFlow, BodySum};

/// Requests that a client may take back at a time while an endpoint is busy with them, less those that it let be
/// answered. Each of them costs a connection to an endpoint. A browser that leaves a page takes back what it waits
/// for, once.
const CANCELLED: u32 = 500;
/// From then on it may take back one for each of these. Long polls of many users, behind a CDN, stay below.
const CANCELLED_LEAK: Duration = Duration::from_millis(10);
/// Counts streams. They are served by the task of their connection, which looks at the counts after it has polled them.
#[derive(Debug)]
pub(crate) struct Streams {
    open: AtomicUsize,
    /// The request bodies of those that have one.
    bodies: Mutex<Vec<Arc<BodyFlow>>>,
    /// Bytes of bodies that were read since the connection has looked.
    released: AtomicUsize,
    /// Those that their clients took back.
    cancelled: Rate,
}

/// A stream under way.
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
            cancelled: Rate::new(CANCELLED, CANCELLED_LEAK),
        }
    }
}

impl Streams {
    /// Begins one.
    pub(crate) fn open(self: &Arc<Self>) -> OpenStream {
        self.open.fetch_add(1, Relaxed);
        OpenStream { streams: self.clone(), body: None }
    }

    /// How many are under way.
    pub(super) fn under_way(&self) -> usize {
        self.open.load(Relaxed)
    }

    /// Whether any has a request body.
    pub(super) fn have_bodies(&self) -> bool {
        !self.bodies().is_empty()
    }

    /// What their bodies need and hold.
    pub(super) fn sum_bodies(&self) -> BodySum {
        let mut sum = BodySum::default();
        self.bodies().iter().for_each(|body| sum.add(body));
        sum
    }

    /// Bytes of bodies that were read since the call before.
    pub(super) fn take_released(&self) -> usize {
        self.released.swap(0, Relaxed)
    }

    /// Ends the stream that holds most of a body that nobody reads.
    pub(super) fn shed_body(&self) {
        let largest = self.bodies().iter().max_by_key(|body| body.waiting()).cloned();
        if let Some(body) = largest {
            body.shed();
        }
    }

    fn bodies(&self) -> MutexGuard<'_, Vec<Arc<BodyFlow>>> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// It has a request body.
    pub(super) fn begin_body(&mut self, flow: FlowControl) {
        let body = Arc::new(BodyFlow::new(flow));
        self.streams.bodies().push(body.clone());
        self.body = Some(body);
    }

    /// Its request body is being read, and so much of it is missing, if that is known.
    pub(super) fn reads(&self, left: Option<u64>) {
        if let Some(body) = &self.body {
            body.reads(left);
        }
    }

    /// Nobody reads its request body for now.
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

    /// Whether it ends because others need its window; if not, `cx` is woken when it does.
    pub(super) fn is_shed(&self, cx: &Context<'_>) -> bool {
        self.body.as_ref().is_some_and(|body| body.is_shed(cx))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if let Some(body) = &self.body {
            self.streams.bodies().retain(|other| !Arc::ptr_eq(other, body));
        }
        self.streams.open.fetch_sub(1, Relaxed);
    }
}
