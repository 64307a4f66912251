//! The client's side: the loops of connections (`http1`, `http2`), and what they make of each request: the client as
//! an engine sees it ([`Downstream`](crate::body::downstream::Downstream)).
//!
//! Whoever reads from a connection goes through a `wire`, which keeps what was read ahead.

pub(crate) mod answer;
pub(crate) mod http1;
pub(crate) mod http2;

use std::cell::Cell;
use std::time::Duration;

use crate::io::deadlines::STALL;
use crate::io::wire::{Patience, Wire};
use crate::worker::Worker;

/// Bytes of a request body that are read and dropped, so that the connection can go on after an answer that
/// came before the body's end.
pub(crate) const MAX_DRAIN: u64 = 64 * 1024;

/// How long the rest of a request body may keep silent, and take altogether, after the last
/// response of a connection: as with nginx (`lingering_timeout`, `lingering_time`).
pub(crate) const LINGER: Duration = Duration::from_secs(5);
const LINGER_IN_TOTAL: Duration = Duration::from_secs(30);
/// Connections of a worker that may take that long at a time; others take no longer than
/// [`CROWDED`].
const MOST_LINGERING: usize = 1024;
const CROWDED: Duration = Duration::from_secs(1);
/// The same as [`MAX_DRAIN`] for a stream of HTTP/2, which holds up no other request meanwhile.
pub(crate) const MAX_SETTLED: u64 = 1024 * 1024;

/// While the program ends: waits until a connection that is to be closed holds nothing any more that its client has not
/// got. Before that the kernel has all the time it needs.
async fn deliver(wire: &mut Wire, worker: &Worker) {
    if worker.drain.is_draining() {
        // In a box: once in the life of a connection.
        Box::pin(wire.deliver(STALL)).await;
    }
}

thread_local! {
    /// Connections of this worker that linger.
    static LINGERING: Cell<usize> = const { Cell::new(0) };
}

/// A connection that lingers, for as long as it lives.
struct Lingering;

impl Lingering {
    fn begin() -> Self {
        LINGERING.set(LINGERING.get() + 1);
        Self
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        LINGERING.set(LINGERING.get() - 1);
    }
}

/// Closes a connection whose client may still be sending, so that it can read the last response:
/// many clients read only when they have sent everything. The end of the program cuts that short.
async fn linger(wire: Box<Wire>, worker: &Worker) {
    let _lingering = Lingering::begin();
    let total = if LINGERING.get() > MOST_LINGERING { CROWDED } else { LINGER_IN_TOTAL };
    let patience = Patience { total, silence: LINGER, bytes: u64::MAX };
    tokio::select! {
        () = wire.linger(patience) => {}
        () = worker.drain.last_call() => {}
    }
}
