//! A gRPC backend and client on plain HTTP/2: framing, statuses and the four kinds of calls,
//! without schemas.

mod client;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::{BufMut, Bytes, BytesMut};
pub use h2::Reason;
use h2::server::SendResponse;
use h2::{RecvStream, SendStream};
use http::Response;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::request::Parts;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::manifest;
pub use client::{GrpcCall, GrpcClient, GrpcReply};

const CONTENT: HeaderValue = HeaderValue::from_static("application/grpc");

/// Returns a message with its frame header.
///
/// # Panics
/// The message is longer than 4 GiB.
pub fn message(text: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(5 + text.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(text.len()).unwrap());
    framed.put_slice(text);
    framed.freeze()
}

/// Pauses between two steps of a slow peer.
pub async fn breathe() {
    tokio::time::sleep(std::time::Duration::from_millis(10)).await;
}

/// Bytes of a burst.
pub const BURST: usize = 4 * 1024 * 1024;

/// A gRPC backend. The path of a request selects its behaviour:
///
/// | path | behaviour |
/// |---|---|
/// | `/echo/Unary`, `/echo/Chat` | echoes every piece immediately, then sends the status |
/// | `/echo/Collect` | responds with the number of received bytes at the end of the request |
/// | `/echo/Expand` | responds with 100 messages |
/// | `/echo/Fail` | sends a status in the head, before it reads the request |
/// | `/echo/Reset` | sends a reset instead of a response |
/// | `/echo/Break` | sends the first message, then a reset |
/// | `/echo/Hang` | sends nothing until the client cancels the call |
/// | `/echo/Refuse` | refuses the stream the first time |
/// | `/echo/Leave` | sends a reply, and a GOAWAY for the connection |
/// | `/echo/Burst` | sends 4 MiB before it reads the request, then reads all of it |
/// | `/echo/Trailers` | adds the trailers of the request to those of the response |
/// | `/echo/Hints` | sends an interim response, then behaves like `Unary` |
/// | `/echo/Early` | sends a whole response and RST_STREAM(NO_ERROR) before it reads the request |
/// | `/echo/Code/8` | sends a reset with this code instead of a response |
/// | `/echo/Late/8` | sends the first message, then a reset with this code |
/// | `/echo/Long` | sends a message of 100 KB |
/// | `/grpc.health.v1.Health/Check` | reports the configured health |
pub struct GrpcBackend {
    /// The address on which it listens.
    pub address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    seen: Mutex<Vec<Parts>>,
    resets: Mutex<Vec<Reason>>,
    connections: AtomicUsize,
    /// Number of current calls.
    calls: AtomicUsize,
    /// Whether the health service reports `NOT_SERVING`.
    unhealthy: AtomicBool,
}

impl GrpcBackend {
    /// Starts a backend without TLS.
    ///
    /// # Panics
    /// The backend cannot listen.
    pub fn plain() -> Self {
        Self::start(None, None)
    }

    /// Starts a backend that allows `calls` concurrent calls per connection.
    ///
    /// # Panics
    /// The backend cannot listen.
    pub fn narrow(calls: u32) -> Self {
        Self::start(None, Some(calls))
    }

    /// Starts a backend with TLS.
    ///
    /// # Panics
    /// The backend cannot listen.
    pub fn tls(config: &ServerConfig) -> Self {
        Self::tls_with(config, &[b"h2"])
    }

    /// Starts a backend with TLS and these ALPN protocols; none disables ALPN.
    ///
    /// # Panics
    /// The backend cannot listen.
    pub fn tls_with(config: &ServerConfig, protocols: &[&[u8]]) -> Self {
        let mut config = config.clone();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Self::start(Some(TlsAcceptor::from(Arc::new(config))), None)
    }

    /// Starts a backend without TLS at this address.
    ///
    /// # Panics
    /// The backend cannot listen there.
    pub fn at(address: SocketAddr) -> Self {
        Self::start_on(std::net::TcpListener::bind(address).unwrap(), None, None)
    }

    fn start(tls: Option<TlsAcceptor>, most: Option<u32>) -> Self {
        Self::start_on(std::net::TcpListener::bind("127.0.0.1:0").unwrap(), tls, most)
    }

    fn start_on(listener: std::net::TcpListener, tls: Option<TlsAcceptor>, most: Option<u32>) -> Self {
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let served = state.clone();
        // The thread ends with the process of the test.
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    served.connections.fetch_add(1, Relaxed);
                    let (tls, served) = (tls.clone(), served.clone());
                    tokio::spawn(async move {
                        match tls {
                            None => serve(stream, served, most).await,
                            Some(tls) => match tls.accept(stream).await {
                                Ok(stream) => serve(stream, served, most).await,
                                Err(_) => Ok(()),
                            },
                        }
                    });
                }
            });
        });
        Self { address, state }
    }

    /// Returns a Service with this name and endpoint, as YAML documents.
    pub fn service(&self, name: &str) -> String {
        let ip = self.address.ip().to_string();
        manifest::service(name) + &manifest::slice(&format!("{name}-0"), name, &[&ip], self.address.port())
    }

    /// Returns the heads of all requests so far.
    ///
    /// # Panics
    /// Another thread has panicked.
    pub fn seen(&self) -> Vec<Parts> {
        self.state.seen.lock().unwrap().clone()
    }

    /// Returns the error codes of cancelled calls.
    ///
    /// # Panics
    /// Another thread has panicked.
    pub fn resets(&self) -> Vec<Reason> {
        self.state.resets.lock().unwrap().clone()
    }

    /// Sets the status that the health service reports from now on.
    pub fn set_healthy(&self, healthy: bool) {
        self.state.unhealthy.store(!healthy, Relaxed);
    }

    /// Returns the number of current calls.
    pub fn calls(&self) -> usize {
        self.state.calls.load(Relaxed)
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> usize {
        self.state.connections.load(Relaxed)
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    stream: S,
    state: Arc<State>,
    most: Option<u32>,
) -> Result<(), h2::Error> {
    let mut options = h2::server::Builder::new();
    if let Some(most) = most {
        options.max_concurrent_streams(most);
    }
    let mut connection = options.handshake(stream).await?;
    while let Some(accepted) = connection.accept().await {
        let (request, reply) = accepted?;
        let (head, body) = request.into_parts();
        if head.uri.path() == "/echo/Leave" {
            connection.graceful_shutdown();
        }
        state.seen.lock().unwrap().push(head.clone());
        let state = state.clone();
        tokio::spawn(async move {
            state.calls.fetch_add(1, Relaxed);
            // An aborted call is reported by its client.
            let _ = respond(head.uri.path(), body, reply, &state).await;
            state.calls.fetch_sub(1, Relaxed);
        });
    }
    Ok(())
}

async fn respond(
    path: &str,
    mut body: RecvStream,
    mut reply: SendResponse<Bytes>,
    state: &State,
) -> Result<(), h2::Error> {
    let head = Response::builder().header(CONTENT_TYPE, CONTENT);
    match path {
        "/echo/Fail" => {
            let head = head.header("grpc-status", "5").header("grpc-message", "nobody").body(()).unwrap();
            reply.send_response(head, true)?;
            // The rest of the request is discarded; the stream remains open until it ends or is
            // cancelled.
            while let Some(Ok(piece)) = body.data().await {
                body.flow_control().release_capacity(piece.len())?;
            }
        }
        "/echo/Reset" => reply.send_reset(Reason::INTERNAL_ERROR),
        "/echo/Refuse" if state.seen.lock().unwrap().len() == 1 => reply.send_reset(Reason::REFUSED_STREAM),
        "/echo/Early" => {
            let mut stream = reply.send_response(head.body(()).unwrap(), false)?;
            send(&mut stream, message(b"early")).await?;
            stream.send_trailers(trailers("0"))?;
            // Dropping the stream here ends it with NO_ERROR.
        }
        "/echo/Burst" => {
            let mut stream = reply.send_response(head.body(()).unwrap(), false)?;
            send(&mut stream, vec![b'x'; BURST].into()).await?;
            let mut length = 0;
            while let Some(piece) = body.data().await {
                let piece = piece?.len();
                length += piece;
                body.flow_control().release_capacity(piece)?;
            }
            send(&mut stream, message(length.to_string().as_bytes())).await?;
            stream.send_trailers(trailers("0"))?;
        }
        "/echo/Trailers" => {
            while let Some(piece) = body.data().await {
                body.flow_control().release_capacity(piece?.len())?;
            }
            let mut all = trailers("0");
            all.extend(body.trailers().await?.unwrap_or_default());
            let mut stream = reply.send_response(head.body(()).unwrap(), false)?;
            stream.send_trailers(all)?;
        }
        "/grpc.health.v1.Health/Check" => {
            // Field 1: SERVING or NOT_SERVING.
            let status = if state.unhealthy.load(Relaxed) { 2 } else { 1 };
            let mut stream = reply.send_response(head.body(()).unwrap(), false)?;
            send(&mut stream, message(&[0x08, status])).await?;
            stream.send_trailers(trailers("0"))?;
        }
        "/echo/Long" => {
            let mut stream = reply.send_response(head.body(()).unwrap(), false)?;
            send(&mut stream, message(&[b'y'; 100_000])).await?;
            stream.send_trailers(trailers("0"))?;
        }
        _ if path.starts_with("/echo/Code/") => reply.send_reset(code(path)),
        _ if path.starts_with("/echo/Late/") => {
            let _ = body.data().await;
            let mut stream = reply.send_response(head.body(()).unwrap(), false)?;
            send(&mut stream, message(b"first")).await?;
            // When the client sends more data, the message has been delivered.
            let _ = body.data().await;
            stream.send_reset(code(path));
        }
        "/echo/Hang" => {
            let reason = std::future::poll_fn(|cx| reply.poll_reset(cx)).await?;
            state.resets.lock().unwrap().push(reason);
        }
        "/echo/Collect" => {
            let mut length = 0;
            while let Some(piece) = body.data().await {
                let piece = piece?.len();
                length += piece;
                body.flow_control().release_capacity(piece)?;
            }
            let mut stream = reply.send_response(head.body(()).unwrap(), false)?;
            send(&mut stream, message(length.to_string().as_bytes())).await?;
            stream.send_trailers(trailers("0"))?;
        }
        "/echo/Expand" => {
            let mut stream = reply.send_response(head.body(()).unwrap(), false)?;
            for number in 0..100 {
                send(&mut stream, message(number.to_string().as_bytes())).await?;
            }
            stream.send_trailers(trailers("0"))?;
        }
        _ => {
            if path == "/echo/Hints" {
                let hints = Response::builder().status(103).header("link", "</a>").body(()).unwrap();
                reply.send_informational(hints)?;
            }
            let mut stream = reply.send_response(head.body(()).unwrap(), false)?;
            let mut pieces = 0;
            while let Some(piece) = body.data().await {
                pieces += 1;
                if path == "/echo/Break" && pieces > 1 {
                    stream.send_reset(Reason::INTERNAL_ERROR);
                    return Ok(());
                }
                let piece = piece?;
                body.flow_control().release_capacity(piece.len())?;
                send(&mut stream, piece).await?;
            }
            stream.send_trailers(trailers("0"))?;
        }
    }
    Ok(())
}

/// Returns the error code at the end of a path.
fn code(path: &str) -> Reason {
    let code = path.rsplit('/').next().and_then(|code| code.parse::<u32>().ok());
    code.unwrap_or_default().into()
}

fn trailers(status: &'static str) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static(status));
    trailers.insert("x-served-by", HeaderValue::from_static("echo"));
    trailers
}

/// Sends all bytes, as flow control allows.
async fn send(stream: &mut SendStream<Bytes>, mut piece: Bytes) -> Result<(), h2::Error> {
    while !piece.is_empty() {
        stream.reserve_capacity(piece.len());
        let room = std::future::poll_fn(|cx| stream.poll_capacity(cx)).await.unwrap_or(Ok(0))?;
        if room == 0 {
            return Err(Reason::CANCEL.into());
        }
        stream.send_data(piece.split_to(room.min(piece.len())), false)?;
    }
    Ok(())
}
