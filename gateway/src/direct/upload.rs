//! The request on its way to an endpoint: head and body, with what is needed to send them again.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Buf;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::backlog::Backlog;
use super::limits::Limits;
use super::{request, scratch};
use crate::connection::MAX_DRAIN;
use crate::connection::framing::Framing;
use crate::connection::head::Head;
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
    /// Nothing is sent.
    Head,
    /// There is more to send.
    More,
    /// All is sent.
    Done,
    /// The endpoint takes no more. It may have answered before that.
    Broken,
}

/// What a try sends, and how long it waits with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outgoing<'r> {
    /// As the pipeline has it for the endpoint.
    pub(super) head: &'r Head,
    /// The connection to the endpoint is not kept.
    pub(super) last: bool,
    /// For the client's next octets.
    pub(super) client: Duration,
    /// For the endpoint to take some.
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
            state: Sending::Head,
        }
    }

    /// Whether there is something left to send.
    pub(super) fn is_sending(&self) -> bool {
        matches!(self.state, Sending::Head | Sending::More)
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

    /// Begins a try.
    pub(super) fn begin(&mut self) {
        self.state = Sending::Head;
        self.backlog.clear();
    }

    /// Sends the head, what earlier tries have sent of the body, and what is there of the rest.
    fn send_head(
        &mut self,
        cx: &mut Context<'_>,
        outgoing: &Outgoing<'_>,
        wire: &mut Wire,
        to: &mut Transport,
    ) -> Result<(), FailureKind> {
        self.state = Sending::More;
        scratch::write(|out| {
            request::write(outgoing.head, out, outgoing.last);
            out.extend_from_slice(&self.replay);
            if !wire.ahead.is_empty() && !self.framing.is_done() {
                let offered = wire.ahead.len().min(JOIN);
                let taken = self.take(&wire.ahead[..offered])?;
                out.extend_from_slice(&wire.ahead[..taken]);
                wire.ahead.advance(taken);
            }
            self.backlog.send(cx, to, out);
            Ok(())
        })
    }

    /// Sends what there is, reads on, sends that. Ready when there is nothing left to do.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        wire: &mut Wire,
        to: &mut Transport,
        limits: &mut Limits,
        outgoing: &Outgoing<'_>,
    ) -> Poll<Result<(), FailureKind>> {
        if self.state == Sending::Head {
            self.send_head(cx, outgoing, wire, to)?;
        }
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
                    limits.send.begin(outgoing.endpoint);
                    return Poll::Pending;
                }
            }
            if self.framing.is_done() {
                match Pin::new(&mut *to).poll_flush(cx) {
                    Poll::Pending => {
                        limits.send.begin(outgoing.endpoint);
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
                    limits.body.begin(Some(outgoing.client));
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
        self.backlog.send(cx, to, body);
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
