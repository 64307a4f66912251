//! A connection to a collector: OTLP over gRPC (HTTP/2), or over HTTP/1.1.

use std::io;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, TE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use sluice_config::{Collector, CollectorProtocol};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use crate::message::grpc::{GrpcStatus, HEADER, framed};
use crate::otel::signal::Signal;

/// Maximum size of a response body in bytes.
const MOST: usize = 64 << 10;
/// gRPC statuses after which the same request may succeed later (OTLP specification).
const RETRYABLE: [&str; 7] = ["1", "4", "8", "10", "11", "14", "15"];

/// An open connection. Dropping it closes it, whatever the collector does.
pub(super) struct Connection {
    sender: Sender,
    task: AbortHandle,
}

enum Sender {
    Grpc(http2::SendRequest<Full<Bytes>>),
    Http(http1::SendRequest<Full<Bytes>>),
}

/// Why the collector did not accept records.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExportError {
    /// No connection.
    #[error("cannot be reached: {0}")]
    Connect(#[from] io::Error),
    /// The connection broke, or is not one of the protocol.
    #[error("does not answer: {0}")]
    Http(#[from] hyper::Error),
    /// The request cannot be made.
    #[error("cannot be asked: {0}")]
    Request(#[from] http::Error),
    /// The body of the response breaks off, or is too large.
    #[error("sends no usable response: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    /// A status of HTTP.
    #[error("answers {0}")]
    Status(StatusCode),
    /// A status of gRPC.
    #[error("answers with the gRPC status {status}: {message}")]
    Grpc {
        /// The status as a number.
        status: String,
        /// The message of the collector.
        message: String,
    },
    /// The response took too long.
    #[error("does not answer in time")]
    Timeout,
}

impl ExportError {
    /// Returns whether the same request may succeed later.
    pub(super) fn is_retryable(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Http(_) | Self::Body(_) | Self::Timeout => true,
            Self::Request(_) => false,
            Self::Status(status) => matches!(status.as_u16(), 429 | 502..=504),
            Self::Grpc { status, .. } => RETRYABLE.contains(&status.as_str()),
        }
    }
}

impl Connection {
    /// Connects to a collector.
    pub(super) async fn open(collector: &Collector) -> Result<Self, ExportError> {
        let stream = TcpStream::connect((&*collector.host, collector.port)).await?;
        stream.set_nodelay(true)?;
        let io = TokioIo::new(stream);
        match collector.protocol {
            CollectorProtocol::Grpc => {
                let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
                Ok(Self { sender: Sender::Grpc(sender), task: tokio::spawn(connection).abort_handle() })
            }
            CollectorProtocol::Http { .. } => {
                let (sender, connection) = http1::handshake(io).await?;
                Ok(Self { sender: Sender::Http(sender), task: tokio::spawn(connection).abort_handle() })
            }
        }
    }

    /// Returns whether the connection can carry another request.
    pub(super) fn is_open(&self) -> bool {
        match &self.sender {
            Sender::Grpc(sender) => !sender.is_closed(),
            Sender::Http(sender) => !sender.is_closed(),
        }
    }

    /// Sends an encoded request of a signal.
    pub(super) async fn export<S: Signal>(
        &mut self,
        collector: &Collector,
        request: &[u8],
    ) -> Result<S::Response, ExportError> {
        let host = match collector.host.contains(':') {
            true => format!("[{}]:{}", collector.host, collector.port),
            false => format!("{}:{}", collector.host, collector.port),
        };
        match (&mut self.sender, &collector.protocol) {
            (Sender::Http(sender), CollectorProtocol::Http { base }) => {
                let body = Full::new(Bytes::copy_from_slice(request));
                let request = Request::builder()
                    .method(Method::POST)
                    .uri(format!("{base}{}", S::HTTP_PATH))
                    .header(HOST, host)
                    .header(CONTENT_TYPE, "application/x-protobuf")
                    .body(body)?;
                sender.ready().await?;
                of_http(sender.send_request(request).await?).await
            }
            (Sender::Grpc(sender), _) => {
                let request = Request::builder()
                    .method(Method::POST)
                    .uri(format!("http://{host}{}", S::GRPC_PATH))
                    .header(CONTENT_TYPE, "application/grpc")
                    .header(TE, "trailers")
                    .body(Full::new(framed(request)))?;
                sender.ready().await?;
                of_grpc(sender.send_request(request).await?).await
            }
            // Connections are opened for the protocol of their collector.
            (Sender::Http(_), CollectorProtocol::Grpc) => {
                Err(io::Error::from(io::ErrorKind::InvalidInput).into())
            }
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn of_http<R: Message + Default>(response: Response<Incoming>) -> Result<R, ExportError> {
    let status = response.status();
    let body = Limited::new(response.into_body(), MOST).collect().await.map_err(ExportError::Body)?;
    match status {
        StatusCode::OK => Ok(decoded(&body.to_bytes())),
        status => Err(ExportError::Status(status)),
    }
}

async fn of_grpc<R: Message + Default>(response: Response<Incoming>) -> Result<R, ExportError> {
    let (head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        return Err(ExportError::Status(head.status));
    }
    let body = Limited::new(body, MOST).collect().await.map_err(ExportError::Body)?;
    let trailers = body.trailers().cloned().unwrap_or_default();
    // A response without a message has its status in the head.
    match GrpcStatus::of(&trailers).or_else(|| GrpcStatus::of(&head.headers)) {
        Some(status) if status.is_ok() => Ok(decoded(body.to_bytes().get(HEADER..).unwrap_or_default())),
        Some(GrpcStatus { code, message }) => Err(ExportError::Grpc { status: code, message }),
        None => Err(ExportError::Grpc { status: String::new(), message: "there is none".to_owned() }),
    }
}

/// An unreadable body is one of a collector that has accepted everything.
fn decoded<R: Message + Default>(body: &[u8]) -> R {
    R::decode(body).unwrap_or_default()
}
