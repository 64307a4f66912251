//! The request body on its way to an HTTP/2 endpoint, with the bytes needed to send it again.
//!
//! `h2` receives no more than the endpoint's windows allow. Bytes beyond them wait here, and
//! nothing more is read from the client meanwhile.

use std::mem;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::SendStream;
use http::HeaderMap;

use crate::body::downstream::Downstream;
use crate::body::pieces::{Decoder, Piece};
use crate::engine::direct::replay::Replay;
use crate::engine::direct::upload_timeouts::UploadTimeouts;
use crate::io::budget::{Reservation, WaitTicket};
use crate::io::counted::counted;
use crate::io::deadlines::Deadlines;
use crate::message::head::Head;
use crate::message::response::Response;
use crate::pipeline::FailureKind;

/// The request body over all its attempts.
#[derive(Debug)]
pub(super) struct Upload {
    /// Received bytes.
    pub(super) received: u64,
    replay: Replay,
    /// The body is complete, with these trailers.
    whole: bool,
    trailers: Option<HeaderMap>,
    decoder: Decoder,
    /// In this attempt the client side delivers the whole body again.
    rewinds: bool,
    /// Bytes beyond the endpoint's windows.
    rest: Bytes,
    /// Held while the upload waits for memory.
    ticket: WaitTicket,
    sending: bool,
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

    /// Returns whether the whole received body can be sent again.
    pub(super) fn is_replayable(&self) -> bool {
        self.replay.is_whole()
    }

    /// Returns whether a part of the request is unsent.
    pub(super) fn is_sending(&self) -> bool {
        self.sending
    }

    /// Returns whether bytes wait for the endpoint's windows.
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

    /// Sends waiting bytes, then reads and sends more. Ready when the request is sent, or cannot
    /// be.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        downstream: &mut impl Downstream,
        to: &mut SendStream<Bytes>,
        deadlines: &mut Deadlines,
        timeouts: UploadTimeouts,
    ) -> Poll<Result<(), FailureKind>> {
        loop {
            ready!(self.poll_deliver(cx, to, deadlines, timeouts));
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
                deadlines.body.begin(timeouts.client);
                return Poll::Pending;
            };
            deadlines.body.end();
            // The endpoint may stay silent while it receives.
            deadlines.read.end();
            match piece? {
                Piece::Data { content, ends } => {
                    if !self.rewinds {
                        self.replay.keep(&content);
                    }
                    self.received += content.len() as u64;
                    let mut share = Reservation::of_flow();
                    share.hold(content.len());
                    // With its reservation: `h2` holds bytes within the windows until the socket
                    // accepts them.
                    (self.rest, self.whole) = (counted(content, share), ends);
                }
                Piece::Trailers(trailers) => (self.trailers, self.whole) = (Some(trailers), true),
                Piece::End => self.whole = true,
            }
        }
    }

    /// Sends as many waiting bytes as the endpoint's windows allow, then the end of the body. Ready
    /// when no bytes wait.
    fn poll_deliver(
        &mut self,
        cx: &mut Context<'_>,
        to: &mut SendStream<Bytes>,
        deadlines: &mut Deadlines,
        timeouts: UploadTimeouts,
    ) -> Poll<()> {
        while !self.rest.is_empty() {
            to.reserve_capacity(self.rest.len());
            let room = to.capacity().min(self.rest.len());
            if room == 0 {
                match to.poll_capacity(cx) {
                    Poll::Ready(Some(Ok(_))) => continue,
                    Poll::Ready(_) => return self.stop(deadlines),
                    Poll::Pending => {
                        deadlines.send.begin(timeouts.endpoint);
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
            // An endpoint that rejects the end has already responded or reset the stream.
            let _ = match &self.trailers {
                Some(trailers) => to.send_trailers(trailers.clone()),
                None => to.send_data(Bytes::new(), true),
            };
        }
        Poll::Ready(())
    }

    /// Stops sending: the endpoint accepts no more. It may have responded before.
    fn stop(&mut self, deadlines: &mut Deadlines) -> Poll<()> {
        (self.rest, self.sending) = (Bytes::new(), false);
        deadlines.send.end();
        Poll::Ready(())
    }
}
