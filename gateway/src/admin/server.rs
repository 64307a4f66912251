//! A small HTTP/1.1 server for documents that are rendered on request.
//!
//! Probes of the kubelet must be answered however many other clients there are, and however slow
//! they are; otherwise a healthy gateway is restarted. Therefore every connection is accepted,
//! carries one request and has a deadline. If no slot is free, the oldest connection is evicted,
//! but not before it had time to be served ([`slots`](super::slots)). Documents that take time to
//! render are rendered on a separate thread, one at a time
//! ([`single_flight`](super::single_flight)); the clients that wait for them or download them have
//! slots of their own.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::header::{ALLOW, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{Either, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;

use super::pages::{Document, LineStream, PageSource, Pages};
use super::single_flight::SingleFlight;
use super::slots::{Slot, Slots};

/// Number of connections that wait for a request or receive a short response. Together with those
/// of the other listener they fit into the reserve of file descriptors.
const SHORT: usize = 48;
/// Number of connections that wait for a document or download one.
const LONG: usize = 8;
/// How long a client waits for such a slot: longer than a download may occupy one.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Number of consecutive accepts before accepted connections are served.
const ACCEPTS: u32 = 8;
/// Time limit for a request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for a connection, beyond that of a stream.
const DEADLINE: Duration = Duration::from_secs(60);
/// Pause after a failed accept, because the system lacks a resource.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Minimum interval between two log lines about that.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// The body of a response.
type Body = Either<Full<Bytes>, StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>>;

/// A connection while its request is served.
struct OpenConnection {
    /// Released with the connection.
    slot: Mutex<Option<Slot>>,
    /// How long its stream lasts, if it has one.
    stream: OnceLock<Duration>,
}

impl OpenConnection {
    /// Waits until the connection has had its time.
    async fn deadline(&self) {
        tokio::time::sleep(DEADLINE).await;
        if let Some(limit) = self.stream.get() {
            tokio::time::sleep(*limit).await;
        }
    }

    /// Releases the slot for a stream.
    fn begin_stream(&self, limit: Duration) {
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // A connection carries one request.
        let _ = self.stream.set(limit);
    }
}

/// State shared by the connections of a server.
struct Server<S> {
    site: Arc<S>,
    single_flight: SingleFlight,
    short: Arc<Slots>,
    long: Arc<Slots>,
}

/// Serves the documents of a site for GET and HEAD until the task is dropped.
pub(super) async fn run(listener: TcpListener, site: impl Pages) {
    let server = Arc::new(Server {
        site: Arc::new(site),
        single_flight: SingleFlight::default(),
        short: Slots::new(SHORT),
        long: Slots::new(LONG),
    });
    let mut last_warning: Option<Instant> = None;
    let mut accepts = 0;
    loop {
        accepts += 1;
        if accepts % ACCEPTS == 0 {
            accepts = 0;
            tokio::task::yield_now().await;
        }
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                if last_warning.is_none_or(|last| last.elapsed() >= WARNING_INTERVAL) {
                    last_warning = Some(Instant::now());
                    tracing::warn!(%error, "cannot accept connections for health or introspection; raise the limit of open files");
                }
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // While no slot can be freed, further connections wait in the kernel's queue.
        let (slot, evicted) = server.short.take().await;
        let server = server.clone();
        tokio::spawn(async move {
            let open = OpenConnection { slot: Mutex::new(Some(slot)), stream: OnceLock::new() };
            let service = service_fn(|request: Request<Incoming>| {
                let (server, open) = (&server, &open);
                async move { Ok::<_, Infallible>(server.respond(&request, open).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                // A client with several requests does not occupy a slot between them.
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            tokio::select! {
                ended = connection => if let Err(error) = ended {
                    tracing::debug!(%error, "a connection for health or introspection broke");
                },
                () = open.deadline() => {
                    tracing::debug!("a connection for health or introspection took too long");
                }
                () = evicted.wait() => tracing::debug!("a connection for health or introspection made room"),
            }
        });
    }
}

impl<S: Pages> Server<S> {
    async fn respond(&self, request: &Request<Incoming>, open: &OpenConnection) -> Response<Body> {
        let document = if let Some(refusal) = self.site.refuse(request) {
            refusal
        } else if matches!(*request.method(), Method::GET | Method::HEAD) {
            match self.site.find(request.uri(), request.headers()) {
                PageSource::Here(document) => document,
                PageSource::Page(page) => self.page(&page, &open.slot).await,
                PageSource::Lines(LineStream { limit, lines }) => {
                    open.begin_stream(limit);
                    let lines = lines.map(|chunk| Ok(Frame::data(chunk))).boxed();
                    return response(
                        StatusCode::OK,
                        "application/x-ndjson",
                        Either::Right(StreamBody::new(lines)),
                    );
                }
            }
        } else if let Some(done) = self.site.act(request) {
            done
        } else {
            let mut response = Response::new(Either::Left(Full::default()));
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return response;
        };
        let Document { status, content_type, fields: further, body } = document;
        let mut response = response(status, content_type, Either::Left(Full::new(body)));
        response.headers_mut().extend(further.iter().cloned());
        response
    }

    async fn page(&self, page: &str, slot: &Mutex<Option<Slot>>) -> Document {
        let long = tokio::time::timeout(TIMEOUT, self.long.take_from(slot)).await;
        let Ok(Some(long)) = long else {
            let said = "too many clients wait for a document; ask again\n";
            return Document::text(StatusCode::SERVICE_UNAVAILABLE, said);
        };
        let document = self.single_flight.print(self.site.clone(), page).await;
        long.may_go();
        document
    }
}

fn response(status: StatusCode, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    fields.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    response
}
