//! Responses that end with their connection: at `worker-shutdown-timeout` the future of a request
//! is dropped, and its log line still has the status and the bytes that the client received.

use http::StatusCode;

use super::ForwardCounts;
use crate::body::downstream::Downstream;
use crate::pipeline::{Exchange, ExchangeOutcome};

/// An exchange whose response is sent to a client side. It ends if this is dropped with a status.
pub(super) struct CutOff<'r, D: Downstream> {
    pub(super) exchange: &'r mut Exchange,
    pub(super) downstream: &'r mut D,
    /// The status that was sent. `None` before the head and after the end.
    pub(super) status: Option<StatusCode>,
}

impl<D: Downstream> Drop for CutOff<'_, D> {
    fn drop(&mut self) {
        let counts = ForwardCounts { status: self.status.take(), ..ForwardCounts::default() };
        end(self.exchange, &counts, self.downstream);
    }
}

/// Ends an exchange whose response was cut off after its head was sent. Without a status it ends
/// like any other that is dropped.
pub(super) fn end(exchange: &mut Exchange, counts: &ForwardCounts, downstream: &impl Downstream) {
    if counts.status.is_some() {
        exchange.end(outcome(counts, downstream));
    }
}

/// Returns the outcome of a response that was cut off.
pub(super) fn outcome(counts: &ForwardCounts, downstream: &impl Downstream) -> ExchangeOutcome {
    let (bytes_sent, body_sent) = downstream.sent();
    ExchangeOutcome { bytes_sent, body_sent, aborted: true, ..counts.outcome() }
}
