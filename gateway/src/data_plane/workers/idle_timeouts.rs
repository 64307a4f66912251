//! Closes connections that have waited too long for a request, or are too many since the limit was
//! lowered.

use std::sync::Arc;
use std::time::Instant;

use crate::connection::drain::ShutdownPhase;
use crate::connection::idle::expiry::WaitLimits;
use crate::worker::Worker;

/// Looks at the connections of this worker from time to time. Never ends.
pub(super) async fn enforce(worker: Arc<Worker>) {
    let drain = worker.drain.shared().clone();
    let mut phase = drain.subscribe();
    let mut closing = None;
    loop {
        if *phase.borrow_and_update() == ShutdownPhase::Closing {
            closing.get_or_insert_with(Instant::now);
        }
        let limits = closing.map_or_else(|| WaitLimits::of(&worker.state.settings()), WaitLimits::of_closing);
        drain.expire(&limits, Instant::now());
        drain.close_excess(worker.client_limit());
        tokio::select! {
            () = tokio::time::sleep(limits.interval()) => {}
            Ok(()) = phase.changed() => {}
        }
    }
}
