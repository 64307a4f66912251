//! The client side of a request as a custom session of Pingora's `ProxyHttp`, over [`Downstream`]
//! and for every client protocol.
//!
//! Pingora gets an HTTP/1.1 head in origin form with one `Host`, and content without transfer
//! coding. It writes heads and content; the client side handles framing, connection-specific
//! fields, `Date` and byte counts.

mod convert;
mod request;
mod response;

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::Stream;
use http::{HeaderMap, Version};
use pingora_core::protocols::Digest;
use pingora_core::protocols::http::HttpTask;
use pingora_core::protocols::http::custom::CustomMessageWrite;
use pingora_core::protocols::http::custom::server;
use pingora_core::protocols::l4::socket::SocketAddr;
use pingora_core::{Error, ErrorType};
use pingora_http::{RequestHeader, ResponseHeader};

use super::Result;
use super::shared_request::{Handle, lock};
use crate::body::downstream::Downstream;
use crate::io::alarm::Alarm;
use crate::io::deadlines::Deadlines;
use crate::message::framing::Framing;
use crate::message::head::Head;
use crate::message::request::asks_for_upgrade;
use crate::message::response::Response;
use crate::pipeline::FailureKind;
use crate::worker::Worker;

/// The client side has ended the request.
const DOWNSTREAM: ErrorType = ErrorType::Custom("the client's side ended it");

/// Maximum bytes of a request body that are kept for another attempt, the same as in the direct
/// engine.
const REPLAY: usize = 64 * 1024;

/// The session of one request.
pub(super) struct DownstreamSession<D> {
    downstream: Arc<Mutex<Box<D>>>,
    handle: Handle,
    head: RequestHeader,
    digest: Digest,
    http2: bool,
    asks_for_upgrade: bool,
    /// The unread rest of the request body's framing, which decodes it.
    framing: Framing,
    /// The framing of the whole body.
    whole: Framing,
    /// The client side delivers the whole body again in another attempt, so none of it is kept
    /// here.
    rewinds: bool,
    /// There is no request body.
    empty: bool,
    /// Time limit for the client's next bytes.
    time_limit: Duration,
    deadlines: Deadlines,
    alarm: Alarm,
    /// The received body, unless it exceeds the maximum.
    replay: Vec<u8>,
    /// The head of the response that has begun, as Pingora wrote it and as it was sent.
    written: Option<Box<ResponseHeader>>,
    response: Response,
    upgraded: bool,
    /// Available parts of the response were relayed before the next piece of the request is read.
    gave_way: bool,
}

impl<D: Downstream> DownstreamSession<D> {
    pub(super) fn new(downstream: Arc<Mutex<Box<D>>>, handle: Handle, head: &Head, worker: &Worker) -> Self {
        let digest = Digest { proxy_digest: Some(handle.digest()), ..Digest::default() };
        Self {
            downstream,
            handle,
            head: convert::request(head),
            digest,
            http2: head.version == Version::HTTP_2,
            asks_for_upgrade: asks_for_upgrade(head),
            framing: head.framing,
            whole: head.framing,
            rewinds: false,
            empty: head.framing.is_done(),
            time_limit: worker.state.published.load().compiled_settings.settings.client_body_timeout,
            deadlines: Deadlines::default(),
            alarm: Alarm::default(),
            replay: Vec::new(),
            written: None,
            response: Response::default(),
            upgraded: false,
            gave_way: false,
        }
    }

    /// Records the failure and returns the error with which Pingora ends the request.
    fn fail(&self, kind: FailureKind) -> Box<Error> {
        self.handle.get().failed = Some(kind);
        Error::new_down(DOWNSTREAM)
    }
}

#[async_trait]
impl<D: Downstream + Send + Sync + 'static> server::Session for DownstreamSession<D> {
    fn req_header(&self) -> &RequestHeader {
        &self.head
    }

    fn req_header_mut(&mut self) -> &mut RequestHeader {
        &mut self.head
    }

    async fn read_body_bytes(&mut self) -> Result<Option<Bytes>> {
        poll_fn(|cx| self.poll_read(cx)).await
    }

    /// Does nothing: the connection drains the rest of the body.
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

    /// Does nothing: the connection detects an incomplete response.
    async fn shutdown(&mut self, _: u32, _: &str) {}

    fn is_body_done(&mut self) -> bool {
        lock(&self.downstream).is_spent()
    }

    /// Called after a success, more than once.
    async fn finish(&mut self) -> Result<()> {
        let mut shared = self.handle.get();
        // An upgraded connection was ended by either side. Pingora does not mark the end of a
        // stored response that has no body.
        if self.upgraded || shared.started && self.response.framing.is_done() {
            shared.ended = true;
        }
        Ok(())
    }

    /// False for a body that has turned out to be empty: in another attempt Pingora would not send
    /// its end.
    fn is_body_empty(&mut self) -> bool {
        self.empty || self.is_body_done() && self.handle.get().counts.received == 0
    }

    /// Cancel safe: Pingora drops the future and calls this again at any time.
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

    /// The head from which Pingora makes a request that fetches a stale response again.
    fn pseudo_raw_h1_request_header(&self) -> Bytes {
        self.handle.get().refresh_head.clone()
    }

    /// Called once per attempt.
    fn enable_retry_buffering(&mut self) {
        self.deadlines = Deadlines::default();
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
