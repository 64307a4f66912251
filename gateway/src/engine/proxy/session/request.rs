//! The request body on its way to Pingora.

use std::mem;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use pingora_core::Error;

use super::{DOWNSTREAM, DownstreamSession, REPLAY, Result};
use crate::body::downstream::Downstream;
use crate::engine::proxy::shared_request::lock;
use crate::message::response::Response;
use crate::pipeline::FailureKind;

impl<D: Downstream> DownstreamSession<D> {
    /// Ready with the next piece of the request body, or `None` at its end.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>>> {
        let Self {
            downstream,
            handle,
            framing,
            deadlines,
            alarm,
            replay,
            rewinds,
            upgraded,
            time_limit,
            gave_way,
            ..
        } = &mut *self;
        let mut shared = handle.get();
        shared.listening = true;
        if shared.ended {
            // The response was complete before the request, whose rest is not needed.
            return Poll::Ready(Err(Error::new_down(DOWNSTREAM)));
        }
        // While an HTTP/2 endpoint does not accept a piece, Pingora relays none of its response. If
        // the endpoint waits for its response to be read, both would wait. Responses therefore come
        // first.
        if shared.http2 && !mem::replace(gave_way, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut downstream = lock(downstream);
        if !shared.started && downstream.awaits_continue() {
            let go_on = downstream.interim(cx, &mut Response::go_on());
            if let Err(kind) = go_on {
                drop((downstream, shared));
                return Poll::Ready(Err(self.fail(kind)));
            }
        }
        let read = loop {
            if downstream.is_spent() {
                return Poll::Ready(Ok(None));
            }
            let (mut piece, mut coding) = (BytesMut::new(), Ok(0));
            let read = downstream.poll_body(cx, |_, bytes, data| {
                shared.counts.received += data as u64;
                piece.reserve(data);
                coding = framing.read(bytes, |content| piece.extend_from_slice(content));
            });
            match read {
                Poll::Ready(Ok(())) if coding.is_err() => break Poll::Ready(FailureKind::ClientMalformed),
                Poll::Ready(Ok(())) if piece.is_empty() => {}
                Poll::Ready(Ok(())) => {
                    deadlines.body.end();
                    *gave_way = false;
                    if *rewinds {
                        return Poll::Ready(Ok(Some(piece.freeze())));
                    }
                    if replay.len() + piece.len() > REPLAY {
                        shared.replayable = false;
                        *replay = Vec::new();
                    } else if shared.replayable {
                        replay.extend_from_slice(&piece);
                    }
                    return Poll::Ready(Ok(Some(piece.freeze())));
                }
                Poll::Ready(Err(kind)) => break Poll::Ready(kind),
                Poll::Pending if *upgraded => return Poll::Pending,
                Poll::Pending => {
                    deadlines.body.begin(Some(*time_limit));
                    // The endpoint may stay silent while the client sends.
                    if shared.started {
                        deadlines.read.begin(shared.read_timeout);
                    }
                    break deadlines.poll(cx, alarm);
                }
            }
        };
        drop((downstream, shared));
        read.map(|kind| Err(self.fail(kind)))
    }

    /// Ready when the client has left, or the endpoint was silent for longer than its timeout.
    pub(super) fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Box<Error>> {
        let read_timeout = {
            let mut shared = self.handle.get();
            shared.listening = true;
            shared.read_timeout
        };
        let gone = lock(&self.downstream).poll_client_closed(cx, false);
        if gone.is_ready() {
            return Poll::Ready(self.fail(FailureKind::Client));
        }
        self.deadlines.body.end();
        self.deadlines.read.begin(read_timeout);
        let over = ready!(self.deadlines.poll(cx, &mut self.alarm));
        Poll::Ready(self.fail(over))
    }
}
