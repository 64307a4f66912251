//! An HTTP/2 connection: its limits, streams and end.
//!
//! Each stream is one request. All streams are served by the task of the connection (`serving`,
//! `turn`). Pingora's HTTP/2 connection is not used, for three reasons: rejected streams get a log
//! line here, a connection that begins during shutdown gets GOAWAY with its first response and not
//! before, and idle connections are closed at the end of shutdown.
//!
//! # Floods
//!
//! The connection bounds the memory and work that a client can cause: concurrent streams, buffered
//! bytes of heads and bodies, cancelled requests and malformed requests. `h2` bounds the frames
//! that are cheap to send (CONTINUATION, small DATA, resets by either side before a stream was
//! accepted). Events that are legitimate now and then are bounded as a rate (`io/rate.rs`), so
//! connections that live for days do not reach a limit. Input for which `h2` would end the
//! connection, although it concerns one stream at most, is handled before it reaches `h2`
//! (`io/frames.rs`, `hpack`).

mod body_flow;
mod client;
mod hpack;
mod serving;
mod stream;
mod streams;
mod tunnel;
mod turn;
mod window;

#[cfg(test)]
pub(crate) use hpack::repair as repair_block;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use hpack::trial as try_field_block;

use std::future::poll_fn;
use std::os::fd::RawFd;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::{Request, StatusCode};
use tokio::time::{Instant, timeout};

use super::deliver;
use crate::connection::drain::ShutdownPhase;
use crate::connection::idle::IdleSlot;
use crate::connection::info::ConnectionInfo;
use crate::engine::{self, RequestEnd, UnreadableRequest};
use crate::io::alarm::Alarm;
use crate::io::joined::WRITE_TIMEOUT;
use crate::io::rate::LeakyBucket;
use crate::io::transport::acknowledged_in_flight;
use crate::io::wire::{LingerLimits, Wire};
use crate::message::field_names::FieldNames;
use crate::message::framing::Framing;
use crate::message::head::Head;
use crate::message::head::HeadLimits;
use crate::message::head::MAX_FIELDS;
use crate::message::head::http2::length;
use crate::message::head::http2::restore_target;
use crate::message::head::http2::target;
use crate::state::snapshot::PublishedSnapshot;
use crate::worker::Worker;
use client::Client;
use serving::Serving;
use stream::{Home, Stream};
use streams::{OpenStream, Streams};
use turn::{Turn, Wakers, Woken};
use window::Window;

/// Overhead budget for small pieces of bodies: the sum by which waiting pieces are smaller than 256
/// bytes, which is about what `h2` needs to keep one. Beyond it `h2` ends the connection. It allows
/// 4,112 pieces of one byte, and a full window of pieces of 128 bytes.
const PIECES: usize = 1024 * 1024;
/// Streams that a client may reset at a time before they are accepted (CVE-2023-44487).
const RESETS: usize = 20;
/// Streams that a client may cause `h2` to reset (CVE-2025-8671), over the life of a connection:
/// `h2` has no other way to count them. If such a stream reached an endpoint, it also counts as
/// cancelled.
const OWN_RESETS: usize = 1024;
/// Malformed requests allowed at a time, and then one per [`MALFORMED_LEAK`].
const MALFORMED: u32 = 100;
const MALFORMED_LEAK: Duration = Duration::from_millis(100);
/// Streams that a client may open while new streams are refused, and then one per [`REFUSED_LEAK`].
const REFUSED: u32 = 1000;
const REFUSED_LEAK: Duration = Duration::from_millis(10);
/// Time for which streams that a client opens after GOAWAY are served. Later ones ignore GOAWAY:
/// those in transit have arrived by then.
const GOAWAY_GRACE: Duration = Duration::from_secs(5);
/// Bytes of a response that may wait for the socket, per stream.
const SEND_BUFFER: usize = 64 * 1024;
/// Time that a client has to answer the last PING of a connection, and then to close its side.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Limits after the end of a connection, which may have ended because of a flood.
const LAST_LIMITS: LingerLimits =
    LingerLimits { total: CLOSE_TIMEOUT, silence: CLOSE_TIMEOUT, bytes: 1 << 20 };

type Connection = h2::server::Connection<Stream, Bytes>;

/// An HTTP/2 connection.
pub(crate) struct Http2 {
    worker: Arc<Worker>,
    info: Arc<ConnectionInfo>,
    streams: Arc<Streams>,
    serving: Serving,
    /// Number of requests received.
    served: u32,
    /// When GOAWAY was sent.
    goaway_sent: Option<Instant>,
    /// New streams are refused; open ones are served.
    refuses_streams: bool,
    /// Whether the connection is closed in favour of a new one.
    dismissed: bool,
    window: Window,
    malformed: LeakyBucket,
    refused: LeakyBucket,
    /// A field block has reached `h2` without inspection, so an escaped target may be the client's.
    uninspected: Arc<AtomicBool>,
}

/// How long the connection has been without open streams.
#[derive(Default)]
struct Idle {
    alarm: Alarm,
    since: Option<Instant>,
    /// Bytes that had reached the client at the last check, and since when this number is
    /// unchanged.
    arrived: Option<(u64, Instant)>,
}

impl Idle {
    /// Returns whether the client still has output to receive and makes progress.
    fn is_sending(&mut self, socket: RawFd, now: Instant) -> bool {
        let Some(arrived) = acknowledged_in_flight(socket) else { return false };
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
        let malformed = LeakyBucket::new(MALFORMED, MALFORMED_LEAK);
        let refused = LeakyBucket::new(REFUSED, REFUSED_LEAK);
        let (streams, serving) = (Arc::default(), Serving::default());
        Self {
            worker,
            info,
            streams,
            serving,
            served: 0,
            goaway_sent: None,
            refuses_streams: false,
            dismissed: false,
            window: Window::new(window::stream_window()),
            malformed,
            refused,
            uninspected: Arc::default(),
        }
    }

    /// Serves streams until the connection ends, and then waits for the client to close its side.
    /// An idle connection is closed at once in favour of a new one.
    pub(crate) async fn serve(self, wire: Box<Wire>, idle: &IdleSlot) {
        let (home, worker) = (Home::default(), self.worker.clone());
        let socket = wire.transport.descriptor();
        let stream = Stream::new(wire, home.clone(), self.uninspected.clone());
        let left = self.run(stream, socket, idle).await;
        let close = async {
            match home.take() {
                Some(wire) if idle.is_chosen() => wire.close().await,
                Some(mut wire) => {
                    deliver(&mut wire, &worker).await;
                    idle.begin(Instant::now().into_std());
                    idle.unless_chosen(Box::pin(wire.linger(LAST_LIMITS))).await;
                }
                None => {}
            }
        };
        tokio::join!(left.finish(), close);
    }

    /// Runs the connection and returns its unfinished streams. `socket` is the client's descriptor,
    /// valid while the connection exists.
    async fn run(mut self, stream: Stream, socket: RawFd, slot: &IdleSlot) -> Serving {
        let (options, time_limit) = self.options();
        let made = slot.unless_chosen(Box::pin(timeout(time_limit, options.handshake(stream)))).await;
        let Some(Ok(Ok(mut connection))) = made else {
            return self.serving;
        };
        let worker = self.worker.clone();
        // A connection that began during shutdown has had no chance to send a request yet.
        let last_phase = match worker.drain.shared().phase() {
            ShutdownPhase::Serving => ShutdownPhase::Draining,
            _ => ShutdownPhase::Closing,
        };
        let (mut idle, mut waiter, turn) = (Idle::default(), pin!(None), Turn::new());
        let mut round = |wakers: &mut Wakers<'_>, woken: Woken| {
            let Wakers { connection: cx, streams } = wakers;
            if woken.streams {
                self.serving.poll(streams);
            }
            let mut goes_on = self.window.adapt(cx, &mut connection, &self.streams) || woken.connection;
            loop {
                while goes_on {
                    match connection.poll_accept(cx) {
                        Poll::Ready(Some(Ok((request, reply)))) => {
                            self.stream(request, reply, &mut connection);
                            streams.waker().wake_by_ref();
                        }
                        Poll::Ready(_) => return Poll::Ready(()),
                        Poll::Pending => goes_on = false,
                    }
                }
                // After GOAWAY, the next phase is the one in which idle connections get less time.
                let phase = if self.goaway_sent.is_some() { ShutdownPhase::Closing } else { last_phase };
                let reached = worker.drain.poll_reached(cx, &mut waiter, phase).is_ready();
                let is_idle = self.poll_idle(cx, socket, &mut idle, slot).is_ready();
                if slot.is_chosen() && !self.dismissed {
                    self.dismissed = true;
                    // GOAWAY states which requests were not served, so that the client can send
                    // them elsewhere.
                    connection.abrupt_shutdown(Reason::NO_ERROR);
                    goes_on = true;
                    continue;
                }
                match self.goaway_sent.is_some() {
                    true if is_idle => return Poll::Ready(()),
                    false if is_idle || reached || self.info.is_retired() => {
                        idle.since = None;
                        self.send_goaway(&mut connection);
                        goes_on = true;
                    }
                    _ => return Poll::Pending,
                }
            }
        };
        poll_fn(|cx| turn.poll(cx, &mut round)).await;
        self.serving
    }

    /// Ready when no stream was open for as long as a connection may be idle.
    fn poll_idle(&self, cx: &mut Context<'_>, socket: RawFd, idle: &mut Idle, slot: &IdleSlot) -> Poll<()> {
        if self.streams.under_way() > 0 {
            (idle.since, idle.arrived) = (None, None);
            slot.end();
            return Poll::Pending;
        }
        let since = *idle.since.get_or_insert_with(Instant::now);
        slot.begin(since.into_std());
        // The end of a response is still in transit.
        if slot.is_chosen() && acknowledged_in_flight(socket).is_some() {
            slot.renew(Instant::now().into_std());
        }
        let snapshot = PublishedSnapshot::take(&self.worker.state);
        let settings = &snapshot.compiled_settings.settings;
        let time_limit = match self.worker.drain.shared().phase() {
            ShutdownPhase::Closing => CLOSE_TIMEOUT,
            _ if self.refuses_streams => CLOSE_TIMEOUT,
            // Requests that the client sent before it received GOAWAY are still in transit.
            _ if self.goaway_sent.is_some() => settings.keep_alive.max(CLOSE_TIMEOUT),
            // As in HTTP/1: before the first request the timeout for heads applies.
            _ if self.served == 0 => settings.client_header_timeout,
            _ => settings.keep_alive,
        };
        drop(snapshot);
        ready!(idle.alarm.poll(cx, since + time_limit));
        // A stream ends when `h2` has its last piece, which a slow client receives much later.
        if self.goaway_sent.is_none() || !idle.is_sending(socket, Instant::now()) {
            return Poll::Ready(());
        }
        let now = *idle.since.insert(Instant::now());
        idle.alarm.poll(cx, now + time_limit)
    }

    fn options(&self) -> (Builder, Duration) {
        let settings = self.worker.state.settings();
        let mut options = Builder::new();
        options
            .max_concurrent_streams(settings.http2_max_concurrent_streams)
            .max_header_list_size(head_list(&HeadLimits::of(&settings)))
            .initial_window_size(self.window.of_stream())
            .data_frame_budget(PIECES)
            .max_send_buffer_size(SEND_BUFFER)
            .max_pending_accept_reset_streams(RESETS)
            .max_local_error_reset_streams(Some(OWN_RESETS))
            .enable_connect_protocol();
        (options, settings.client_header_timeout)
    }

    fn stream(
        &mut self,
        request: Request<RecvStream>,
        mut reply: SendResponse<Bytes>,
        connection: &mut Connection,
    ) {
        self.served = self.served.saturating_add(1);
        let snapshot = PublishedSnapshot::take(&self.worker.state);
        let settings = &snapshot.compiled_settings.settings;
        let most = settings.http2_max_concurrent_streams as usize;
        let last = self.served >= settings.keep_alive_requests;
        if self.streams.are_cancelled_too_often() {
            self.refuse_streams(connection);
        }
        self.refuses_streams |= self.has_ignored_goaway();
        // The second condition: the client cancels requests faster than they can be ended.
        if self.refuses_streams || self.streams.under_way() >= 2 * most {
            reply.send_reset(Reason::REFUSED_STREAM);
            self.count_refused(connection);
        } else {
            self.serve_stream(snapshot, request, reply, connection);
        }
        if (last || self.worker.drain.is_draining()) && self.goaway_sent.is_none() {
            self.send_goaway(connection);
        }
    }

    /// Starts to serve a stream.
    fn serve_stream(
        &mut self,
        snapshot: PublishedSnapshot,
        request: Request<RecvStream>,
        reply: SendResponse<Bytes>,
        connection: &mut Connection,
    ) {
        let (mut parts, body) = request.into_parts();
        if !self.uninspected.load(Ordering::Relaxed) {
            restore_target(&mut parts);
        }
        let (open, worker, info) = (self.streams.open(), self.worker.clone(), self.info.clone());
        let running = worker.drain.shared().request();
        let settings = &snapshot.compiled_settings.settings;
        let (limits, names) = (HeadLimits::of(settings), FieldNames::of(settings));
        let read = match Head::is_extended_connect(&parts) {
            true => Head::websocket(&parts, &limits, names).map(|(head, accept)| (head, Some(accept))),
            false => Head::http2(&parts, body.is_end_stream(), &limits, names).map(|head| (head, None)),
        };
        match read {
            Ok((head, accept)) => {
                drop(parts);
                self.serving.begin(async move {
                    let client = Client::of(&head, body, reply, open).accepting(accept);
                    serve_stream(&worker, snapshot, &info, head, Box::new(client)).await;
                    drop(running);
                });
            }
            Err(fault) => {
                tracing::debug!(client = %info.peer, %fault, "refused a request");
                self.serving.begin(async move {
                    let line = format!("{} {} {:?}", parts.method, target(&parts), parts.version);
                    let refusal = UnreadableRequest {
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
            self.refuse_streams(connection);
        }
    }

    /// Ends the connection with all its streams if the client keeps opening streams that are
    /// refused.
    fn count_refused(&self, connection: &mut Connection) {
        self.refused.count();
        if self.refused.is_exceeded() {
            connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
        }
    }

    /// Sends GOAWAY and refuses new streams. Open ones are served, then the connection ends.
    fn refuse_streams(&mut self, connection: &mut Connection) {
        self.refuses_streams = true;
        if self.goaway_sent.is_none() {
            self.send_goaway(connection);
        }
    }

    /// Returns whether the client opens streams although GOAWAY was sent long ago.
    fn has_ignored_goaway(&self) -> bool {
        let grace = match self.worker.drain.shared().phase() {
            ShutdownPhase::Closing => CLOSE_TIMEOUT,
            ShutdownPhase::Serving | ShutdownPhase::Draining => GOAWAY_GRACE,
        };
        self.goaway_sent.is_some_and(|since| since.elapsed() >= grace)
    }

    /// Sends GOAWAY. Streams that are open or in transit are served, then the connection ends.
    fn send_goaway(&mut self, connection: &mut Connection) {
        self.goaway_sent = Some(Instant::now());
        connection.graceful_shutdown();
    }
}

/// Serves one stream.
async fn serve_stream(
    worker: &Arc<Worker>,
    snapshot: PublishedSnapshot,
    info: &Arc<ConnectionInfo>,
    head: Head,
    client: Box<Client>,
) {
    let mut alarm = Alarm::default();
    let (mut client, ended) = engine::serve(worker, snapshot, info, head, client, &mut alarm).await;
    match ended {
        RequestEnd::Whole => {
            client.ended(false);
            client.settle(worker).await;
        }
        RequestEnd::Broken { asked } => {
            let by_client = client.reset();
            client.ended(by_client && asked);
        }
        RequestEnd::Switched(switched) => client.tunnel(*switched, &mut alarm).await,
    }
}

/// Returns the maximum size of a head for `h2`, as HTTP/2 counts it (RFC 9113 §6.5.2: 32 bytes more
/// per field). Heads that exceed the limits of HTTP/1 should get our page and a log line; `h2`
/// itself answers 431 only if a head is more than twice as large.
fn head_list(limits: &HeadLimits) -> u32 {
    let bytes = limits.head.saturating_mul(2).saturating_add(MAX_FIELDS * 32);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
