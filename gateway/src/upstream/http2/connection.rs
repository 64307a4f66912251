//! A single HTTP/2 connection to an endpoint.

use std::future::poll_fn;
use std::os::fd::RawFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::SendStream;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::Request;

use super::super::connection::Connection as Made;
use super::connection_state::ConnectionState;
use super::group::{Coming, STREAMS};
use super::stream::Stream;
use crate::io::budget;
use crate::io::failure::FailureKind;
use crate::io::rate::LeakyBucket;
use crate::io::transport::has_left;
use crate::message::response::MAX_HEAD;
use crate::process::descriptors::DescriptorPermit;
use crate::upstream::attempt::{KeepAlive, Upstream};

/// Bytes of a response that may be buffered for a slow client, unless memory is short.
const STREAM_WINDOW: u32 = 128 * 1024;
/// The same for all responses of a connection: the sum of their windows, so that no response waits
/// because the clients of others are slow.
const CONNECTION_WINDOW: u32 = STREAMS as u32 * STREAM_WINDOW;
/// Budget for the overhead of small body pieces that wait. `h2` charges each piece the difference
/// to 256 bytes, about the cost of storing it, and ends the connection if the budget is exceeded.
/// Pieces wait there for the next turn of their request only, also if its client is slow.
const PIECES: usize = 32 * 1024 * 1024;
/// Bytes of a request that may wait for the socket, per stream.
const SEND_BUFFER: usize = 64 * 1024;
/// Maximum number of reset streams that are remembered, because frames for them may still arrive.
/// `h2` answers frames for other streams with a reset, whose number is bounded too.
const RESETS: usize = 1024;
const OWN_RESETS: usize = 16 * 1024;
/// Cancelled calls at a time, and then one per [`CANCELLED_LEAK`], beyond which a connection
/// accepts no requests until some have leaked. Endpoints count resets and end a connection with too
/// many, with the calls of all clients; gRPC for Java allows 200 in 30 s.
const CANCELLED: u32 = 10;
const CANCELLED_LEAK: Duration = Duration::from_millis(200);
/// Number of streams that no endpoint allows. It marks a connection whose SETTINGS have not
/// arrived.
const UNSETTLED: usize = 0x7fff_fff1;

/// A connection that accepts requests.
#[derive(Debug)]
pub(in crate::upstream) struct Connection {
    /// Sends nothing itself: each request has a clone. A handle that has sent a request with a body
    /// remembers its stream, and `poll_ready` replaces the waker of that stream's upload.
    requests: Mutex<SendRequest<Bytes>>,
    pub(super) state: Arc<ConnectionState>,
    socket: RawFd,
    pub(super) made: Instant,
    /// Number of current requests.
    streams: AtomicUsize,
    /// Number of requests so far.
    served: AtomicU32,
    /// When the last request left the connection, in milliseconds since `made`, and how long it may
    /// be idle from then on, in milliseconds.
    idle_from: AtomicU64,
    idle_for: AtomicU64,
    /// Requests that the gateway has reset before their responses were complete.
    cancelled: LeakyBucket,
}

/// Permission for one stream on a connection; released when dropped.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    connection: Arc<Connection>,
    /// Whether the connection existed before this request.
    pub(crate) reused: bool,
    /// Bytes written and received when the permit was issued.
    written: u64,
    heard: u64,
}

impl Connection {
    /// Starts HTTP/2. The task of the connection reports how many requests the endpoint allows.
    pub(in crate::upstream) async fn begin(
        made: Made,
        upstream: &Upstream,
        coming: Coming,
    ) -> Result<Arc<Self>, FailureKind> {
        let Made { stream: transport, place, .. } = made;
        let (state, socket) = (Arc::<ConnectionState>::default(), transport.descriptor());
        let mut options = Builder::new();
        options
            .enable_push(false)
            .initial_max_send_streams(UNSETTLED)
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .data_frame_budget(PIECES)
            .max_send_buffer_size(SEND_BUFFER)
            .max_header_list_size(MAX_HEAD as u32)
            .max_concurrent_reset_streams(RESETS)
            .max_local_error_reset_streams(Some(OWN_RESETS));
        let begun = options.handshake::<_, Bytes>(Stream::new(transport, state.clone())).await;
        let (requests, connection) = begun.map_err(|_| FailureKind::Handshake)?;
        tokio::spawn(run(connection, state.clone(), coming, place));
        Ok(Arc::new(Self {
            requests: Mutex::new(requests),
            state,
            socket,
            made: Instant::now(),
            streams: AtomicUsize::new(0),
            served: AtomicU32::new(0),
            idle_from: AtomicU64::new(0),
            idle_for: AtomicU64::new(millis(upstream.keep_alive.idle)),
            cancelled: LeakyBucket::new(CANCELLED, CANCELLED_LEAK),
        }))
    }

    /// Returns a permit if the connection has a free stream, appears to be alive, and has not had
    /// too many cancelled requests.
    pub(in crate::upstream) fn take(
        self: &Arc<Self>,
        upstream: &Upstream,
        reused: bool,
    ) -> Option<StreamPermit> {
        let streams = self.streams.load(Relaxed);
        let too_old = upstream.fresh && self.made < upstream.began;
        if too_old
            || streams >= STREAMS
            || self.is_over(&upstream.keep_alive, upstream.began)
            || self.cancelled.is_exceeded()
        {
            return None;
        }
        let allowed = {
            let mut requests = self.requests();
            if has_failed(&mut requests) {
                return None;
            }
            requests.current_max_send_streams()
        };
        // Before its SETTINGS arrive, an endpoint is only sure to accept one request.
        if streams >= if allowed == UNSETTLED { 1 } else { allowed } {
            return None;
        }
        // A request that cannot be sent twice justifies a system call. A connection in use would
        // already be known to have ended.
        if streams == 0 && reused && !upstream.repeatable && has_left(self.socket) {
            return None;
        }
        self.streams.store(streams + 1, Relaxed);
        self.served.fetch_add(1, Relaxed);
        self.idle_for.store(millis(upstream.keep_alive.idle), Relaxed);
        let (written, heard) = (self.state.written.load(Relaxed), self.state.heard.load(Relaxed));
        Some(StreamPermit { connection: self.clone(), reused, written, heard })
    }

    /// Returns whether the connection accepts no more requests: it has ended or is ending, or it
    /// has reached its maximum age or number of requests.
    pub(super) fn is_over(&self, keep: &KeepAlive, now: Instant) -> bool {
        self.state.ended.load(Relaxed)
            || self.served.load(Relaxed) >= keep.requests
            || now.saturating_duration_since(self.made) >= keep.age
    }

    /// Returns whether the connection will not accept requests again, or has exceeded its idle
    /// time.
    pub(super) fn is_done(&self, now: Instant) -> bool {
        let idle = self
            .idle_since()
            .is_some_and(|since| millis(now.saturating_duration_since(since)) >= self.idle_for.load(Relaxed));
        idle || has_failed(&mut self.requests())
    }

    /// Returns the time since which the connection has no requests; `None` if it has some.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let since = Duration::from_millis(self.idle_from.load(Relaxed));
        (self.streams.load(Relaxed) == 0).then(|| self.made + since)
    }

    fn requests(&self) -> MutexGuard<'_, SendRequest<Bytes>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Drives a connection until it ends.
async fn run(
    mut connection: h2::client::Connection<Stream, Bytes>,
    state: Arc<ConnectionState>,
    coming: Coming,
    _place: DescriptorPermit,
) {
    let mut coming = Some(coming);
    let mut window = STREAM_WINDOW;
    let ended = poll_fn(|cx| {
        state.turn.store(0, Relaxed);
        let wanted = u32::try_from(budget::window(STREAM_WINDOW as usize)).unwrap_or(STREAM_WINDOW);
        // Fails until the endpoint has acknowledged the previous change.
        if wanted != window && connection.set_initial_window_size(wanted).is_ok() {
            window = wanted;
        }
        let polled = Pin::new(&mut connection).poll(cx);
        if let Some(come) = coming.take_if(|_| connection.max_concurrent_send_streams() != UNSETTLED) {
            come.allows(connection.max_concurrent_send_streams().min(STREAMS));
        }
        polled
    })
    .await;
    state.ended.store(true, Relaxed);
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to an endpoint has ended");
    }
}

impl StreamPermit {
    /// Sends the head of a request. `ends` states that the request has no body.
    ///
    /// # Errors
    /// The connection is ending, and nothing was sent.
    pub(crate) fn send(
        &self,
        request: Request<()>,
        ends: bool,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), h2::Error> {
        let mut requests = self.connection.requests().clone();
        requests.send_request(request, ends)
    }

    /// Returns whether the endpoint cannot have received any part of the request. Only valid after
    /// the connection has ended.
    pub(crate) fn is_untouched(&self) -> bool {
        let state = &self.connection.state;
        let since = state.written.load(Relaxed).saturating_sub(self.written);
        since == 0 || state.undelivered.load(Relaxed) >= since
    }

    /// Returns the number of frames of the connection so far that only showed that the endpoint is
    /// alive.
    pub(crate) fn signs_of_life(&self) -> u64 {
        self.connection.state.signs_of_life.load(Relaxed)
    }

    /// Records that the request was cancelled before its response was complete, so its stream is
    /// reset.
    pub(crate) fn cancelled(&self) {
        self.connection.cancelled.count();
    }

    /// Excludes the connection from further use if nothing has arrived on it since the permit was
    /// issued: the endpoint may have vanished without closing it.
    pub(crate) fn distrust(&self) {
        let state = &self.connection.state;
        if state.heard.load(Relaxed) == self.heard {
            state.ended.store(true, Relaxed);
        }
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let Connection { streams, idle_from, made, .. } = &*self.connection;
        if streams.fetch_sub(1, Relaxed) == 1 {
            idle_from.store(millis(made.elapsed()), Relaxed);
        }
    }
}

/// Returns whether the connection accepts no more requests. `requests` must not have sent a request
/// itself, so that no waker is registered.
fn has_failed(requests: &mut SendRequest<Bytes>) -> bool {
    let ready = requests.poll_ready(&mut Context::from_waker(Waker::noop()));
    !matches!(ready, Poll::Ready(Ok(())))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
