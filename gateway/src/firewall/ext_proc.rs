//! Messages of `envoy.service.ext_proc.v3`, as far as they are used: unknown fields are skipped, as
//! in every message of Protobuf. Numbers are those of Envoy's definitions.

use std::collections::HashMap;
use std::net::SocketAddr;

use bytes::Bytes;
use http::StatusCode;
use prost::{Message, Oneof};

use crate::message::grpc;

/// The name under which Envoy sends attributes.
const ATTRIBUTES: &str = "envoy.filters.http.ext_proc";
/// `BodySendMode.NONE` and `STREAMED`.
const NONE: i32 = 0;
const STREAMED: i32 = 1;
/// `HeaderSendMode.SEND`.
const SEND: i32 = 1;

/// A message to the agent.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessingRequest {
    #[prost(oneof = "RequestPart", tags = "2, 3, 4, 5")]
    pub(super) request: Option<RequestPart>,
    #[prost(map = "string, message", tag = "9")]
    pub(super) attributes: HashMap<String, Struct>,
    #[prost(message, optional, tag = "11")]
    pub(super) protocol_config: Option<ProtocolConfiguration>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum RequestPart {
    #[prost(message, tag = "2")]
    RequestHeaders(HttpHeaders),
    #[prost(message, tag = "3")]
    ResponseHeaders(HttpHeaders),
    #[prost(message, tag = "4")]
    RequestBody(HttpBody),
    #[prost(message, tag = "5")]
    ResponseBody(HttpBody),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HttpHeaders {
    #[prost(message, optional, tag = "1")]
    pub(super) headers: Option<HeaderMap>,
    #[prost(bool, tag = "3")]
    pub(super) end_of_stream: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HeaderMap {
    #[prost(message, repeated, tag = "1")]
    pub(super) headers: Vec<HeaderValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HeaderValue {
    #[prost(string, tag = "1")]
    pub(super) key: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
    #[prost(bytes = "bytes", tag = "3")]
    pub(super) raw_value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HttpBody {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) body: Bytes,
    #[prost(bool, tag = "2")]
    pub(super) end_of_stream: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProtocolConfiguration {
    #[prost(int32, tag = "1")]
    pub(super) request_body_mode: i32,
    #[prost(int32, tag = "2")]
    pub(super) response_body_mode: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Struct {
    #[prost(map = "string, message", tag = "1")]
    pub(super) fields: HashMap<String, Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Value {
    #[prost(oneof = "ValueKind", tags = "2, 3")]
    pub(super) kind: Option<ValueKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum ValueKind {
    #[prost(double, tag = "2")]
    Number(f64),
    #[prost(string, tag = "3")]
    Text(String),
}

/// A message of the agent.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessingResponse {
    #[prost(oneof = "ResponsePart", tags = "1, 2, 3, 4, 7")]
    pub(super) response: Option<ResponsePart>,
    #[prost(message, optional, tag = "9")]
    pub(super) mode_override: Option<ProcessingMode>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum ResponsePart {
    #[prost(message, tag = "1")]
    RequestHeaders(Continue),
    #[prost(message, tag = "2")]
    ResponseHeaders(Continue),
    #[prost(message, tag = "3")]
    RequestBody(Continue),
    #[prost(message, tag = "4")]
    ResponseBody(Continue),
    #[prost(message, tag = "7")]
    Immediate(ImmediateResponse),
}

/// The message continues. Changes of heads and bodies are not used.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Continue {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ImmediateResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) status: Option<HttpStatus>,
    #[prost(message, optional, tag = "2")]
    pub(super) headers: Option<HeaderMutation>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HttpStatus {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HeaderMutation {
    #[prost(message, repeated, tag = "1")]
    pub(super) set_headers: Vec<HeaderValueOption>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct HeaderValueOption {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<HeaderValue>,
}

/// The parts that the agent wants.
#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessingMode {
    #[prost(int32, tag = "2")]
    pub(super) response_header_mode: i32,
    #[prost(int32, tag = "3")]
    pub(super) request_body_mode: i32,
    #[prost(int32, tag = "4")]
    pub(super) response_body_mode: i32,
}

/// The head of a request, for the agent.
pub(crate) struct InspectedHead<'h, F> {
    pub(crate) method: &'h str,
    /// Path and query.
    pub(crate) target: &'h str,
    pub(crate) authority: &'h str,
    pub(crate) scheme: &'h str,
    /// All fields but `Host`, with lower-case names.
    pub(crate) fields: F,
    /// Such as `HTTP/1.1`.
    pub(crate) protocol: &'h str,
    pub(crate) client: SocketAddr,
    /// The port of the gateway.
    pub(crate) port: u16,
    /// Id of the request in the log of the agent; empty for one that it makes.
    pub(crate) transaction_id: String,
}

/// The first message of a stream.
#[derive(Debug)]
pub(crate) struct HeadMessage(ProcessingRequest);

impl HeadMessage {
    /// Makes the message of a head.
    pub(crate) fn new<'f>(head: InspectedHead<'_, impl Iterator<Item = (String, &'f [u8])>>) -> Self {
        let pseudo = [
            (":method", head.method),
            (":path", head.target),
            (":authority", head.authority),
            (":scheme", head.scheme),
        ];
        let pseudo = pseudo.into_iter().map(|(name, value)| field(name.to_owned(), value.as_bytes()));
        let fields = head.fields.map(|(name, value)| field(name, value));
        let text = |text: String| Value { kind: Some(ValueKind::Text(text)) };
        let attributes = [
            ("source.address", text(head.client.to_string())),
            ("destination.port", Value { kind: Some(ValueKind::Number(head.port.into())) }),
            ("request.protocol", text(head.protocol.to_owned())),
            ("request.id", text(head.transaction_id)),
        ];
        let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value));
        let attributes = Struct { fields: attributes.collect() };
        Self(ProcessingRequest {
            request: Some(RequestPart::RequestHeaders(HttpHeaders {
                headers: Some(HeaderMap { headers: pseudo.chain(fields).collect() }),
                end_of_stream: false,
            })),
            attributes: HashMap::from([(ATTRIBUTES.to_owned(), attributes)]),
            protocol_config: Some(ProtocolConfiguration {
                request_body_mode: STREAMED,
                response_body_mode: STREAMED,
            }),
        })
    }

    /// Returns the message with its header of gRPC. `ends`: no body follows.
    pub(super) fn encoded(mut self, ends: bool) -> Bytes {
        if let Some(RequestPart::RequestHeaders(headers)) = &mut self.0.request {
            headers.end_of_stream = ends;
        }
        grpc::encoded(&self.0)
    }
}

/// The head of a response, for the agent, with its header of gRPC.
#[derive(Debug)]
pub(crate) struct ResponseHeadMessage(Bytes);

impl ResponseHeadMessage {
    /// Makes the message of a head. `ends`: no body follows.
    pub(crate) fn new<'f>(
        status: StatusCode,
        fields: impl Iterator<Item = (String, &'f [u8])>,
        ends: bool,
    ) -> Self {
        let status = field(":status".to_owned(), status.as_str().as_bytes());
        let headers = std::iter::once(status).chain(fields.map(|(name, value)| field(name, value)));
        Self(message(RequestPart::ResponseHeaders(HttpHeaders {
            headers: Some(HeaderMap { headers: headers.collect() }),
            end_of_stream: ends,
        })))
    }

    /// Returns the encoded message.
    pub(super) fn into_bytes(self) -> Bytes {
        self.0
    }
}

/// The side of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodySide {
    Request,
    Response,
}

/// Returns the message with a piece of a body, with its header of gRPC.
pub(super) fn body_message(side: BodySide, body: Bytes, end_of_stream: bool) -> Bytes {
    let body = HttpBody { body, end_of_stream };
    message(match side {
        BodySide::Request => RequestPart::RequestBody(body),
        BodySide::Response => RequestPart::ResponseBody(body),
    })
}

fn message(part: RequestPart) -> Bytes {
    let request = Some(part);
    grpc::encoded(&ProcessingRequest { request, attributes: HashMap::new(), protocol_config: None })
}

fn field(key: String, value: &[u8]) -> HeaderValue {
    HeaderValue { key, value: String::new(), raw_value: Bytes::copy_from_slice(value) }
}

impl ProcessingResponse {
    /// Returns whether the agent wants no more of the body.
    pub(super) fn needs_no_body(&self, side: BodySide) -> bool {
        self.mode_override.as_ref().is_some_and(|mode| match side {
            BodySide::Request => mode.request_body_mode == NONE,
            BodySide::Response => mode.response_body_mode == NONE,
        })
    }

    /// Returns whether the agent wants the response; `None` if the message does not tell.
    pub(super) fn needs_response(&self) -> Option<bool> {
        Some(self.mode_override.as_ref()?.response_header_mode == SEND)
    }
}

impl HeaderValue {
    /// Returns the value, which has one of two forms.
    pub(super) fn bytes(&self) -> &[u8] {
        if self.raw_value.is_empty() { self.value.as_bytes() } else { &self.raw_value }
    }
}
