//! The open streams of a connection, served by the task of the connection.
//!
//! A task per stream would increment tokio's global task counter, a cache line that all workers
//! write. The other duties of a task are done here: a panic ends only its stream, and only woken
//! streams are polled.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::task::unconstrained;

type Stream = Pin<Box<dyn Future<Output = Result<(), Box<dyn Any + Send>>> + Send>>;

/// The open streams.
#[derive(Default)]
pub(super) struct Serving(FuturesUnordered<Stream>);

impl Serving {
    /// Adds a stream. It is first polled by the next [`poll`](Self::poll).
    pub(super) fn begin(&mut self, stream: impl Future<Output = ()> + Send + 'static) {
        // All input and output of a stream goes through the connection, which is not polled
        // meanwhile. No stream can therefore run for long, and the task's cooperative budget is
        // left to the connection.
        self.0.push(Box::pin(unconstrained(AssertUnwindSafe(stream).catch_unwind())));
    }

    /// Polls the woken streams. `cx` is woken when more can continue.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        // A panic has already been reported.
        while let Poll::Ready(Some(_)) = self.0.poll_next_unpin(cx) {}
    }

    /// Serves the remaining streams to their end.
    pub(super) async fn finish(mut self) {
        while self.0.next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use tokio::task::yield_now;

    use super::*;

    #[tokio::test]
    async fn a_stream_that_panics_ends_alone() {
        let served = Arc::new(AtomicUsize::new(0));
        let mut serving = Serving::default();
        for index in 0..3 {
            let served = served.clone();
            serving.begin(async move {
                yield_now().await;
                assert_ne!(index, 1, "on purpose");
                served.fetch_add(1, Relaxed);
            });
        }
        serving.finish().await;
        assert_eq!(served.load(Relaxed), 2);
    }

    #[tokio::test]
    async fn those_that_wait_are_polled_when_they_are_woken() {
        let polls = Arc::new(AtomicUsize::new(0));
        let (go, waits) = tokio::sync::oneshot::channel();
        let mut serving = Serving::default();
        let counted = polls.clone();
        serving.begin(async move {
            counted.fetch_add(1, Relaxed);
            waits.await.unwrap();
            counted.fetch_add(1, Relaxed);
        });
        let mut cx = Context::from_waker(futures::task::noop_waker_ref());
        serving.poll(&mut cx);
        serving.poll(&mut cx);
        assert_eq!(polls.load(Relaxed), 1);
        go.send(()).unwrap();
        serving.poll(&mut cx);
        assert_eq!(polls.load(Relaxed), 2);
        assert!(serving.0.is_empty());
    }
}
