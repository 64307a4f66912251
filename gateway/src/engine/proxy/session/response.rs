//! The response from Pingora to the client.

use std::future::poll_fn;
use std::mem;
use std::task::Poll;

use bytes::Bytes;
use http::HeaderMap;
use pingora_core::protocols::http::HttpTask;
use pingora_http::ResponseHeader;

use super::{DownstreamSession, Result, convert};
use crate::body::downstream::Downstream;
use crate::engine::proxy::context::is_interim;
use crate::engine::proxy::shared_request::lock;
use crate::io::budget::WaitTicket;
use crate::io::deadlines::Deadlines;
use crate::message::framing::Framing;

/// Bytes of a response that Pingora reads while its client accepts none: eight pieces of 64 KiB,
/// four in its channel and four in the session.
const READ_AHEAD: usize = 8 * 64 * 1024;

impl<D: Downstream> DownstreamSession<D> {
    /// Relays parts of a response. Returns whether the response is complete.
    pub(super) async fn write(&mut self, tasks: Vec<HttpTask>) -> Result<bool> {
        self.deadlines.read.end();
        self.gave_way = false;
        self.room().await?;
        let mut head = None;
        let mut pieces: Vec<Bytes> = Vec::with_capacity(tasks.len());
        let (mut end, mut trailers) = (false, None);
        for task in tasks {
            end |= task.is_end();
            match task {
                HttpTask::Header(interim, _) if is_interim(interim.status) => {
                    self.interim(&interim).await?;
                }
                HttpTask::Header(last, _) => head = Some(last),
                HttpTask::Body(data, _) | HttpTask::UpgradedBody(data, _) => {
                    pieces.extend(data.filter(|data| !data.is_empty()));
                }
                HttpTask::Trailer(section) => trailers = section,
                HttpTask::Done => {}
                HttpTask::Failed(error) => {
                    self.send(head, &pieces, None).await?;
                    return Err(error);
                }
            }
        }
        self.send(head, &pieces, end.then_some(trailers)).await?;
        Ok(end)
    }

    async fn interim(&mut self, head: &ResponseHeader) -> Result<()> {
        let mut response = convert::interim(head);
        poll_fn(|cx| Poll::Ready(lock(&self.downstream).interim(cx, &mut response)))
            .await
            .map_err(|kind| self.fail(kind))?;
        self.flush().await
    }

    /// Sends the parts that are present: a head, pieces of the body, and the end with its trailers.
    async fn send(
        &mut self,
        head: Option<Box<ResponseHeader>>,
        pieces: &[Bytes],
        end: Option<Option<Box<HeaderMap>>>,
    ) -> Result<()> {
        let mut begins = head.is_some();
        let is_first = begins;
        if let Some(head) = head {
            let ends = end.is_some() && pieces.is_empty() && !matches!(end, Some(Some(_)));
            self.response = convert::response(&head, &self.head.method, self.http2, ends);
            if self.response.switches() {
                self.upgraded = true;
                self.framing = Framing::Opaque;
            }
            self.written = Some(head);
        }
        // A response that is stored has a body even if the client gets none, because it asked with
        // HEAD or a condition.
        let pieces = match self.response.framing.is_done() {
            true => &[],
            false => pieces,
        };
        let goes_on = end.is_none();
        let chunked = matches!(self.response.framing, Framing::Chunked(_));
        let data: usize = pieces.iter().map(Bytes::len).sum();
        let mut coded = match pieces {
            _ if chunked => convert::chunks(pieces, end.as_ref().map(|trailers| trailers.as_deref())),
            [] => Bytes::new(),
            [one] => one.clone(),
            several => Bytes::from(several.concat()),
        };
        loop {
            let now = lock(&self.downstream).portion(coded.len());
            if now >= coded.len() || self.upgraded {
                break;
            }
            let part = coded.split_to(now);
            let (downstream, response) = (&self.downstream, &mut self.response);
            let passed = poll_fn(|cx| {
                let mut downstream = lock(downstream);
                Poll::Ready(match std::mem::take(&mut begins) {
                    true => downstream.respond(cx, response, &part),
                    false => downstream.pass(cx, response, &part),
                })
            });
            passed.await.map_err(|kind| self.fail(kind))?;
            self.flush().await?;
        }
        let mut end = end.filter(|_| !chunked);
        let (mut passed, mut ended) = (begins || !coded.is_empty(), end.is_some() || chunked);
        let put = poll_fn(|cx| {
            let mut downstream = lock(&self.downstream);
            let response = &mut self.response;
            if mem::take(&mut passed) {
                match begins {
                    true => downstream.respond(cx, response, &coded)?,
                    false => downstream.pass(cx, response, &coded)?,
                };
                if response.switches() {
                    downstream.switched();
                }
            }
            if self.upgraded {
                return Poll::Ready(Ok(()));
            }
            if let Some(trailers) = end.take()
                && response.framing == Framing::Opaque
            {
                downstream.end(cx, response, trailers.as_deref())?;
            }
            if goes_on {
                // Pingora does not report whether more has arrived.
                downstream.pause(cx, response)?;
            }
            ended &= response.framing.is_done() || response.framing == Framing::Opaque;
            Poll::Ready(Ok(()))
        });
        put.await.map_err(|kind| self.fail(kind))?;
        {
            let mut shared = self.handle.get();
            shared.counts.upstream_received += data as u64;
            if is_first {
                shared.started = true;
                shared.counts.status = Some(self.response.status);
                // The rest of a response without a body is only stored.
                ended |= shared.cached.is_some() && self.response.framing.is_done();
            }
        }
        self.flush().await?;
        if ended {
            self.handle.get().ended = true;
        }
        Ok(())
    }

    /// Waits for memory for bytes that the client may not accept, up to the deadline.
    async fn room(&mut self) -> Result<()> {
        let (mut deadlines, mut ticket) = (Deadlines::default(), WaitTicket::default());
        let alarm = &mut self.alarm;
        let room = poll_fn(|cx| match deadlines.poll_room_to_respond(cx, &mut ticket) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => deadlines.poll(cx, alarm).map(Err),
        });
        room.await.map_err(|kind| self.fail(kind))
    }

    /// Waits until more of the response is accepted, up to the deadline.
    async fn flush(&mut self) -> Result<()> {
        self.deadlines = Deadlines::default();
        let Self { downstream, deadlines, alarm, handle, response, .. } = self;
        let left = response.framing.left().and_then(|left| usize::try_from(left).ok());
        let read_ahead = left.unwrap_or(usize::MAX).min(READ_AHEAD);
        let mut waited = false;
        let flushed = poll_fn(|cx| {
            let mut downstream = lock(downstream);
            if let Poll::Ready(flushed) = downstream.poll_accept(cx, deadlines) {
                return Poll::Ready(flushed);
            }
            waited = true;
            handle.get().read_ahead.hold(read_ahead);
            let uploading = !downstream.is_spent();
            downstream.poll_over(cx, uploading, deadlines, alarm).map(Err)
        });
        let flushed = flushed.await;
        if !waited {
            self.handle.get().read_ahead.shrink(0);
        }
        flushed.map_err(|kind| self.fail(kind))
    }
}
