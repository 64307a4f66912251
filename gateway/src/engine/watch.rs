//! Detects that a client has left while nothing is read from it: during a question, or while a
//! connection is made.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use crate::body::downstream::Downstream;

/// Interval of checks for a client whose unread request body fills the buffer.
const LOOK: Duration = Duration::from_millis(100);

/// Runs `work` unless the client leaves first; then returns `None`. So an endpoint that accepts no
/// connections does not hold the descriptors of clients that have given up for all its connect
/// timeouts. `work` is pinned by the caller: an async function would have room for it twice.
pub(super) fn unless_left<'w, T>(
    downstream: &'w mut impl Downstream,
    mut work: Pin<&'w mut impl Future<Output = T>>,
) -> impl Future<Output = Option<T>> {
    let mut watch = Watch::default();
    poll_fn(move |cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => watch.poll(cx, downstream).map(|()| None),
    })
}

/// Detects that a client has left.
#[derive(Debug, Default)]
pub(super) struct Watch {
    look: Option<Pin<Box<Sleep>>>,
}

impl Watch {
    /// Ready when the client has left.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, downstream: &mut impl Downstream) -> Poll<()> {
        if downstream.poll_client_closed(cx, false).is_ready() {
            return Poll::Ready(());
        }
        // The end of the connection is behind a body that is not read yet.
        while !downstream.is_spent() {
            ready!(self.look.get_or_insert_with(|| Box::pin(sleep(LOOK))).as_mut().poll(cx));
            if downstream.has_left() {
                return Poll::Ready(());
            }
            self.look = None;
        }
        Poll::Pending
    }
}
