//! The request on its way to an endpoint: head and body, with what is needed to send them again.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Buf;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::backlog::Backlog;
use super::limits::Limits;
use super::request::Request;
use super::scratch;
use crate::connection::MAX_DRAIN;
use crate::connection::framing::Framing;
use crate::connection::transport::Transport;
use crate::connection::wire::Wire;
use crate::pipeline::FailureKind;

/// Octets of a request body that are kept for another try, as many as Pingora keeps.
const REPLAY: usize = 64 * 1024;
/// Octets of a body that leave in one piece with the head.
const JOIN: usize = 16 * 1024;

/// The request of one exchange, over all its tries.
#[derive(Debug)]
pub(super) struct Upload {
    /// What the client has still to send.
    pub(super) framing: Framing,
    /// The client waits for `100 Continue`.
    pub(super) awaits_continue: bool,
    /// Octets of the body that came, free of their coding.
    pub(super) received: u64,
    /// All that came of the body, as it came, unless that was too much.
    replay: Vec<u8>,
    lost: bool,
    backlog: Backlog,
    pub(super) state: Sending,
}

/// How far a try has come with its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// There is more to send.
    More,
    /// All is sent.
    Done,
    /// The endpoint takes no more. It may have answered before that.
    Broken,
}

/// The limits of this direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    pub(super) client: Option<Duration>,
    pub(super) endpoint: Option<Duration>,
}

impl Upload {
    pub(super) fn new(framing: Framing, expects_continue: bool) -> Self {
        Self {
            framing,
            awaits_continue: expects_continue && !framing.is_done(),
            received: 0,
            replay: Vec::new(),
            lost: false,
            backlog: Backlog::default(),
            state: Sending::More,
        }
    }

    /// Whether all that came of the body can be sent again.
    pub(super) fn is_replayable(&self) -> bool {
        !self.lost
    }

    /// Whether what the client has still to send can be read and dropped: it is little, and it will come.
    pub(super) fn can_drain(&self) -> bool {
        let left = self.framing.left();
        left == Some(0) || left.is_some_and(|left| left <= MAX_DRAIN) && !self.awaits_continue
    }

    /// Begins a try: the head, what earlier tries have sent of the body, and what is there of the rest.
    pub(super) fn begin(
        &mut self,
        request: &Request,
        last: bool,
        wire: &mut Wire,
    ) -> Result<(), FailureKind> {
        self.state = Sending::More;
        self.backlog = Backlog::default();
        self.backlog.fill(|out| request.write(out, last));
        self.backlog.push(&self.replay);
        if !wire.ahead.is_empty() && !self.framing.is_done() {
            let offered = wire.ahead.len().min(JOIN);
            let taken = self.take(&wire.ahead[..offered])?;
            self.backlog.push(&wire.ahead[..taken]);
            wire.ahead.advance(taken);
        }
        Ok(())
    }

    /// Sends what there is, reads on, sends that. Ready when there is nothing left to do.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        wire: &mut Wire,
        to: &mut Transport,
        limits: &mut Limits,
        patience: Patience,
    ) -> Poll<Result<(), FailureKind>> {
        loop {
            let before = self.backlog.len();
            let sent = self.backlog.poll_send(cx, to);
            if self.backlog.len() < before {
                limits.send.end();
            }
            match sent {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    self.state = Sending::Broken;
                    return Poll::Ready(Ok(()));
                }
                Poll::Pending => {
                    limits.send.begin(patience.endpoint);
                    return Poll::Pending;
                }
            }
            if self.framing.is_done() {
                match Pin::new(&mut *to).poll_flush(cx) {
                    Poll::Pending => {
                        limits.send.begin(patience.endpoint);
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(())) => self.state = Sending::Done,
                    Poll::Ready(Err(_)) => self.state = Sending::Broken,
                }
                limits.send.end();
                return Poll::Ready(Ok(()));
            }
            if wire.ahead.is_empty() {
                let read = scratch::read(|buffer| self.poll_read(cx, buffer, wire, to));
                if read.is_pending() {
                    limits.body.begin(patience.client);
                }
                ready!(read)?;
                limits.body.end();
            } else {
                let taken = self.take(&wire.ahead)?;
                self.backlog.push(&wire.ahead[..taken]);
                wire.ahead.advance(taken);
            }
        }
    }

    /// Reads a piece of the body and passes it on.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
        wire: &mut Wire,
        to: &mut Transport,
    ) -> Poll<Result<(), FailureKind>> {
        let mut buf = ReadBuf::new(buffer);
        if ready!(Pin::new(&mut wire.transport).poll_read(cx, &mut buf)).is_err() || buf.filled().is_empty() {
            return Poll::Ready(Err(FailureKind::Client));
        }
        let octets = buf.filled();
        let taken = self.take(octets)?;
        let (body, beyond) = octets.split_at(taken);
        wire.ahead.extend_from_slice(beyond);
        // What is not taken at once waits in the backlog, with whatever error there is.
        match Pin::new(to).poll_write(cx, body) {
            Poll::Ready(Ok(sent)) => self.backlog.push(&body[sent..]),
            Poll::Ready(Err(_)) | Poll::Pending => self.backlog.push(body),
        }
        Poll::Ready(Ok(()))
    }

    /// Counts octets of the body, and keeps them for another try.
    fn take(&mut self, octets: &[u8]) -> Result<usize, FailureKind> {
        let received = &mut self.received;
        let taken = self.framing.read(octets, |data| *received += data.len() as u64);
        let taken = taken.map_err(|_| FailureKind::Client)?;
        if self.replay.len() + taken > REPLAY {
            self.lost = true;
            self.replay = Vec::new();
        } else if !self.lost {
            self.replay.extend_from_slice(&octets[..taken]);
        }
        Ok(taken)
    }
}
