//! The parts of an attempt that do not depend on the endpoint's protocol: client side, originator,
//! and progress of the response.

use std::task::{Context, Poll};

use super::download::{Download, Receiving};
use crate::body::downstream::Downstream;
use crate::io::alarm::Alarm;
use crate::io::budget::WaitTicket;
use crate::io::deadlines::Deadlines;
use crate::pipeline::{Failure, FailureKind, Next, Originator, Upstream};
use crate::upstream::connection::Connection;

/// The client side and the endpoint side of one attempt, without the bodies.
pub(super) struct AttemptIo<'r, D, O> {
    pub(super) downstream: &'r mut D,
    pub(super) alarm: &'r mut Alarm,
    pub(super) originator: &'r mut O,
    pub(super) download: &'r mut Download,
    pub(super) upstream: &'r Upstream,
    pub(super) deadlines: Deadlines,
    /// Held while the attempt waits for memory.
    pub(super) ticket: WaitTicket,
}

/// The endpoint's connection of an attempt that has failed, and what was sent over it.
pub(super) struct FailedConnection<'c> {
    pub(super) connection: &'c Connection,
    /// The endpoint has closed it in order.
    pub(super) closed: bool,
    /// Bytes of the request that its socket has taken.
    pub(super) sent: u64,
    /// The request can be sent again.
    pub(super) replayable: bool,
}

impl FailedConnection<'_> {
    /// Whether the endpoint certainly closed its connection before any byte of the request reached
    /// it.
    fn is_untouched(&self) -> bool {
        self.sent == 0 || self.closed && self.connection.has_delivered_none_of(self.sent)
    }
}

impl<D: Downstream, O: Originator> AttemptIo<'_, D, O> {
    /// Reports a failure of an attempt over a connection that serves one request at a time.
    pub(super) fn failed(&mut self, kind: FailureKind, over: &FailedConnection<'_>) -> Next<O::Answer> {
        let Download { heard, started, .. } = *self.download;
        let is_broken = kind == FailureKind::Broken;
        self.originator.failed(Failure {
            kind,
            stale: is_broken && over.connection.reused && !heard,
            sent: !is_broken || heard || !over.is_untouched(),
            replayable: over.replayable,
            response_started: started,
        })
    }

    /// Ready when there is memory for bytes that the client may not accept yet.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.deadlines.poll_room_to_respond(cx, &mut self.ticket)
    }

    /// Forwards the interim head that was read.
    pub(super) fn interim(&mut self, cx: &mut Context<'_>) -> Result<(), FailureKind> {
        self.originator.interim(&mut self.download.response);
        self.downstream.interim(cx, &mut self.download.response)
    }

    /// Passes the final head to the originator and begins the response with it and with `bytes`,
    /// which arrived behind it. Returns the next step if the response is not relayed.
    pub(super) fn begin_response(
        &mut self,
        cx: &mut Context<'_>,
        replayable: bool,
        bytes: &[u8],
    ) -> Result<Option<Next<O::Answer>>, FailureKind> {
        let status = self.download.response.status;
        let fields = &self.download.response.fields;
        if let Some(next) = self.originator.upstream_response(status, fields, replayable) {
            self.download.drop_body(bytes);
            return Ok(Some(next));
        }
        let response = &mut self.download.response;
        self.originator.response(response);
        self.deadlines.body.end();
        let passed = self.downstream.respond(cx, response, bytes);
        // Nothing of an unreadable body was forwarded, so an answer is still possible.
        self.download.started = !matches!(passed, Err(FailureKind::InvalidHead));
        let passed = passed?;
        self.download.state = Receiving::Body;
        self.download.passed(passed, bytes.len());
        Ok(None)
    }

    /// Sends bytes that a stage held back, because the endpoint pauses. Returns whether there were
    /// any.
    pub(super) fn pause(&mut self, cx: &mut Context<'_>) -> Result<bool, FailureKind> {
        let Download { state, response, .. } = &mut *self.download;
        match *state {
            Receiving::Body => self.downstream.pause(cx, response),
            Receiving::Head | Receiving::Done => Ok(false),
        }
    }

    /// Whether the read timeout runs while the endpoint is silent: not while the client still sends
    /// its request (`sending`).
    pub(super) fn waits_for_endpoint(&self, sending: bool) -> bool {
        !sending || self.download.started
    }

    /// Ready when the attempt must end: the client has left, or a deadline has passed.
    pub(super) fn poll_over(&mut self, cx: &mut Context<'_>, sending: bool) -> Poll<FailureKind> {
        self.downstream.poll_over(cx, sending, &mut self.deadlines, self.alarm)
    }
}
