//! The keep-alive loop of an HTTP/1 connection: wait, read a head under one deadline, validate it,
//! serve the request, and take the stream back.
//!
//! The loop holds no buffer while it waits. Pingora's own loop would keep an idle connection inside
//! the future of a whole proxied request, give a slow client a new deadline with every byte, and
//! answer malformed requests with its own page and without a log line.

mod client;
mod head_reader;

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Buf;
use http::StatusCode;
use tokio::time::{Instant, timeout, timeout_at};

use super::MAX_DRAIN;
use super::http2::Http2;
use super::{deliver, linger};
use crate::connection::drain::{OpenRequest, ShutdownPhase};
use crate::connection::idle::expiry::FIRST_REQUEST_GRACE;
use crate::connection::idle::{IdleSlot, IdleWait};
use crate::connection::info::ConnectionInfo;
use crate::engine::tunnel::Tunnel;
use crate::engine::{self, RequestEnd, UnreadableRequest};
use crate::io::alarm::Alarm;
use crate::io::budget;
use crate::io::wire::{READ_SIZE, Wire};
use crate::message::framing::Framing;
use crate::message::head::{Head, HeadFault};
use crate::message::request;
use crate::state::snapshot::PublishedSnapshot;
use crate::worker::Worker;
use client::Client;
use head_reader::HeadReader;

/// The first bytes of every HTTP/2 connection (RFC 9113 §3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// An HTTP/1 connection.
pub(crate) struct Http1<'c> {
    worker: Arc<Worker>,
    info: Arc<ConnectionInfo>,
    idle: &'c IdleSlot,
    alarm: Alarm,
    served: u32,
}

/// Maximum number of bytes of a request line in the log.
const LOGGED_LINE: usize = 1024;
/// Time that a client has to read the response to a rejected request.
const REFUSAL: Duration = Duration::from_secs(5);

/// What the loop does after a request.
enum AfterRequest {
    /// Serves the next request.
    Continue(Box<Wire>),
    /// Relays another protocol. The request stays open until that ends.
    Tunnel(Box<Wire>, Box<Tunnel>, OpenRequest),
    /// Closes the connection such that the client can read the last response.
    Linger(Box<Wire>),
    /// Closes the connection.
    Close(Box<Wire>),
    /// Drops the connection: a response was cut short, which must not look like its regular end.
    Drop,
}

/// The future that handles one head.
type Answering<'a> = Pin<Box<dyn Future<Output = AfterRequest> + Send + 'a>>;

/// Why no head was read.
enum NoHead {
    /// The client disconnected or sent nothing in time. No response is sent.
    Silence,
    /// The request is rejected.
    Fault(HeadFault),
}

impl<'c> Http1<'c> {
    pub(crate) fn new(worker: Arc<Worker>, info: Arc<ConnectionInfo>, idle: &'c IdleSlot) -> Self {
        Self { worker, info, idle, alarm: Alarm::default(), served: 0 }
    }

    /// Serves requests until the connection ends or is closed in favour of a new one.
    pub(crate) async fn serve(&mut self, mut wire: Box<Wire>) {
        loop {
            if wire.ahead.is_empty() && !self.wait(&mut wire).await {
                return wire.close().await;
            }
            if self.served == 0
                && self.info.tls.is_none()
                && !self.info.is_plain_on_https()
                && wire.ahead.starts_with(b"P")
                && PublishedSnapshot::take(&self.worker.state).compiled_settings.settings.use_http2
            {
                match Box::pin(starts_with_http2(&mut wire, &self.worker, self.idle)).await {
                    Some(true) => {
                        let http2 = Http2::new(self.worker.clone(), self.info.clone());
                        return Box::pin(http2.serve(wire, self.idle)).await;
                    }
                    Some(false) => {}
                    None => return,
                }
            }
            let next = self.answering(wire).await;
            wire = match next {
                AfterRequest::Continue(wire) => wire,
                AfterRequest::Tunnel(mut wire, tunnel, _open) => {
                    // In a box, because few connections become a tunnel.
                    Box::pin(tunnel.run(&mut wire.transport, &mut self.alarm)).await;
                    return;
                }
                // Rare and long, so it is not part of the state of idle connections.
                AfterRequest::Linger(mut wire) => {
                    deliver(&mut wire, &self.worker).await;
                    self.idle.begin(Instant::now().into_std());
                    self.idle.unless_chosen(Box::pin(linger(wire, &self.worker))).await;
                    return;
                }
                AfterRequest::Close(mut wire) => {
                    deliver(&mut wire, &self.worker).await;
                    return wire.close().await;
                }
                AfterRequest::Drop => return,
            };
        }
    }

    /// Reads one head and handles it, or its absence. Boxed, so that an idle connection holds
    /// neither the state of a request nor a head. Most heads have arrived whole.
    fn answering(&mut self, mut wire: Box<Wire>) -> Answering<'_> {
        // Dropped at once: the request takes a newer snapshot.
        let mut reader =
            HeadReader::new(&PublishedSnapshot::take(&self.worker.state).compiled_settings.settings);
        match reader.read(&mut wire) {
            Ok(Some(head)) => {
                self.idle.end();
                Box::pin(self.request(wire, head))
            }
            Ok(None) => Box::pin(self.rest(wire, reader)),
            Err(fault) => Box::pin(self.refuse(wire, fault)),
        }
    }

    /// Reads the rest of a head and handles it.
    async fn rest(&mut self, mut wire: Box<Wire>, reader: HeadReader) -> AfterRequest {
        match self.rest_of_head(&mut wire, reader).await {
            Ok(head) => Box::pin(self.request(wire, head)).await,
            Err(NoHead::Silence) => AfterRequest::Close(wire),
            Err(NoHead::Fault(fault)) => Box::pin(self.refuse(wire, fault)).await,
        }
    }

    /// Waits for the next request, which [`Drain::expire`](crate::connection::drain::Drain::expire)
    /// bounds. Returns false if the connection should end.
    fn wait<'a>(&'a mut self, wire: &'a mut Wire) -> impl Future<Output = bool> {
        let wait = if self.served == 0 { IdleWait::FirstRequest } else { IdleWait::NextRequest };
        self.idle.wait(wait, Instant::now().into_std());
        poll_fn(move |cx| {
            if let Poll::Ready(read) = wire.poll_fill(cx) {
                return Poll::Ready(matches!(read, Ok(1..)));
            }
            wire.rest();
            self.alarm.rest();
            match self.idle.is_chosen() {
                true => Poll::Ready(false),
                false => Poll::Pending,
            }
        })
    }

    /// Reads the rest of a head, of which nothing or a part has arrived. One deadline applies from
    /// its first byte.
    async fn rest_of_head(&mut self, wire: &mut Wire, mut reader: HeadReader) -> Result<Head, NoHead> {
        let now = Instant::now();
        self.idle.begin(now.into_std());
        let until = now + reader.time_limit;
        loop {
            if wire.ahead.len() >= READ_SIZE && !budget::has_room() {
                let reason = "there is no memory for a large head";
                return Err(HeadFault { status: StatusCode::SERVICE_UNAVAILABLE, reason }.into());
            }
            let read = poll_fn(|cx| match wire.poll_fill(cx) {
                Poll::Ready(read) => Poll::Ready(Some(read)),
                Poll::Pending if self.idle.is_chosen() => Poll::Ready(Some(Ok(0))),
                Poll::Pending => self.alarm.poll(cx, until).map(|()| None),
            });
            match read.await {
                Some(Ok(1..)) => {}
                Some(_) => return Err(NoHead::Silence),
                None if wire.ahead.is_empty() => return Err(NoHead::Silence),
                None => {
                    let reason = "the head did not arrive in time";
                    return Err(HeadFault { status: StatusCode::REQUEST_TIMEOUT, reason }.into());
                }
            }
            if let Some(head) = reader.read(wire)? {
                self.idle.end();
                return Ok(head);
            }
        }
    }

    /// Serves one request.
    async fn request(&mut self, mut wire: Box<Wire>, head: Head) -> AfterRequest {
        if self.info.is_plain_on_https() {
            return Box::pin(self.refuse(wire, HeadFault::PLAIN_HTTP)).await;
        }
        let open = self.worker.drain.shared().request();
        self.served += 1;
        let snapshot = PublishedSnapshot::take(&self.worker.state);
        let settings = &snapshot.compiled_settings.settings;
        let last = self.served >= settings.keep_alive_requests
            || settings.keep_alive.is_zero()
            || self.info.is_retired();
        wire.ahead.advance(head.length);
        let keep = !last && request::keeps_alive(&head);
        let client = Box::new(Client::new(wire, self.worker.clone(), &head, keep));
        match engine::serve(&self.worker, snapshot, &self.info, head, client, &mut self.alarm).await {
            (client, RequestEnd::Whole) => {
                let (framing, keep) = (client.unread(), client.keep);
                self.settle(client.into_wire(), framing, keep).await
            }
            (client, RequestEnd::Switched(switched)) => {
                let (wire, tunnel) = client.into_tunnel(*switched);
                AfterRequest::Tunnel(wire, tunnel, open)
            }
            (_, RequestEnd::Broken { .. }) => AfterRequest::Drop,
        }
    }

    /// Decides after a request whether the connection continues, and reads the rest of its body if
    /// so.
    async fn settle(&self, mut wire: Box<Wire>, mut framing: Framing, keep: bool) -> AfterRequest {
        if !keep {
            // A client that may still be sending needs time to read the response first.
            let sends = !framing.is_done() || poll_fn(|cx| Poll::Ready(wire.has_more(cx))).await;
            return match sends {
                true => AfterRequest::Linger(wire),
                false => AfterRequest::Close(wire),
            };
        }
        if framing.is_done() {
            return AfterRequest::Continue(wire);
        }
        let now = Instant::now();
        let until = now + self.worker.state.settings().client_body_timeout;
        self.idle.begin(now.into_std());
        let mut drained = 0;
        while !framing.is_done() {
            if wire.ahead.is_empty()
                && wait_for_bytes(&mut wire, until, FIRST_REQUEST_GRACE, &self.worker, self.idle).await
                    != WaitResult::Bytes
            {
                return AfterRequest::Drop;
            }
            let Ok(taken) = framing.take(&wire.ahead) else { return AfterRequest::Linger(wire) };
            wire.ahead.advance(taken);
            drained += taken as u64;
            if drained > MAX_DRAIN {
                return AfterRequest::Linger(wire);
            }
        }
        AfterRequest::Continue(wire)
    }

    /// Answers a rejected request and ends the connection.
    async fn refuse(&self, wire: Box<Wire>, fault: HeadFault) -> AfterRequest {
        let line = request_line(&wire.ahead);
        let refusal =
            UnreadableRequest { request_line: &line, length: wire.ahead.len(), status: fault.status };
        tracing::debug!(client = %self.info.peer, %fault, "refused a request");
        let mut client = Client::refused(wire, self.worker.clone());
        let sent = timeout(REFUSAL, engine::refuse(&self.worker, &self.info, refusal, &mut client)).await;
        match sent {
            Ok(true) => AfterRequest::Linger(client.into_wire()),
            Ok(false) | Err(_) => AfterRequest::Drop,
        }
    }
}

impl From<HeadFault> for NoHead {
    fn from(fault: HeadFault) -> Self {
        Self::Fault(fault)
    }
}

/// Returns the first line that a client sent, cut to the length for the log.
fn request_line(bytes: &[u8]) -> Vec<u8> {
    let line = bytes.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    line[..line.len().min(LOGGED_LINE)].to_vec()
}

/// Returns whether a client starts HTTP/2 with prior knowledge (RFC 9113 §3.3). Reads as many bytes
/// as that takes. `None` if the client sends none, or the connection ends first.
async fn starts_with_http2(wire: &mut Wire, worker: &Worker, idle: &IdleSlot) -> Option<bool> {
    let until = Instant::now() + worker.state.settings().client_header_timeout;
    loop {
        let seen = wire.ahead.len().min(PREFACE.len());
        if wire.ahead[..seen] != PREFACE[..seen] {
            return Some(false);
        }
        if seen == PREFACE.len() {
            return Some(true);
        }
        match wait_for_bytes(wire, until, FIRST_REQUEST_GRACE, worker, idle).await {
            WaitResult::Bytes => {}
            // Such a client is too slow for a head as well; the loop rejects it.
            WaitResult::TimedOut if seen > 0 => return Some(false),
            WaitResult::TimedOut | WaitResult::Ended => return None,
        }
    }
}

/// The result of waiting for bytes while no request is open.
#[derive(PartialEq, Eq)]
enum WaitResult {
    Bytes,
    /// Nothing arrived in time.
    TimedOut,
    /// The client has disconnected, or the connection is to be closed.
    Ended,
}

/// Waits for bytes while no request is open. Shutdown shortens the wait to `closing_timeout`: a
/// request may be in transit, or in the kernel without the runtime having noticed.
async fn wait_for_bytes(
    wire: &mut Wire,
    until: Instant,
    closing_timeout: Duration,
    worker: &Worker,
    idle: &IdleSlot,
) -> WaitResult {
    let read = async {
        tokio::select! {
            biased;
            read = timeout_at(until, wire.fill()) => Some(read),
            () = worker.drain.reached(ShutdownPhase::Closing) => timeout(closing_timeout, wire.fill()).await.ok().map(Ok),
        }
    };
    match idle.unless_chosen(pin!(read)).await.flatten() {
        Some(Ok(Ok(1..))) => WaitResult::Bytes,
        Some(Err(_)) => WaitResult::TimedOut,
        Some(Ok(_)) | None => WaitResult::Ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<'a, A, B, F>(_: fn(&'a mut A, B) -> F) -> usize
    where
        A: 'a,
    {
        size_of::<F>()
    }

    /// Thousands of connections are idle at any time, and each holds this future.
    #[test]
    fn an_idle_connection_is_small() {
        assert!(size(Http1::serve) <= 128, "{} bytes", size(Http1::serve));
    }
}
