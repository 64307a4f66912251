//! The request body on its way to an endpoint of HTTP/2, with what is needed to send it again.
//!
//! No more is handed to `h2` than the endpoint's windows allow. What is beyond them waits here, and
//! while it waits no more is taken from the client.

use std::mem;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::SendStream;
use http::HeaderMap;

use crate::body::downstream::Downstream;
use crate::body::pieces::{Decoder, Piece};
use crate::engine::direct::replay::Replay;
use crate::io::budget::{Reservation, WaitTicket};
use crate::io::counted::counted;
use crate::io::deadlines::Deadlines;
use crate::message::head::Head;
use crate::message::response::Response;
use crate::pipeline::FailureKind;

/// The request body over all its attempts.
#[derive(Debug)]
pub(super) struct Upload {
    /// Bytes that came.
    pub(super) received: u64,
    replay: Replay,
    /// All has come, with these trailers.
    whole: bool,
    trailers: Option<HeaderMap>,
    decoder: Decoder,
    /// The client side gives all of the body again.
    rewinds: bool,
    /// What the endpoint's windows do not allow yet.
    rest: Bytes,
    /// While it waits for memory.
    ticket: WaitTicket,
    sending: bool,
}

/// Time limits of an upload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// For the client's next bytes.
    pub(super) client: Option<Duration>,
    /// For the endpoint to accept some.
    pub(super) endpoint: Option<Duration>,
}

impl Upload {
    pub(super) fn new(head: &Head) -> Self {
        Self {
            received: 0,
            replay: Replay::default(),
            whole: false,
            trailers: None,
            decoder: Decoder::new(head),
            rewinds: false,
            rest: Bytes::new(),
            ticket: WaitTicket::default(),
            sending: true,
        }
    }

    /// Whether all that came of the body can be sent again.
    pub(super) fn is_replayable(&self) -> bool {
        self.replay.is_whole()
    }

    /// Whether there is something left to send.
    pub(super) fn is_sending(&self) -> bool {
        self.sending
    }

    /// Whether the endpoint has yet to take some of what was sent.
    pub(super) fn is_stalled(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Begins an attempt.
    pub(super) fn begin(&mut self, downstream: &mut impl Downstream, head: &Head) {
        self.rewinds = downstream.rewind();
        if self.rewinds {
            (self.decoder, self.whole, self.trailers) = (Decoder::new(head), false, None);
        }
        self.rest = match self.rewinds {
            true => Bytes::new(),
            false => Bytes::copy_from_slice(self.replay.bytes()),
        };
        self.whole |= downstream.is_spent();
        self.sending = !(self.whole && self.rest.is_empty() && self.trailers.is_none());
    }

    /// Sends what there is, takes on, sends that. Ready when there is nothing left to do.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        downstream: &mut impl Downstream,
        to: &mut SendStream<Bytes>,
        deadlines: &mut Deadlines,
        patience: Patience,
    ) -> Poll<Result<(), FailureKind>> {
        loop {
            ready!(self.poll_deliver(cx, to, deadlines, patience));
            if !self.sending {
                return Poll::Ready(Ok(()));
            }
            if downstream.awaits_continue() {
                downstream.interim(cx, &mut Response::go_on())?;
            }
            if deadlines.poll_room(cx, &mut self.ticket).is_pending() {
                self.replay.forget();
                return Poll::Pending;
            }
            let Poll::Ready(piece) = downstream.poll_piece(cx, &mut self.decoder) else {
                deadlines.body.begin(patience.client);
                return Poll::Pending;
            };
            deadlines.body.end();
            // The endpoint may keep silent while there is something to hear.
            deadlines.read.end();
            match piece? {
                Piece::Data { content, ends } => {
                    if !self.rewinds {
                        self.replay.keep(&content);
                    }
                    self.received += content.len() as u64;
                    let mut share = Reservation::of_flow();
                    share.hold(content.len());
                    // With its share, because `h2` keeps what the windows allow until the socket
                    // takes it.
                    (self.rest, self.whole) = (counted(content, share), ends);
                }
                Piece::Trailers(trailers) => (self.trailers, self.whole) = (Some(trailers), true),
                Piece::End => self.whole = true,
            }
        }
    }

    /// Hands on as much of the rest as the endpoint's windows allow, and the end behind it. Ready
    /// when nothing is left.
    fn poll_deliver(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut SendStream<Bytes>,
        deadlines: &mut Deadlines,
        patience: Patience,
    ) -> Poll<()> {
        while !self.rest.is_empty() {
            to.reserve_capacity(self.rest.len());
            let room = to.capacity().min(self.rest.len());
            if room == 0 {
                match to.poll_capacity(cx) {
                    Poll::Ready(Some(Ok(_))) => continue,
                    Poll::Ready(_) => return self.stop(deadlines),
                    Poll::Pending => {
                        deadlines.send.begin(patience.endpoint);
                        return Poll::Pending;
                    }
                }
            }
            deadlines.send.end();
            let ends = room == self.rest.len() && self.whole && self.trailers.is_none();
            let piece =
                if room == self.rest.len() { mem::take(&mut self.rest) } else { self.rest.split_to(room) };
            self.sending = !ends;
            if to.send_data(piece, ends).is_err() {
                return self.stop(deadlines);
            }
        }
        if self.sending && self.whole {
            self.sending = false;
            // If it takes no end, it has said what it has to say about the request.
            let _ = match &self.trailers {
                Some(trailers) => to.send_trailers(trailers.clone()),
                None => to.send_data(Bytes::new(), true),
            };
        }
        Poll::Ready(())
    }

    /// The endpoint takes no more. It may have answered before that.
    fn stop(&mut self, deadlines: &mut Deadlines) -> Poll<()> {
        (self.rest, self.sending) = (Bytes::new(), false);
        deadlines.send.end();
        Poll::Ready(())
    }
}
