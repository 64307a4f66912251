//! What attempts have in common, whichever protocol the endpoint speaks: the client, the exchange, and how far the
//! response has come.

use std::task::{Context, Poll};

use super::download::{Download, Receiving};
use crate::body::downstream::Downstream;
use crate::io::alarm::Alarm;
use crate::io::budget::WaitTicket;
use crate::io::deadlines::Deadlines;
use crate::pipeline::{Exchange, FailureKind, Next, Upstream};

/// The client side and the endpoint side of one attempt, without the bodies.
pub(super) struct AttemptIo<'r, D> {
    pub(super) downstream: &'r mut D,
    pub(super) alarm: &'r mut Alarm,
    pub(super) exchange: &'r mut Exchange,
    pub(super) download: &'r mut Download,
    pub(super) upstream: &'r Upstream,
    pub(super) deadlines: Deadlines,
    /// While it waits for memory.
    pub(super) ticket: WaitTicket,
}

impl<D: Downstream> AttemptIo<'_, D> {
    /// Ready when there is memory for what the client may not take.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.deadlines.poll_room_to_respond(cx, &mut self.ticket)
    }

    /// Passes on the interim head that was read.
    pub(super) fn interim(&mut self, cx: &mut Context<'_>) -> Result<(), FailureKind> {
        self.downstream.interim(cx, &mut self.download.response)
    }

    /// Has the pipeline judge the final head that was read, and begins the response with it and with `bytes`, which came
    /// behind it, unless there is something else to do.
    pub(super) fn begin_response(
        &mut self,
        cx: &mut Context<'_>,
        replayable: bool,
        bytes: &[u8],
    ) -> Result<Option<Next>, FailureKind> {
        let status = self.download.response.status;
        let fields = &self.download.response.fields;
        if let Some(next) = self.exchange.upstream_response(status, fields, replayable) {
            self.download.drop_body(bytes);
            return Ok(Some(next));
        }
        let response = &mut self.download.response;
        self.exchange.response(response);
        self.deadlines.body.end();
        let passed = self.downstream.respond(cx, response, bytes);
        // Of what cannot be read nothing was passed on, so that there can still be an answer.
        self.download.started = !matches!(passed, Err(FailureKind::InvalidHead));
        let passed = passed?;
        self.download.state = Receiving::Body;
        self.download.passed(passed, bytes.len());
        Ok(None)
    }

    /// Whether something that was held back goes out now, because the endpoint has nothing more for the moment.
    pub(super) fn pause(&mut self, cx: &mut Context<'_>) -> Result<bool, FailureKind> {
        let Download { state, response, .. } = &mut *self.download;
        match *state {
            Receiving::Body => self.downstream.pause(cx, response),
            Receiving::Head | Receiving::Done => Ok(false),
        }
    }

    /// Whether the endpoint's time runs while nothing comes from it: not while the client sends.
    /// `sending` says that there is more of the request to come.
    pub(super) fn waits_for_endpoint(&self, sending: bool) -> bool {
        !sending || self.download.started
    }

    /// Ready when there is no use in going on: the client has gone, or somebody's time is over.
    pub(super) fn poll_over(&mut self, cx: &mut Context<'_>, sending: bool) -> Poll<FailureKind> {
        if self.downstream.poll_client_closed(cx, sending).is_ready() {
            return Poll::Ready(FailureKind::Client);
        }
        self.deadlines.poll(cx, self.alarm)
    }
}
