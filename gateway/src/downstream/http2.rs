//! An HTTP/2 connection: its limits, its streams, and its end.
//!
//! A stream is a request of its own, for either driver; for `proxy`, Pingora turns it into a session. The
//! connection is ours in both cases, because ours is what Pingora's loop does not have: streams that are refused
//! get a log line, a connection that began while the program ends is told so with its first answer and not before,
//! and what is idle at the end is closed.
//!
//! # Floods
//!
//! What a client can make us hold or do is bounded by the connection: streams at a time, bytes of heads and of
//! bodies that wait, requests taken back, requests that are malformed. `h2` bounds the frames that cost nothing to
//! send (CONTINUATION, small DATA, resets of either side before a stream was accepted). What may happen now and then
//! is bounded as a rate (`rate`), so that a connection that lives for days does not end of it. What `h2`
//! would end a connection for, although it concerns one stream at most, never reaches it (`frames`, `hpack`).

mod client;
mod frames;
mod hpack;
mod rate;
mod streams;

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::{Request, StatusCode};
use pingora_core::apps::HttpServerApp;
use pingora_core::protocols::Digest;
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::v2::server::{H2Accept, HttpSession};
use pingora_core::protocols::raw_connect::ProxyDigest;
use sluice_config::UpstreamProtocol;
use tokio::time::{Instant, timeout};

use super::lease::{Lease, WRITE_TIMEOUT};
use super::link::{self, Link};
use crate::connection_info::ConnectionInfo;
use crate::drain::Phase;
use crate::driver::Driver;
use crate::engine::proxy::{self, Engine};
use crate::engine::{self, Ended, Refusal};
use crate::io::alarm::Alarm;
use crate::io::wire::Wire;
use crate::message::field_names::FieldNames;
use crate::message::framing::Framing;
use crate::message::head::Head;
use crate::message::head::Limits;
use crate::message::head::MAX_FIELDS;
use crate::message::head::http2::length;
use crate::message::head::http2::target;
use crate::pipeline::{Exchange, Outcome};
use crate::worker::Worker;
use client::Client;
pub(crate) use frames::Frames;
use rate::Rate;
use streams::MADE_UP_FOR_ONE;
pub(crate) use streams::{OpenStream, Streams};

/// Bytes of a stream that may wait for an endpoint.
const STREAM_WINDOW: u32 = 256 * 1024;
/// The same for all streams of a connection, without those whose endpoints take nothing: for each of these the
/// connection gets the window of a stream more, so that they do not use up what the others need.
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// The same where Pingora serves the streams, which does not tell how they fare: 31 of them may be stalled.
const PROXY_WINDOW: u32 = 32 * STREAM_WINDOW;
/// What small pieces of bodies may cost while they wait, which `h2` counts as what each lacks to 256 bytes, about what
/// it needs to keep one, and for whose excess it ends the connection. As much as the largest window, at all times: what
/// has come does not go when the window becomes smaller. So pieces of 128 bytes may fill it, and whoever sends single
/// bytes makes us hold some 37,000 of them, which is no more memory than full windows take.
const PIECES: usize = (CONNECTION_WINDOW + MADE_UP_FOR_ONE as u32 * STREAM_WINDOW) as usize;
/// Streams that a client may reset at a time before anybody has looked at them (CVE-2023-44487).
const RESETS: usize = 20;
/// Streams that a client may make `h2` reset (CVE-2025-8671), over the life of a connection, because `h2` counts no
/// other way. What such a stream has cost, if an endpoint was asked, counts as taken back besides.
const OWN_RESETS: usize = 1024;
/// Requests that may be malformed at a time, and then one for each of these.
const MALFORMED: u32 = 100;
const MALFORMED_LEAK: Duration = Duration::from_millis(100);
/// Bytes of a response that may wait for the socket, per stream.
const SEND_BUFFER: usize = 64 * 1024;
/// How long a client may take to answer the last PING of a connection that ends, and then to close its side.
const FAREWELL: Duration = Duration::from_secs(1);

type Connection = h2::server::Connection<Stream, Bytes>;

/// A connection that speaks HTTP/2.
pub(crate) struct Http2 {
    worker: Arc<Worker>,
    /// What Pingora needs, once a stream goes to it.
    engine: Option<Arc<Engine>>,
    info: Arc<ConnectionInfo>,
    streams: Arc<Streams>,
    /// Requests that have come.
    served: u32,
    /// Whether the client was told that the connection ends.
    farewell: bool,
    /// Streams that the connection's window makes up for.
    made_up: usize,
    malformed: Rate,
}

/// What a connection does next.
#[expect(
    clippy::large_enum_variant,
    reason = "returned and taken apart at once, never kept; a box would cost each stream"
)]
enum Event {
    /// Serves a stream.
    Accepted(Accepted),
    /// Looks at its window.
    Stalled,
    /// Tells the client that it ends.
    Farewell,
    /// Ends.
    End,
}

/// A stream that the client has begun.
#[expect(
    clippy::large_enum_variant,
    reason = "returned and taken apart at once, never kept; a box would cost each stream"
)]
enum Accepted {
    /// For the direct driver.
    Stream(Request<RecvStream>, SendResponse<Bytes>),
    /// For Pingora.
    Session(Box<HttpSession>),
    /// Pingora has answered with 400 or a reset, and shows nothing of the request.
    Rejected,
}

/// How long no stream has been open.
#[derive(Default)]
struct Idle {
    alarm: Alarm,
    since: Option<Instant>,
    /// Bytes that had reached the client when that was looked at, and since when there were no more.
    arrived: Option<(u64, Instant)>,
}

impl Idle {
    /// Whether the client has still to get something, and gets it.
    fn is_sending(&mut self, link: &Link, now: Instant) -> bool {
        let Some(arrived) = link.on_its_way() else { return false };
        match self.arrived {
            Some((before, since)) if before == arrived => now < since + WRITE_TIMEOUT,
            _ => {
                self.arrived = Some((arrived, now));
                true
            }
        }
    }
}

impl Http2 {
    pub(crate) fn new(worker: Arc<Worker>, info: Arc<ConnectionInfo>) -> Self {
        let (streams, malformed) = (Arc::default(), Rate::new(MALFORMED, MALFORMED_LEAK));
        Self { worker, engine: None, info, streams, served: 0, farewell: false, made_up: 0, malformed }
    }

    /// Serves streams until the connection ends, and gives the client time to say its own farewell.
    pub(crate) async fn serve(self, wire: Box<Wire>) {
        let digest = link::Client::digest(self.info.clone(), None, Some(self.streams.clone()));
        let link = Link::opaque();
        link.set_descriptor(wire.transport.descriptor());
        let lease = Lease::of_frames(wire, Frames::new(), link.clone(), digest.clone());
        self.run(lease, &link, digest).await;
        if let Some(back) = link.take_home() {
            back.wire.linger(FAREWELL).await;
        }
    }

    async fn run(mut self, lease: Lease, link: &Link, digest: Arc<ProxyDigest>) {
        let digest = Arc::new(Digest { proxy_digest: Some(digest), ..Digest::default() });
        let (options, patience) = self.options();
        let io: Stream = Box::new(lease);
        let Ok(Ok(mut connection)) = timeout(patience, options.handshake(io)).await else { return };
        let worker = self.worker.clone();
        // One that began while the program ends has had no chance to ask for anything yet.
        let last_word = match worker.drain.shared().phase() {
            Phase::Serving => Phase::Draining,
            _ => Phase::Closing,
        };
        let (mut idle, mut ear) = (Idle::default(), pin!(None));
        loop {
            self.make_up(&mut connection);
            let event = {
                let mut accepting = pin!(accept(worker.driver, &mut connection, &digest));
                poll_fn(|cx| {
                    if let Poll::Ready(accepted) = accepting.as_mut().poll(cx) {
                        return Poll::Ready(accepted.map_or(Event::End, Event::Accepted));
                    }
                    // Once it is told, what comes next is that idle connections have less time.
                    let phase = if self.farewell { Phase::Closing } else { last_word };
                    let reached = worker.drain.poll_reached(cx, &mut ear, phase).is_ready();
                    if reached && !self.farewell {
                        return Poll::Ready(Event::Farewell);
                    }
                    let idle = self.poll_idle(cx, link, &mut idle);
                    if self.streams.stalled() != self.made_up {
                        return Poll::Ready(Event::Stalled);
                    }
                    idle.map(|()| match self.farewell {
                        true => Event::End,
                        false => Event::Farewell,
                    })
                })
                .await
            };
            match event {
                Event::Accepted(accepted) => self.stream(accepted, &mut connection),
                Event::Stalled => {}
                Event::Farewell => {
                    idle.since = None;
                    self.say_farewell(&mut connection);
                }
                Event::End => return,
            }
        }
    }

    /// Ready when no stream has been open for as long as a connection may be idle.
    fn poll_idle(&self, cx: &mut Context<'_>, link: &Link, idle: &mut Idle) -> Poll<()> {
        if !self.streams.poll_none(cx) {
            (idle.since, idle.arrived) = (None, None);
            return Poll::Pending;
        }
        let tuning = self.worker.state.tuning.load();
        let patience = match self.worker.drain.shared().phase() {
            Phase::Closing => FAREWELL,
            // Requests that were sent before the client heard the farewell are on their way.
            _ if self.farewell => tuning.keep_alive.max(FAREWELL),
            // As with HTTP/1, nothing has been kept alive yet.
            _ if self.served == 0 => tuning.client_header_timeout,
            _ => tuning.keep_alive,
        };
        drop(tuning);
        let since = *idle.since.get_or_insert_with(Instant::now);
        ready!(idle.alarm.poll(cx, since + patience));
        // A stream has ended when `h2` has its last piece, which a slow client gets a good deal later.
        if !self.farewell || !idle.is_sending(link, Instant::now()) {
            return Poll::Ready(());
        }
        let now = *idle.since.insert(Instant::now());
        idle.alarm.poll(cx, now + patience)
    }

    /// Opens the connection's window by what stalled streams hold of it.
    fn make_up(&mut self, connection: &mut Connection) {
        let stalled = self.streams.stalled();
        if stalled != self.made_up && self.worker.driver.is_direct(UpstreamProtocol::Http) {
            self.made_up = stalled;
            let more = u32::try_from(stalled).unwrap_or(u32::MAX).saturating_mul(STREAM_WINDOW);
            connection.set_target_window_size(CONNECTION_WINDOW.saturating_add(more).min(i32::MAX as u32));
        }
    }

    fn options(&self) -> (Builder, Duration) {
        let tuning = self.worker.state.tuning.load();
        let window = match self.worker.driver.is_direct(UpstreamProtocol::Http) {
            true => CONNECTION_WINDOW,
            false => PROXY_WINDOW,
        };
        let mut options = Builder::new();
        options
            .max_concurrent_streams(tuning.http2_max_concurrent_streams)
            .max_header_list_size(head_list(&Limits::of(&tuning)))
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(window)
            .data_frame_budget(PIECES)
            .max_send_buffer_size(SEND_BUFFER)
            .max_pending_accept_reset_streams(RESETS)
            .max_local_error_reset_streams(Some(OWN_RESETS));
        (options, tuning.client_header_timeout)
    }

    fn stream(&mut self, accepted: Accepted, connection: &mut Connection) {
        self.served = self.served.saturating_add(1);
        let (most, last) = {
            let tuning = self.worker.state.tuning.load();
            (tuning.http2_max_concurrent_streams as usize, self.served >= tuning.keep_alive_requests)
        };
        // It took back requests faster than they can be let go of.
        let refused = self.streams.under_way() >= 2 * most;
        if !refused && self.streams.are_cancelled_too_often() {
            return connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        }
        match accepted {
            Accepted::Stream(_, mut reply) if refused => reply.send_reset(Reason::REFUSED_STREAM),
            Accepted::Session(mut session) if refused => session.shutdown_with_reason(Reason::REFUSED_STREAM),
            Accepted::Stream(request, reply) => self.serve_stream(request, reply, connection),
            Accepted::Session(session) => {
                let open = self.streams.open();
                let worker = self.worker.clone();
                let engine = self.engine.get_or_insert_with(|| proxy::engine(&worker)).clone();
                tokio::spawn(async move {
                    let _open = (open, worker.drain.shared().request());
                    engine.process_new_http(ServerSession::new_http2(*session), &proxy::never()).await;
                });
            }
            Accepted::Rejected => {
                let (mut exchange, answer) =
                    Exchange::refuse(&self.worker.state, &self.info, b"", 0, StatusCode::BAD_REQUEST);
                exchange.end(Outcome { status: Some(answer.status), ..Outcome::default() });
                self.count_malformed(connection);
            }
        }
        if (last || self.worker.drain.is_draining()) && !self.farewell {
            self.say_farewell(connection);
        }
    }

    /// Serves a stream without Pingora.
    fn serve_stream(
        &mut self,
        request: Request<RecvStream>,
        reply: SendResponse<Bytes>,
        connection: &mut Connection,
    ) {
        let (parts, body) = request.into_parts();
        let (open, worker, info) = (self.streams.open(), self.worker.clone(), self.info.clone());
        let running = worker.drain.shared().request();
        let (limits, names) = {
            let tuning = worker.state.tuning.load();
            (Limits::of(&tuning), FieldNames::of(&tuning))
        };
        match Head::http2(&parts, body.is_end_stream(), &limits, names) {
            Ok(head) => {
                drop(parts);
                // In a box, because the runtime moves a task about several times before and after it runs.
                tokio::spawn(Box::pin(async move {
                    let client = Client::of(&head, body, reply, open);
                    serve_stream(&worker, &info, head, client).await;
                    drop(running);
                }));
            }
            Err(fault) => {
                tracing::debug!(client = %info.peer, %fault, "refused a request");
                tokio::spawn(async move {
                    let line = format!("{} {} {:?}", parts.method, target(&parts), parts.version);
                    let refusal = Refusal {
                        request_line: line.as_bytes(),
                        length: length(&parts),
                        status: fault.status,
                    };
                    let mut client = Client::new(body, reply, Framing::NONE, FieldNames::ANY, open);
                    engine::refuse(&worker, &info, refusal, &mut client).await;
                    client.settle(&worker).await;
                    drop(running);
                });
                if fault.status == StatusCode::BAD_REQUEST {
                    self.count_malformed(connection);
                }
            }
        }
    }

    fn count_malformed(&mut self, connection: &mut Connection) {
        self.malformed.count();
        if self.malformed.is_exceeded() {
            connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        }
    }

    /// GOAWAY: streams that are open or on their way are served, then the connection ends.
    fn say_farewell(&mut self, connection: &mut Connection) {
        self.farewell = true;
        connection.graceful_shutdown();
    }
}

/// Serves one stream.
async fn serve_stream(worker: &Worker, info: &Arc<ConnectionInfo>, head: Head, client: Client) {
    let (mut client, ended) = engine::serve(worker, info, head, client, &mut Alarm::default()).await;
    match ended {
        Ended::Whole => {
            client.ended(false);
            client.settle(worker).await;
        }
        Ended::Broken { asked } => {
            let by_client = client.reset();
            client.ended(by_client && asked);
        }
        // No stream asks for another protocol.
        Ended::Switched(_) => {
            let by_client = client.reset();
            client.ended(by_client);
        }
    }
}

/// Bytes of a head, as HTTP/2 counts them (RFC 9113 §6.5.2: 32 more for each field), that `h2` lets through. What is
/// too large by the limits of HTTP/1 is to be answered by us, with our page and a log line; `h2` answers by itself
/// (431) where a head is more than twice as large.
fn head_list(limits: &Limits) -> u32 {
    let bytes = limits.head.saturating_mul(2).saturating_add(MAX_FIELDS * 32);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The next stream; `None` when the connection has ended.
async fn accept(driver: Driver, connection: &mut Connection, digest: &Arc<Digest>) -> Option<Accepted> {
    if driver.is_direct(UpstreamProtocol::Http) {
        let (request, reply) = connection.accept().await?.ok()?;
        return Some(Accepted::Stream(request, reply));
    }
    Some(match HttpSession::from_h2_conn(connection, digest.clone()).await.ok()?? {
        H2Accept::Session(session) => Accepted::Session(Box::new(session)),
        H2Accept::Rejected => Accepted::Rejected,
    })
}
