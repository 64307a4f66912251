//! One connection of HTTP/2 to an endpoint.

use std::future::poll_fn;
use std::os::fd::RawFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::SendStream;
use h2::client::{Builder, ResponseFuture, SendRequest};
use http::Request;

use super::super::connection::Connection as Made;
use super::group::Coming;
use super::stream::Stream;
use crate::descriptors::DescriptorPermit;
use crate::failure::FailureKind;
use crate::io::budget;
use crate::io::transport::has_left;
use crate::message::response::MAX_HEAD;
use crate::upstream::attempt::{KeepAlive, Upstream};

/// Requests at a time on one connection, as far as the endpoint takes them.
pub(crate) const STREAMS: usize = 100;
/// Bytes of a response that may wait for its client, with memory to spare.
const STREAM_WINDOW: u32 = 128 * 1024;
/// The same for all responses of a connection: as much as all of them may have, so that none waits because the clients
/// of others are slow.
const CONNECTION_WINDOW: u32 = STREAMS as u32 * STREAM_WINDOW;
/// What small pieces of bodies may cost while they wait, which `h2` counts as what each lacks to 256 bytes, about what
/// it needs to keep one, and for whose excess it ends the connection. Messages of gRPC are small: with 15 bytes each,
/// fifteen clients may be slow at a time.
const PIECES: usize = 32 * 1024 * 1024;
/// Bytes of a request that may wait for the socket, per stream.
const SEND_BUFFER: usize = 64 * 1024;
/// Streams that were reset and of which more may come. `h2` answers what comes for others with a reset, and has a bound
/// for these.
const RESETS: usize = 1024;
const OWN_RESETS: usize = 16 * 1024;
/// For so many streams an endpoint gives no permission. It stands for the time before its SETTINGS.
const UNSETTLED: usize = 0x7fff_fff1;

/// A connection that takes requests.
#[derive(Debug)]
pub(super) struct Connection {
    /// Sends nothing itself: each request has a clone. A handle that has sent a request with a body
    /// remembers its stream, and `poll_ready` replaces the waker of that stream's upload.
    requests: Mutex<SendRequest<Bytes>>,
    pub(super) state: Arc<ConnectionState>,
    socket: RawFd,
    pub(super) made: Instant,
    /// Requests that are on it.
    streams: AtomicUsize,
    /// Requests that it has carried.
    served: AtomicU32,
    /// When the last request left it, and how long it may be idle from then on: milliseconds, the first since it was made.
    idle_from: AtomicU64,
    idle_for: AtomicU64,
}

/// State of a connection that its task publishes.
#[derive(Debug, Default)]
pub(super) struct ConnectionState {
    /// The connection has ended.
    pub(super) ended: AtomicBool,
    /// Bytes written to the socket, and bytes received.
    pub(super) written: AtomicU64,
    pub(super) heard: AtomicU64,
    /// Bytes at the end of what was written that the endpoint has certainly not got, once it has ended the connection in
    /// order.
    pub(super) undelivered: AtomicU64,
    /// Bytes that were read in this turn.
    pub(super) turn: AtomicUsize,
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
    /// Begins to speak HTTP/2. The task of the connection says how many requests the endpoint allows.
    pub(super) async fn begin(
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
        }))
    }

    /// Returns a permit if the connection has a free stream and appears to be alive.
    pub(super) fn take(self: &Arc<Self>, upstream: &Upstream, reused: bool) -> Option<StreamPermit> {
        let streams = self.streams.load(Relaxed);
        let too_old = upstream.fresh && self.made < upstream.began;
        if too_old || streams >= STREAMS || self.is_over(&upstream.keep_alive, upstream.began) {
            return None;
        }
        let allowed = {
            let mut requests = self.requests();
            if has_failed(&mut requests) {
                return None;
            }
            requests.current_max_send_streams()
        };
        // Before its SETTINGS come, an endpoint may allow no more than one.
        if streams >= if allowed == UNSETTLED { 1 } else { allowed } {
            return None;
        }
        // What cannot be sent twice is worth a system call. A connection that is in use would be known to have ended.
        if streams == 0 && reused && !upstream.repeatable && has_left(self.socket) {
            return None;
        }
        self.streams.store(streams + 1, Relaxed);
        self.served.fetch_add(1, Relaxed);
        self.idle_for.store(millis(upstream.keep_alive.idle), Relaxed);
        let (written, heard) = (self.state.written.load(Relaxed), self.state.heard.load(Relaxed));
        Some(StreamPermit { connection: self.clone(), reused, written, heard })
    }

    /// Whether it gets no more requests: it has ended or is going to, or has served as long or as many as it may.
    pub(super) fn is_over(&self, keep: &KeepAlive, now: Instant) -> bool {
        self.state.ended.load(Relaxed)
            || self.served.load(Relaxed) >= keep.requests
            || now.saturating_duration_since(self.made) >= keep.age
    }

    /// Whether it will never take a request again, or has been idle for as long as it may.
    pub(super) fn is_done(&self, now: Instant) -> bool {
        let idle = self
            .idle_since()
            .is_some_and(|since| millis(now.saturating_duration_since(since)) >= self.idle_for.load(Relaxed));
        idle || has_failed(&mut self.requests())
    }

    /// Since when no request has been on it.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let since = Duration::from_millis(self.idle_from.load(Relaxed));
        (self.streams.load(Relaxed) == 0).then(|| self.made + since)
    }

    fn requests(&self) -> MutexGuard<'_, SendRequest<Bytes>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Moves a connection until it ends.
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
        // It fails until the endpoint has confirmed the one before.
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
    /// Sends the head of the request. `ends` says that there is no body.
    ///
    /// # Errors
    /// The connection is about to end, and nothing was sent.
    pub(crate) fn send(
        &self,
        request: Request<()>,
        ends: bool,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), h2::Error> {
        let mut requests = self.connection.requests().clone();
        requests.send_request(request, ends)
    }

    /// Whether nothing of the request can have come to the endpoint. To be asked when the connection has ended.
    pub(crate) fn is_untouched(&self) -> bool {
        let state = &self.connection.state;
        let since = state.written.load(Relaxed).saturating_sub(self.written);
        since == 0 || state.undelivered.load(Relaxed) >= since
    }

    /// Lets nobody else have the connection, if nothing has come over it since: the endpoint may be gone without a word.
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

/// Whether the connection takes no more requests. `requests` has sent none itself, so that no waker
/// is registered.
fn has_failed(requests: &mut SendRequest<Bytes>) -> bool {
    let ready = requests.poll_ready(&mut Context::from_waker(Waker::noop()));
    !matches!(ready, Poll::Ready(Ok(())))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
