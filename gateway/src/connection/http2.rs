//! An HTTP/2 connection: its limits, its streams, and its end.
//!
//! Pingora turns streams into sessions. The connection itself is ours, because ours is what Pingora's loop
//! does not have: streams that it refuses get a log line, a connection that began while the program ends is
//! told so with its first answer and not before, and what is idle at the end is closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use http::StatusCode;
use pingora_core::apps::HttpServerApp;
use pingora_core::protocols::Digest;
use pingora_core::protocols::Stream;
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::v2::server::{H2Accept, H2Options, HttpSession, handshake};
use pingora_core::protocols::raw_connect::ProxyDigest;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::ConnectionInfo;
use super::framing::Framing;
use super::lease::Lease;
use super::link::{Client, Link};
use super::wire::Wire;
use crate::drain::Phase;
use crate::pipeline::{Exchange, Outcome};
use crate::proxy::Engine;
use crate::worker::Worker;

/// Octets of a stream, and of all streams of a connection, that may wait for an endpoint.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// Streams that a client may reset at a time (CVE-2023-44487), and make us reset (CVE-2025-8671).
const RESETS: usize = 20;
const OWN_RESETS: usize = 64;
/// Streams of a connection that may be malformed.
const MALFORMED: usize = 32;
/// How long a client may take to answer the last PING of a connection that ends, and then to close its side.
const FAREWELL: Duration = Duration::from_secs(1);

type Connection = h2::server::Connection<Stream, Bytes>;

/// A connection that speaks HTTP/2.
pub(super) struct Http2 {
    worker: Arc<Worker>,
    engine: Arc<Engine>,
    info: Arc<ConnectionInfo>,
    streams: Arc<Streams>,
    /// Whether the client was told that the connection ends.
    farewell: bool,
    malformed: usize,
}

/// Counts streams under way.
#[derive(Default)]
struct Streams {
    open: AtomicUsize,
    closed: Notify,
}

struct OpenStream(Arc<Streams>);

impl Http2 {
    pub(super) fn new(worker: Arc<Worker>, engine: Arc<Engine>, info: Arc<ConnectionInfo>) -> Self {
        Self { worker, engine, info, streams: Arc::default(), farewell: false, malformed: 0 }
    }

    /// Serves streams until the connection ends, and gives the client time to say its own farewell.
    pub(super) async fn serve(self, wire: Box<Wire>) {
        let digest = Client::digest(self.info.clone(), None);
        let link = Link::opaque();
        let lease = Lease::new(wire, Framing::Opaque, link.clone(), digest.clone());
        self.run(lease, digest).await;
        if let Some(back) = link.take_home() {
            back.wire.linger(FAREWELL).await;
        }
    }

    async fn run(mut self, lease: Lease, digest: Arc<ProxyDigest>) {
        let digest = Arc::new(Digest { proxy_digest: Some(digest), ..Digest::default() });
        let (options, patience) = self.options();
        let Ok(Ok(mut connection)) = timeout(patience, handshake(Box::new(lease), Some(options))).await
        else {
            return;
        };
        let serving = self.worker.drain.shared().phase() == Phase::Serving;
        loop {
            let idle = self.worker.state.tuning.load().keep_alive;
            tokio::select! {
                biased;
                accepted = HttpSession::from_h2_conn(&mut connection, digest.clone()) => match accepted {
                    Ok(Some(accepted)) => self.stream(accepted, &mut connection),
                    Ok(None) | Err(_) => return,
                },
                // One that began while the program ends has had no chance to ask for anything yet.
                () = self.worker.drain.reached(if serving { Phase::Draining } else { Phase::Closing }),
                    if !self.farewell => self.say_farewell(&mut connection),
                () = self.idle_since(FAREWELL), if self.is_closing() => return,
                () = self.idle_since(idle) => {
                    if self.farewell {
                        return;
                    }
                    self.say_farewell(&mut connection);
                }
            }
        }
    }

    fn options(&self) -> (H2Options, Duration) {
        let tuning = self.worker.state.tuning.load();
        let mut options = H2Options::new();
        options
            .max_concurrent_streams(tuning.http2_max_concurrent_streams)
            .max_header_list_size(u32::try_from(tuning.max_request_head).unwrap_or(u32::MAX))
            .initial_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_pending_accept_reset_streams(RESETS)
            .max_local_error_reset_streams(Some(OWN_RESETS));
        (options, tuning.client_header_timeout)
    }

    fn stream(&mut self, accepted: H2Accept, connection: &mut Connection) {
        match accepted {
            H2Accept::Session(session) => {
                let open = OpenStream::new(&self.streams);
                let (engine, worker) = (self.engine.clone(), self.worker.clone());
                tokio::spawn(async move {
                    let _open = (open, worker.drain.shared().request());
                    engine.process_new_http(ServerSession::new_http2(session), &worker.never).await;
                });
                if self.worker.drain.is_draining() && !self.farewell {
                    self.say_farewell(connection);
                }
            }
            H2Accept::Rejected => {
                // Pingora has answered with 400 or a reset, and shows nothing of the request.
                let (mut exchange, answer) =
                    Exchange::refuse(&self.worker.state, &self.info, b"", 0, StatusCode::BAD_REQUEST);
                exchange.end(Outcome { status: Some(answer.status), ..Outcome::default() });
                self.malformed += 1;
                if self.malformed == MALFORMED {
                    connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
                }
            }
        }
    }

    /// GOAWAY: streams that are open or on their way are served, then the connection ends.
    fn say_farewell(&mut self, connection: &mut Connection) {
        self.farewell = true;
        connection.graceful_shutdown();
    }

    fn is_closing(&self) -> bool {
        self.worker.drain.shared().phase() == Phase::Closing
    }

    /// Waits until no stream has been open for so long.
    async fn idle_since(&self, duration: Duration) {
        loop {
            let closed = self.streams.closed.notified();
            if self.streams.open.load(Relaxed) == 0 {
                break;
            }
            closed.await;
        }
        tokio::time::sleep(duration).await;
    }
}

impl OpenStream {
    fn new(streams: &Arc<Streams>) -> Self {
        streams.open.fetch_add(1, Relaxed);
        Self(streams.clone())
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Relaxed) == 1 {
            self.0.closed.notify_waiters();
        }
    }
}
