//! An eye on a client from which nothing is read for a while.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Sleep, sleep};

use crate::body::downstream::Downstream;

/// Between two looks whether a client has left whose request body fills the buffer.
const LOOK: Duration = Duration::from_millis(100);

/// Watches a client.
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
        // Behind a body that is not read yet.
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
