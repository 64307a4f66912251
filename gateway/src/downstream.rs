//! The client's side: the loops of connections (`http1`, `http2`), and what they make of each request: the client as
//! an engine sees it ([`Downstream`](crate::body::downstream::Downstream)).
//!
//! Whoever reads from a connection goes through a `wire`, which keeps what was read ahead.

pub(crate) mod answer;
pub(crate) mod http1;
pub(crate) mod http2;

use std::time::Duration;

use crate::io::deadlines::STALL;
use crate::io::wire::Wire;
use crate::worker::Worker;

/// Bytes of a request body that are read and dropped, so that the connection can go on after an answer that
/// came before the body's end.
pub(crate) const MAX_DRAIN: u64 = 64 * 1024;

/// How long a client may go on sending after it has been answered for the last time.
pub(crate) const LINGER: Duration = Duration::from_secs(5);
/// The same as [`MAX_DRAIN`] for a stream of HTTP/2, which holds up no other request meanwhile.
pub(crate) const MAX_SETTLED: u64 = 1024 * 1024;

/// While the program ends: waits until a connection that is to be closed holds nothing any more that its client has not
/// got. Before that the kernel has all the time it needs.
async fn deliver(wire: &Wire, worker: &Worker) {
    if worker.drain.is_draining() {
        // In a box: once in the life of a connection.
        Box::pin(wire.deliver(STALL)).await;
    }
}
