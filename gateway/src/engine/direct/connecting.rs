//! A client is listened to while its request waits for a connection: an endpoint that does not take connections must
//! not keep those who have given up, each with a descriptor, for the connect timeout of every attempt.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::body::downstream::Downstream;
use crate::engine::watch::Watch;
use crate::pipeline::{Exchange, FailureKind};
use crate::registry::Admission;
use crate::upstream::connect;
use crate::worker::Worker;

/// What is obtained, unless the client leaves before that.
pub(super) async fn unless_left<T>(
    downstream: &mut impl Downstream,
    obtain: impl Future<Output = Result<T, FailureKind>>,
) -> Result<T, FailureKind> {
    let mut obtain = pin!(obtain);
    let mut watch = Watch::default();
    poll_fn(|cx| {
        if let Poll::Ready(obtained) = obtain.as_mut().poll(cx) {
            return Poll::Ready(obtained);
        }
        watch.poll(cx, downstream).map(|()| Err(FailureKind::Client))
    })
    .await
}

/// Admission of new connections for an exchange.
pub(super) struct ConnectionGate<'r> {
    pub(super) worker: &'r Worker,
    pub(super) exchange: &'r mut Exchange,
}

impl connect::ConnectionGate for ConnectionGate<'_> {
    fn clients(&self) -> usize {
        self.worker.drain.shared().connections()
    }

    fn ask(&mut self) -> Admission {
        self.exchange.ask_for_room()
    }

    fn go(&mut self) {
        self.exchange.needs_no_room();
    }
}
