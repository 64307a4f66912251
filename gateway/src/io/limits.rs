//! How long either side may keep a request waiting. A limit begins to run when something must be waited for, and
//! ends with the next byte; the earliest one is what the connection's timer is set to.

use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use crate::failure::FailureKind;
use crate::io::alarm::Alarm;
use crate::io::budget::{self, Ticket};

/// How long the client may let a part of the response wait (nginx's `send_timeout`).
pub(crate) const STALL: Duration = Duration::from_secs(60);

/// The limits that run.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// For the next bytes of the response.
    pub(crate) read: Limit,
    /// For the endpoint to take more of the request.
    pub(crate) send: Limit,
    /// For the next bytes of the request body.
    pub(crate) body: Limit,
    /// For the client to take more of the response.
    pub(crate) stall: Limit,
    /// For memory.
    pub(crate) room: Limit,
}

/// One limit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Limit(Option<Instant>);

impl Limit {
    /// Begins to run, unless it does; `None` is no limit.
    pub(crate) fn begin(&mut self, limit: Option<Duration>) {
        self.begin_at(Instant::now, limit);
    }

    /// [`begin`](Self::begin) at a time that need not be looked up.
    pub(crate) fn begin_at(&mut self, now: impl FnOnce() -> Instant, limit: Option<Duration>) {
        if self.0.is_none()
            && let Some(limit) = limit
        {
            self.0 = now().checked_add(limit);
        }
    }

    /// Whether it runs.
    #[cfg(test)]
    pub(crate) fn runs(&self) -> bool {
        self.0.is_some()
    }

    /// What was waited for has come.
    pub(crate) fn end(&mut self) {
        self.0 = None;
    }
}

impl Limits {
    /// Ready when there is memory for what is read next. Its limit runs meanwhile.
    pub(crate) fn poll_room(&mut self, cx: &mut Context<'_>, ticket: &mut Ticket) -> Poll<()> {
        self.wait_for(budget::poll_room(cx, ticket))
    }

    /// The same for what is read of a response.
    pub(crate) fn poll_room_to_respond(&mut self, cx: &mut Context<'_>, ticket: &mut Ticket) -> Poll<()> {
        self.wait_for(budget::poll_room_to_respond(cx, ticket))
    }

    fn wait_for(&mut self, room: Poll<()>) -> Poll<()> {
        match room {
            Poll::Ready(()) => self.room.end(),
            Poll::Pending => self.room.begin(Some(budget::PATIENCE)),
        }
        room
    }

    /// Ready when one is over.
    pub(crate) fn poll(&self, cx: &mut Context<'_>, alarm: &mut Alarm) -> Poll<FailureKind> {
        let all = [
            (self.read, FailureKind::ReadTimeout),
            (self.send, FailureKind::SendTimeout),
            (self.body, FailureKind::ClientTimeout),
            (self.stall, FailureKind::Client),
            (self.room, FailureKind::Memory),
        ];
        let running = all.into_iter().filter_map(|(limit, kind)| Some((limit.0?, kind)));
        match running.min_by_key(|(deadline, _)| *deadline) {
            Some((deadline, kind)) => alarm.poll(cx, deadline).map(|()| kind),
            None => Poll::Pending,
        }
    }
}
