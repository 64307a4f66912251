//! The request on its way to an HTTP/1.1 endpoint, with the bytes needed to send it again.

use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Version;
use tokio::io::AsyncWrite;

use crate::body::downstream::Downstream;
use crate::engine::direct::replay::Replay;
use crate::engine::direct::upload_timeouts::UploadTimeouts;
use crate::io::budget::WaitTicket;
use crate::io::deadlines::Deadlines;
use crate::io::flow::Flow;
use crate::io::scratch;
use crate::io::transport::Transport;
use crate::io::write_buffer::WriteBuffer;
use crate::message::head::Head;
use crate::message::request;
use crate::message::response::Response;
use crate::pipeline::FailureKind;

/// The request over all its attempts.
#[derive(Debug)]
pub(super) struct Upload {
    /// Received bytes of the body, without transfer coding.
    pub(super) received: u64,
    /// The body as received.
    replay: Replay,
    /// Held while the upload waits for memory.
    ticket: WaitTicket,
    /// In this attempt the client side delivers the whole body again.
    rewinds: bool,
    write_buffer: WriteBuffer,
    pub(super) state: Sending,
}

/// Progress of an attempt's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sending {
    /// Nothing is sent.
    Head,
    /// There is more to send.
    More,
    /// All is sent.
    Done,
    /// The endpoint accepts no more. It may have responded before.
    Broken,
}

/// The request that an attempt sends, and its time limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutgoingRequest<'r> {
    /// The head for the endpoint.
    pub(super) head: &'r Head,
    /// The protocol version.
    pub(super) version: Version,
    /// The connection to the endpoint is closed after the response.
    pub(super) last: bool,
    /// The endpoint may switch protocols: both the client's request and this head ask for it.
    pub(super) upgrade: bool,
    pub(super) timeouts: UploadTimeouts,
}

impl Upload {
    pub(super) fn new() -> Self {
        Self {
            received: 0,
            replay: Replay::default(),
            ticket: WaitTicket::default(),
            rewinds: false,
            write_buffer: WriteBuffer::default(),
            state: Sending::Head,
        }
    }

    /// Returns whether the whole received body can be sent again.
    pub(super) fn is_replayable(&self) -> bool {
        self.replay.is_whole()
    }

    /// Returns whether a part of the request is unsent.
    pub(super) fn is_sending(&self) -> bool {
        matches!(self.state, Sending::Head | Sending::More)
    }

    /// Returns whether sent bytes wait for the endpoint's socket.
    pub(super) fn is_stalled(&self) -> bool {
        !self.write_buffer.is_empty()
    }

    /// Returns the client-to-endpoint direction after a protocol switch.
    pub(super) fn take_flow(&mut self) -> Flow {
        Flow::after(mem::take(&mut self.write_buffer), self.received)
    }

    /// Returns the bytes of this attempt, head included, that the endpoint's socket has accepted.
    pub(super) fn sent(&self) -> u64 {
        self.write_buffer.taken()
    }

    /// Begins an attempt.
    pub(super) fn begin(&mut self, downstream: &mut impl Downstream) {
        self.rewinds = downstream.rewind();
        self.state = Sending::Head;
        self.write_buffer.clear();
    }

    /// Sends the head, the body of earlier attempts, and the part of the rest that has arrived.
    /// A client that expects `100 Continue` gets it now, before a response can begin.
    fn send_head(
        &mut self,
        cx: &mut Context<'_>,
        outgoing: &OutgoingRequest<'_>,
        downstream: &mut impl Downstream,
        to: &mut Transport,
    ) -> Result<(), FailureKind> {
        self.state = Sending::More;
        let Self { received, replay, rewinds, write_buffer, .. } = self;
        // With an upgrade, `Connection` names the upgrade only.
        let last = outgoing.last && !outgoing.upgrade;
        scratch::write(|out| {
            request::write(outgoing.head, outgoing.version, out, last);
            out.extend_from_slice(replay.bytes());
            if !downstream.is_spent() {
                let read = downstream.poll_body(cx, |_, bytes, data| {
                    if !*rewinds {
                        replay.keep(bytes);
                    }
                    *received += data as u64;
                    out.extend_from_slice(bytes);
                });
                if let Poll::Ready(Err(kind)) = read {
                    return Err(kind);
                }
            }
            write_buffer.send(cx, to, out);
            Ok(())
        })?;
        match downstream.awaits_continue() {
            true => downstream.interim(cx, &mut Response::go_on()),
            false => Ok(()),
        }
    }

    /// Sends waiting bytes, then reads and sends more. Ready when the request is sent, or cannot
    /// be.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        downstream: &mut impl Downstream,
        to: &mut Transport,
        deadlines: &mut Deadlines,
        outgoing: &OutgoingRequest<'_>,
    ) -> Poll<Result<(), FailureKind>> {
        if self.state == Sending::Head {
            self.send_head(cx, outgoing, downstream, to)?;
        }
        loop {
            if ready!(self.write_buffer.poll_send_within(
                cx,
                to,
                &mut deadlines.send,
                outgoing.timeouts.endpoint
            ))
            .is_err()
            {
                self.state = Sending::Broken;
                return Poll::Ready(Ok(()));
            }
            if downstream.is_spent() {
                match Pin::new(&mut *to).poll_flush(cx) {
                    Poll::Pending => {
                        deadlines.send.begin(outgoing.timeouts.endpoint);
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(())) => self.state = Sending::Done,
                    Poll::Ready(Err(_)) => self.state = Sending::Broken,
                }
                deadlines.send.end();
                return Poll::Ready(Ok(()));
            }
            let has_room = deadlines.poll_room(cx, &mut self.ticket).is_ready();
            if !has_room {
                self.replay.forget();
            }
            let read = if has_room { self.poll_read(cx, downstream, to) } else { Poll::Pending };
            if read.is_pending() {
                if has_room {
                    deadlines.body.begin(outgoing.timeouts.client);
                }
                // Bytes buffered by TLS would otherwise wait for the client's next bytes.
                match Pin::new(&mut *to).poll_flush(cx) {
                    Poll::Pending => deadlines.send.begin(outgoing.timeouts.endpoint),
                    Poll::Ready(Ok(())) => deadlines.send.end(),
                    Poll::Ready(Err(_)) => {
                        self.state = Sending::Broken;
                        return Poll::Ready(Ok(()));
                    }
                }
            }
            ready!(read)?;
            deadlines.body.end();
        }
    }

    /// Reads a piece of the body and sends it.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        downstream: &mut impl Downstream,
        to: &mut Transport,
    ) -> Poll<Result<(), FailureKind>> {
        let Self { received, replay, rewinds, write_buffer, .. } = self;
        downstream.poll_body(cx, |cx, bytes, data| {
            if !*rewinds {
                replay.keep(bytes);
            }
            *received += data as u64;
            write_buffer.send(cx, to, bytes);
        })
    }
}

#[cfg(test)]
mod tests;
