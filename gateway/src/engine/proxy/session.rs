//! The client side of a request as Pingora's `ProxyHttp` sees it: a custom session over [`Downstream`], for one request
//! of any protocol.
//!
//! Pingora gets a head of HTTP/1.1 in origin form with one `Host`, content free of its coding, and takes heads and
//! content; framing, connection fields, `Date` and byte counts are the client side's business.

mod convert;

use std::future::poll_fn;
use std::mem;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::Stream;
use http::{HeaderMap, StatusCode, Version};
use pingora_core::protocols::Digest;
use pingora_core::protocols::http::HttpTask;
use pingora_core::protocols::http::custom::CustomMessageWrite;
use pingora_core::protocols::http::custom::server;
use pingora_core::protocols::l4::socket::SocketAddr;
use pingora_core::{Error, ErrorType};
use pingora_http::{RequestHeader, ResponseHeader};

use super::Result;
use super::carried::{Handle, lock};
use super::context::is_interim;
use crate::engine::downstream::Downstream;
use crate::io::alarm::Alarm;
use crate::io::budget::{self, Ticket};
use crate::io::limits::Limits;
use crate::message::framing::Framing;
use crate::message::head::Head;
use crate::message::request;
use crate::message::response::Response;
use crate::pipeline::FailureKind;
use crate::worker::Worker;

/// The client's side ended the request.
const DOWNSTREAM: ErrorType = ErrorType::Custom("the client's side ended it");

/// Bytes of a request body that are kept for another attempt, as many as the direct engine keeps.
const REPLAY: usize = 64 * 1024;

/// The session of one request.
pub(super) struct Session<D> {
    downstream: Arc<Mutex<Box<D>>>,
    handle: Handle,
    head: RequestHeader,
    digest: Digest,
    http2: bool,
    asks_for_upgrade: bool,
    /// How far the request body has been read. It is what takes its coding off.
    framing: Framing,
    /// That of the whole body.
    whole: Framing,
    /// The client side gives all of the body again in another attempt, so that nothing need be kept here.
    rewinds: bool,
    /// There is no request body.
    empty: bool,
    /// For the client's next bytes.
    patience: Duration,
    limits: Limits,
    alarm: Alarm,
    /// What came of the body, unless that was too much.
    replay: Vec<u8>,
    /// The head of the response that has begun, as it came and as it went out.
    written: Option<Box<ResponseHeader>>,
    response: Response,
    upgraded: bool,
    /// What there is of a response has been passed on before the next piece of the request is.
    gave_way: bool,
}

impl<D: Downstream> Session<D> {
    pub(super) fn new(downstream: Arc<Mutex<Box<D>>>, handle: Handle, head: &Head, worker: &Worker) -> Self {
        let digest = Digest { proxy_digest: Some(handle.digest()), ..Digest::default() };
        Self {
            downstream,
            handle,
            head: convert::request(head),
            digest,
            http2: head.version == Version::HTTP_2,
            asks_for_upgrade: request::asks_for_upgrade(head),
            framing: head.framing,
            whole: head.framing,
            rewinds: false,
            empty: head.framing.is_done(),
            patience: worker.state.published.load().globals.tuning.client_body_timeout,
            limits: Limits::default(),
            alarm: Alarm::default(),
            replay: Vec::new(),
            written: None,
            response: Response::default(),
            upgraded: false,
            gave_way: false,
        }
    }

    /// Tells Pingora of an end that it cannot know the reason of.
    fn fail(&self, kind: FailureKind) -> Box<Error> {
        self.handle.get().failed = Some(kind);
        Error::new_down(DOWNSTREAM)
    }

    /// The next piece of the request body; nothing at its end.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>>> {
        let Self {
            downstream,
            handle,
            framing,
            limits,
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
        if carried.http2 && downstream.awaits_continue() {
            let go_on =
                downstream.interim(cx, &mut Response::of(StatusCode::CONTINUE, "Continue", Framing::NONE));
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
                    limits.body.end();
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
                    limits.body.begin(Some(*patience));
                    // While the client sends, an endpoint may keep silent; unless the client waits for it to speak.
                    if carried.started || downstream.awaits_continue() {
                        limits.read.begin(carried.read_timeout);
                    }
                    break limits.poll(cx, alarm);
                }
            }
        };
        drop((downstream, carried));
        read.map(|kind| Err(self.fail(kind)))
    }

    /// Ready when the client has gone, or nothing has come from the endpoint for too long.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<Box<Error>> {
        let read_timeout = {
            let mut carried = self.handle.get();
            carried.listening = true;
            carried.read_timeout
        };
        let gone = lock(&self.downstream).poll_gone(cx, false);
        if gone.is_ready() {
            return Poll::Ready(self.fail(FailureKind::Client));
        }
        self.limits.body.end();
        self.limits.read.begin(read_timeout);
        let over = ready!(self.limits.poll(cx, &mut self.alarm));
        Poll::Ready(self.fail(over))
    }

    /// Passes on what came of a response. Says whether that was the end of it.
    async fn write(&mut self, tasks: Vec<HttpTask>) -> Result<bool> {
        self.limits.read.end();
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

    /// Sends a head, pieces of a body, and the end with its trailers, each as far as it is there.
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
                // Pingora does not tell whether more has come already.
                downstream.pause(cx, response)?;
            }
            ended &= response.framing.is_done() || response.framing == Framing::Opaque;
            Poll::Ready(Ok(()))
        });
        put.await.map_err(|kind| self.fail(kind))?;
        {
            let mut carried = self.handle.get();
            carried.counts.upstream_received += data as u64;
            if is_first {
                carried.started = true;
                carried.counts.status = Some(self.response.status);
            }
        }
        self.flush().await?;
        if ended {
            self.handle.get().ended = true;
        }
        Ok(())
    }

    /// Waits until there is memory for what the client may not take, but not for ever.
    async fn room(&mut self) -> Result<()> {
        if budget::has_room() {
            return Ok(());
        }
        let (mut limits, mut ticket) = (Limits::default(), Ticket::default());
        limits.room.begin(Some(budget::PATIENCE));
        let alarm = &mut self.alarm;
        let room = poll_fn(|cx| match budget::poll_room(cx, &mut ticket) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => limits.poll(cx, alarm).map(Err),
        });
        room.await.map_err(|kind| self.fail(kind))
    }

    /// Waits until the client has taken what there is, but not for ever.
    async fn flush(&mut self) -> Result<()> {
        self.limits = Limits::default();
        let Self { downstream, limits, alarm, .. } = self;
        let flushed = poll_fn(|cx| {
            let mut downstream = lock(downstream);
            if let Poll::Ready(flushed) = downstream.poll_flush(cx, limits) {
                return Poll::Ready(flushed);
            }
            let uploading = !downstream.is_spent();
            match downstream.poll_gone(cx, uploading) {
                Poll::Ready(()) => Poll::Ready(Err(FailureKind::Client)),
                Poll::Pending => limits.poll(cx, alarm).map(Err),
            }
        });
        flushed.await.map_err(|kind| self.fail(kind))
    }
}

#[async_trait]
impl<D: Downstream + Send + Sync + 'static> server::Session for Session<D> {
    fn req_header(&self) -> &RequestHeader {
        &self.head
    }

    fn req_header_mut(&mut self) -> &mut RequestHeader {
        &mut self.head
    }

    async fn read_body_bytes(&mut self) -> Result<Option<Bytes>> {
        poll_fn(|cx| self.poll_read(cx)).await
    }

    /// What is left of a body is the business of the connection.
    async fn drain_request_body(&mut self) -> Result<()> {
        Ok(())
    }

    async fn write_response_header(&mut self, head: Box<ResponseHeader>, end: bool) -> Result<()> {
        self.write(vec![HttpTask::Header(head, end)]).await.map(|_| ())
    }

    async fn write_response_header_ref(&mut self, head: &ResponseHeader, end: bool) -> Result<()> {
        self.write(vec![HttpTask::Header(Box::new(head.clone()), end)]).await.map(|_| ())
    }

    async fn write_body(&mut self, data: Bytes, end: bool) -> Result<()> {
        self.write(vec![HttpTask::Body(Some(data), end)]).await.map(|_| ())
    }

    async fn write_trailers(&mut self, trailers: HeaderMap) -> Result<()> {
        self.write(vec![HttpTask::Trailer(Some(Box::new(trailers)))]).await.map(|_| ())
    }

    async fn response_duplex_vec(&mut self, tasks: Vec<HttpTask>) -> Result<bool> {
        self.write(tasks).await
    }

    fn set_read_timeout(&mut self, _: Option<Duration>) {}

    fn get_read_timeout(&self) -> Option<Duration> {
        None
    }

    fn set_write_timeout(&mut self, _: Option<Duration>) {}

    fn get_write_timeout(&self) -> Option<Duration> {
        None
    }

    fn set_total_drain_timeout(&mut self, _: Option<Duration>) {}

    fn get_total_drain_timeout(&self) -> Option<Duration> {
        None
    }

    fn request_summary(&self) -> String {
        format!("{} {}", self.head.method, self.head.uri.path())
    }

    fn response_written(&self) -> Option<&ResponseHeader> {
        self.written.as_deref()
    }

    /// The connection sees that the response is not complete, and acts on it.
    async fn shutdown(&mut self, _: u32, _: &str) {}

    fn is_body_done(&mut self) -> bool {
        lock(&self.downstream).is_spent()
    }

    /// Called where nothing went wrong, more than once.
    async fn finish(&mut self) -> Result<()> {
        if self.upgraded {
            // Either side has ended it.
            self.handle.get().ended = true;
        }
        Ok(())
    }

    /// A body that turned out to have nothing in it counts: Pingora would send no end of it in another attempt.
    fn is_body_empty(&mut self) -> bool {
        self.empty || self.is_body_done() && self.handle.get().counts.received == 0
    }

    /// Dropped and called again at any time.
    async fn read_body_or_idle(&mut self, no_body_expected: bool) -> Result<Option<Bytes>> {
        if no_body_expected || self.is_body_done() {
            return Err(poll_fn(|cx| self.poll_idle(cx)).await);
        }
        poll_fn(|cx| self.poll_read(cx)).await
    }

    fn body_bytes_sent(&self) -> usize {
        usize::try_from(lock(&self.downstream).sent().1).unwrap_or(usize::MAX)
    }

    fn body_bytes_read(&self) -> usize {
        usize::try_from(self.handle.get().counts.received).unwrap_or(usize::MAX)
    }

    fn digest(&self) -> Option<&Digest> {
        Some(&self.digest)
    }

    fn digest_mut(&mut self) -> Option<&mut Digest> {
        Some(&mut self.digest)
    }

    fn client_addr(&self) -> Option<&SocketAddr> {
        None
    }

    fn server_addr(&self) -> Option<&SocketAddr> {
        None
    }

    fn pseudo_raw_h1_request_header(&self) -> Bytes {
        Bytes::new()
    }

    /// Called once in each attempt.
    fn enable_retry_buffering(&mut self) {
        self.limits = Limits::default();
        self.rewinds = !self.upgraded && lock(&self.downstream).rewind();
        if self.rewinds {
            self.framing = self.whole;
        }
    }

    fn retry_buffer_truncated(&self) -> bool {
        !self.handle.get().replayable
    }

    fn get_retry_buffer(&self) -> Option<Bytes> {
        (!self.replay.is_empty()).then(|| Bytes::copy_from_slice(&self.replay))
    }

    async fn finish_custom(&mut self) -> Result<()> {
        Ok(())
    }

    fn take_custom_message_reader(
        &mut self,
    ) -> Option<Box<dyn Stream<Item = Result<Bytes>> + Unpin + Send + Sync + 'static>> {
        None
    }

    fn restore_custom_message_reader(
        &mut self,
        _: Box<dyn Stream<Item = Result<Bytes>> + Unpin + Send + Sync + 'static>,
    ) -> Result<()> {
        Ok(())
    }

    fn take_custom_message_writer(&mut self) -> Option<Box<dyn CustomMessageWrite>> {
        None
    }

    fn restore_custom_message_writer(&mut self, _: Box<dyn CustomMessageWrite>) -> Result<()> {
        Ok(())
    }

    fn is_upgrade_req(&self) -> bool {
        self.asks_for_upgrade
    }

    fn was_upgraded(&self) -> bool {
        self.upgraded
    }
}
