//! The client side: connection loops (`http1`, `http2`), and the client of each request as engines
//! use it ([`Downstream`](crate::body::downstream::Downstream)).
//!
//! All reads from a connection go through a `Wire`, which keeps the bytes read ahead.

pub(crate) mod answer;
pub(crate) mod http1;
pub(crate) mod http2;

use std::cell::Cell;
use std::time::Duration;

use crate::io::deadlines::STALL;
use crate::io::wire::{LingerLimits, Wire};
use crate::worker::Worker;

/// Bytes of a request body that are read and dropped so that the connection can be kept after a
/// response that preceded the end of the body.
pub(crate) const MAX_DRAIN: u64 = 64 * 1024;

/// Maximum silence and total time for the rest of a request body after the last response of a
/// connection, as in nginx (`lingering_timeout`, `lingering_time`).
pub(crate) const LINGER: Duration = Duration::from_secs(5);
const LINGER_IN_TOTAL: Duration = Duration::from_secs(30);
/// Connections of a worker that may linger for that long at a time; further ones may for
/// [`CROWDED`].
const MOST_LINGERING: usize = 1024;
const CROWDED: Duration = Duration::from_secs(1);
/// Like [`MAX_DRAIN`], for a stream of HTTP/2, which delays no other request meanwhile.
pub(crate) const MAX_SETTLED: u64 = 1024 * 1024;

/// During shutdown: waits until the client has received everything written to a connection that
/// will be closed. At other times the kernel delivers it after the close.
async fn deliver(wire: &mut Wire, worker: &Worker) {
    if worker.drain.is_draining() {
        // Boxed: it runs once per connection.
        Box::pin(wire.deliver(STALL)).await;
    }
}

thread_local! {
    /// Number of connections of this worker that linger.
    static LINGERING: Cell<usize> = const { Cell::new(0) };
}

/// Counts a lingering connection while it exists.
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

/// Closes a connection whose client may still be sending, such that it can read the last response:
/// many clients read only after they have sent everything. Shutdown ends the wait early.
async fn linger(wire: Box<Wire>, worker: &Worker) {
    let _lingering = Lingering::begin();
    let total = if LINGERING.get() > MOST_LINGERING { CROWDED } else { LINGER_IN_TOTAL };
    let limits = LingerLimits { total, silence: LINGER, bytes: u64::MAX };
    tokio::select! {
        () = wire.linger(limits) => {}
        () = worker.drain.wait_for_closing() => {}
    }
}
