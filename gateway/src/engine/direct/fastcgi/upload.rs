//! The request on its way to a FastCGI endpoint: parameters and body, with what is needed to send
//! them again.

use std::task::{Context, Poll, ready};

use crate::body::downstream::Downstream;
use crate::body::pieces::{Decoder, Piece};
use crate::engine::direct::replay::Replay;
use crate::engine::direct::upload_timeouts::UploadTimeouts;
use crate::io::budget::WaitTicket;
use crate::io::deadlines::Deadlines;
use crate::io::scratch;
use crate::io::transport::Transport;
use crate::io::write_buffer::WriteBuffer;
use crate::message::fastcgi::{Params, begin, end_stdin, stdin};
use crate::message::head::Head;
use crate::message::response::Response;
use crate::pipeline::FailureKind;

/// The request over all its attempts.
#[derive(Debug)]
pub(super) struct Upload {
    /// Bytes of the body that arrived, without transfer coding.
    pub(super) received: u64,
    replay: Replay,
    decoder: Decoder,
    /// All of the body has arrived.
    whole: bool,
    /// Held while the upload waits for memory.
    ticket: WaitTicket,
    /// The client side gives all of the body again.
    rewinds: bool,
    write_buffer: WriteBuffer,
    state: Sending,
}

/// Progress of an attempt with its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    /// Nothing is sent.
    Params,
    /// The rest of the body.
    Body,
    /// The last bytes wait for the endpoint.
    End,
    /// All is sent.
    Done,
    /// The endpoint accepts no more. It may have responded before that.
    Broken,
}

/// What an attempt sends, and its time limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutgoingRequest<'r> {
    pub(super) params: &'r Params,
    /// The connection may serve another request.
    pub(super) keeps: bool,
    pub(super) timeouts: UploadTimeouts,
}

impl Upload {
    pub(super) fn new(head: &Head) -> Self {
        Self {
            received: 0,
            replay: Replay::default(),
            decoder: Decoder::new(head),
            whole: false,
            ticket: WaitTicket::default(),
            rewinds: false,
            write_buffer: WriteBuffer::default(),
            state: Sending::Params,
        }
    }

    /// Whether all of the body that arrived can be sent again.
    pub(super) fn is_replayable(&self) -> bool {
        self.replay.is_whole()
    }

    /// Whether a part of the request is unsent.
    pub(super) fn is_sending(&self) -> bool {
        !matches!(self.state, Sending::Done | Sending::Broken)
    }

    /// Whether the endpoint has received the whole request.
    pub(super) fn is_done(&self) -> bool {
        self.state == Sending::Done
    }

    /// Whether bytes wait for the endpoint.
    pub(super) fn is_stalled(&self) -> bool {
        !self.write_buffer.is_empty()
    }

    /// Bytes of this attempt that the endpoint's socket has taken.
    pub(super) fn sent(&self) -> u64 {
        self.write_buffer.taken()
    }

    /// Begins an attempt.
    pub(super) fn begin(&mut self, downstream: &mut impl Downstream, head: &Head) {
        self.rewinds = downstream.rewind();
        if self.rewinds {
            (self.decoder, self.whole) = (Decoder::new(head), false);
        }
        self.whole |= downstream.is_spent();
        self.state = Sending::Params;
        self.write_buffer.clear();
    }

    /// Sends as much as possible. Ready when all is sent, or the endpoint accepts no more.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        downstream: &mut impl Downstream,
        to: &mut Transport,
        deadlines: &mut Deadlines,
        outgoing: &OutgoingRequest<'_>,
    ) -> Poll<Result<(), FailureKind>> {
        if self.state == Sending::Params {
            self.send_params(cx, to, outgoing);
            if downstream.awaits_continue() {
                downstream.interim(cx, &mut Response::go_on())?;
            }
        }
        loop {
            ready!(self.poll_deliver(cx, to, deadlines, outgoing));
            if !self.is_sending() {
                return Poll::Ready(Ok(()));
            }
            if deadlines.poll_room(cx, &mut self.ticket).is_pending() {
                self.replay.forget();
                return Poll::Pending;
            }
            let Poll::Ready(piece) = downstream.poll_piece(cx, &mut self.decoder) else {
                deadlines.body.begin(outgoing.timeouts.client);
                return Poll::Pending;
            };
            deadlines.body.end();
            self.send_piece(cx, to, piece?);
        }
    }

    /// Sends the parameters, and the part of the body that earlier attempts have sent.
    fn send_params(&mut self, cx: &mut Context<'_>, to: &mut Transport, outgoing: &OutgoingRequest<'_>) {
        let Self { replay, rewinds, whole, write_buffer, .. } = self;
        scratch::write(|out| {
            begin(out, outgoing.keeps);
            outgoing.params.write(out);
            if !*rewinds {
                stdin(out, replay.bytes());
            }
            if *whole {
                end_stdin(out);
            }
            write_buffer.send(cx, to, out);
        });
        self.state = if *whole { Sending::End } else { Sending::Body };
    }

    /// Sends the next part of the body. FastCGI has no trailers.
    fn send_piece(&mut self, cx: &mut Context<'_>, to: &mut Transport, piece: Piece) {
        let (content, ends) = match piece {
            Piece::Data { content, ends } => (content, ends),
            Piece::Trailers(_) | Piece::End => (Default::default(), true),
        };
        if !self.rewinds {
            self.replay.keep(&content);
        }
        self.received += content.len() as u64;
        scratch::write(|out| {
            stdin(out, &content);
            if ends {
                end_stdin(out);
            }
            self.write_buffer.send(cx, to, out);
        });
        if ends {
            (self.whole, self.state) = (true, Sending::End);
        }
    }

    /// Ready when the endpoint has accepted everything so far, or accepts no more.
    fn poll_deliver(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut Transport,
        deadlines: &mut Deadlines,
        outgoing: &OutgoingRequest<'_>,
    ) -> Poll<()> {
        match ready!(self.write_buffer.poll_send_within(
            cx,
            to,
            &mut deadlines.send,
            outgoing.timeouts.endpoint
        )) {
            Err(_) => self.state = Sending::Broken,
            Ok(()) if self.state == Sending::End => self.state = Sending::Done,
            Ok(()) => {}
        }
        deadlines.send.end();
        Poll::Ready(())
    }
}
