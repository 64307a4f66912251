//! The request body on its way to Pingora.

use std::mem;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use pingora_core::Error;

use super::{DOWNSTREAM, REPLAY, Result, Session};
use crate::body::downstream::Downstream;
use crate::engine::proxy::carried::lock;
use crate::message::response::Response;
use crate::pipeline::FailureKind;

impl<D: Downstream> Session<D> {
    /// The next piece of the request body; nothing at its end.
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
            patience,
            gave_way,
            ..
        } = &mut *self;
        let mut carried = handle.get();
        carried.listening = true;
        if carried.ended {
            // The response came before the request was complete: nobody wants the rest.
            return Poll::Ready(Err(Error::new_down(DOWNSTREAM)));
        }
        // While an endpoint of HTTP/2 does not take a piece, Pingora passes nothing on that it says. An endpoint that
        // waits for just that would never take it; so responses come first, as long as there are some.
        if carried.http2 && !mem::replace(gave_way, true) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut downstream = lock(downstream);
        if !carried.started && downstream.awaits_continue() {
            let go_on = downstream.interim(cx, &mut Response::go_on());
            if let Err(kind) = go_on {
                drop((downstream, carried));
                return Poll::Ready(Err(self.fail(kind)));
            }
        }
        let read = loop {
            if downstream.is_spent() {
                return Poll::Ready(Ok(None));
            }
            let (mut piece, mut coding) = (BytesMut::new(), Ok(0));
            let read = downstream.poll_body(cx, |_, bytes, data| {
                carried.counts.received += data as u64;
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
                        carried.replayable = false;
                        *replay = Vec::new();
                    } else if carried.replayable {
                        replay.extend_from_slice(&piece);
                    }
                    return Poll::Ready(Ok(Some(piece.freeze())));
                }
                Poll::Ready(Err(kind)) => break Poll::Ready(kind),
                Poll::Pending if *upgraded => return Poll::Pending,
                Poll::Pending => {
                    deadlines.body.begin(Some(*patience));
                    // While the client sends, an endpoint may keep silent.
                    if carried.started {
                        deadlines.read.begin(carried.read_timeout);
                    }
                    break deadlines.poll(cx, alarm);
                }
            }
        };
        drop((downstream, carried));
        read.map(|kind| Err(self.fail(kind)))
    }

    /// Ready when the client has gone, or nothing has come from the endpoint for too long.
    pub(super) fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Box<Error>> {
        let read_timeout = {
            let mut carried = self.handle.get();
            carried.listening = true;
            carried.read_timeout
        };
        let gone = lock(&self.downstream).poll_gone(cx, false);
        if gone.is_ready() {
            return Poll::Ready(self.fail(FailureKind::Client));
        }
        self.deadlines.body.end();
        self.deadlines.read.begin(read_timeout);
        let over = ready!(self.deadlines.poll(cx, &mut self.alarm));
        Poll::Ready(self.fail(over))
    }
}
