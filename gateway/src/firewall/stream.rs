//! A stream of gRPC: messages in both directions, one after another.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use h2::client::ResponseFuture;
use h2::{RecvStream, SendStream};
use http::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, TE};
use http::{Method, Request, StatusCode};
use prost::Message;

use crate::io::failure::FailureKind;
use crate::message::grpc::{self, BadMessage, GrpcStatus};
use crate::message::http2::{Http2Target, build};

/// Maximum size of a message of the agent in bytes.
const MOST: usize = 64 * 1024;
/// The field with the SHA-256 of the directives.
static CONFIGURATION: HeaderName = HeaderName::from_static("sluice-waf-configuration");

/// gRPC's status `INVALID_ARGUMENT`: a text cannot be compiled.
pub(super) const INVALID_ARGUMENT: u32 = 3;
/// gRPC's status `FAILED_PRECONDITION`: the agent does not have the configuration.
pub(super) const FAILED_PRECONDITION: u32 = 9;
/// gRPC's status `UNIMPLEMENTED`: the agent has rules of its own.
pub(super) const UNIMPLEMENTED: u32 = 12;

/// Why a stream has no further message.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamFault {
    /// No connection.
    #[error("cannot be reached: {0:?}")]
    Connection(FailureKind),
    /// No connection, of the task that sends directives.
    #[error("cannot be reached: {0}")]
    Io(io::Error),
    /// It took too long.
    #[error("does not answer in time")]
    Timeout,
    /// The connection or the stream broke.
    #[error("does not answer: {0}")]
    Http(#[from] h2::Error),
    /// A message is not readable.
    #[error("sends a message that {0}")]
    Message(#[from] BadMessage),
    /// A status of HTTP.
    #[error("answers {0}")]
    Status(StatusCode),
    /// A status of gRPC.
    #[error("answers with the gRPC status {status}: {message}")]
    Grpc {
        /// The status as a number.
        status: u32,
        /// The message of the agent.
        message: String,
    },
}

/// A stream.
#[derive(Debug)]
pub(super) struct MessageStream {
    outgoing: SendStream<Bytes>,
    incoming: Incoming,
    received: BytesMut,
}

#[derive(Debug)]
enum Incoming {
    Head(ResponseFuture),
    Body(RecvStream),
}

/// Returns the head of a call.
pub(super) fn call(path: &str, address: SocketAddr, configuration: Option<&HeaderValue>) -> Request<()> {
    let mut fields = HeaderMap::with_capacity(4);
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    fields.insert(TE, HeaderValue::from_static("trailers"));
    if let Ok(host) = HeaderValue::try_from(address.to_string()) {
        fields.insert(HOST, host);
    }
    if let Some(configuration) = configuration {
        fields.insert(CONFIGURATION.clone(), configuration.clone());
    }
    build(&Method::POST, path, fields, Http2Target { tls: false, address, trailers: true })
}

impl MessageStream {
    pub(super) fn new(response: ResponseFuture, outgoing: SendStream<Bytes>) -> Self {
        Self { outgoing, incoming: Incoming::Head(response), received: BytesMut::new() }
    }

    /// Sends a message with its header. `ends`: no other one follows.
    pub(super) async fn send(&mut self, mut message: Bytes, ends: bool) -> Result<(), StreamFault> {
        loop {
            self.outgoing.reserve_capacity(message.len());
            let capacity = poll_fn(|cx| self.outgoing.poll_capacity(cx)).await;
            let Some(capacity) = capacity.transpose()? else {
                return Err(h2::Error::from(h2::Reason::CANCEL).into());
            };
            let part = message.split_to(capacity.min(message.len()));
            let is_last = message.is_empty();
            self.outgoing.send_data(part, ends && is_last)?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// Returns the next message.
    pub(super) async fn receive<M: Message + Default>(&mut self) -> Result<M, StreamFault> {
        loop {
            if let Some(message) = grpc::take(&mut self.received, MOST)? {
                return Ok(message);
            }
            match &mut self.incoming {
                Incoming::Head(response) => {
                    let (head, body) = response.await?.into_parts();
                    if head.status != StatusCode::OK {
                        return Err(StreamFault::Status(head.status));
                    }
                    // A response without a message has its status in the head.
                    if let Some(fault) = status(&head.headers) {
                        return Err(fault);
                    }
                    self.incoming = Incoming::Body(body);
                }
                Incoming::Body(body) => match body.data().await {
                    Some(data) => {
                        let data = data?;
                        // It fails only if more is released than arrived.
                        let _ = body.flow_control().release_capacity(data.len());
                        self.received.extend_from_slice(&data);
                    }
                    None => {
                        let trailers = body.trailers().await?.unwrap_or_default();
                        return Err(status(&trailers).unwrap_or_else(|| StreamFault::Grpc {
                            status: 0,
                            message: "the stream has ended".to_owned(),
                        }));
                    }
                },
            }
        }
    }
}

/// Returns the status in these fields, if there is one.
fn status(fields: &HeaderMap) -> Option<StreamFault> {
    let GrpcStatus { code, message } = GrpcStatus::of(fields)?;
    Some(StreamFault::Grpc { status: code.parse().ok()?, message })
}
