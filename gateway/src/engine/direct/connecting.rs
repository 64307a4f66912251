//! A client is listened to while its request waits for a connection: an endpoint that does not take connections must
//! not keep those who have given up, each with a descriptor, for the connect timeout of every attempt.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use tokio::time::Instant;

use crate::engine::downstream::Downstream;
use crate::engine::watch::Watch;
use crate::pipeline::{FailureKind, Upstream};
use crate::upstream::connect::{self, Room};
use crate::upstream::connection::Connection;

/// A connection to the endpoint, unless the client leaves before there is one. `waited_since` is when the request first
/// had to wait for room, in any attempt.
pub(super) async fn connection(
    upstream: &Upstream,
    downstream: &mut impl Downstream,
    room: &mut impl Room,
    waited_since: &mut Option<Instant>,
) -> Result<Connection, FailureKind> {
    let mut obtain = pin!(connect::obtain(upstream, room, waited_since));
    let mut watch = Watch::default();
    poll_fn(|cx| {
        if let Poll::Ready(obtained) = obtain.as_mut().poll(cx) {
            return Poll::Ready(obtained);
        }
        watch.poll(cx, downstream).map(|()| Err(FailureKind::Client))
    })
    .await
}
