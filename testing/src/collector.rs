//! An OTLP collector on loopback: gRPC and HTTP with Protobuf on one port.

use std::convert::Infallible;
use std::future::pending;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use opentelemetry_proto::tonic::trace::v1::Span;
pub use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message;

use crate::grpc;
use crate::wait::await_some;

/// What the collector does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Accepts the spans.
    Accept,
    /// Answers with this status of gRPC, or of HTTP if it is at least 100.
    Refuse(u16),
    /// Accepts all spans but this number.
    Reject(i64),
    /// Never answers.
    Hang,
}

/// A running collector. It ends with the process of the test.
pub struct Collector {
    /// The address on which it listens.
    pub address: SocketAddr,
    state: Arc<State>,
}

/// A span, with the name of its service.
#[derive(Clone, Debug)]
pub struct CollectedSpan {
    /// `service.name` of its resource.
    pub service: String,
    /// The path of the request that carried it.
    pub path: String,
    /// The span.
    pub span: Span,
}

/// A log record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectedLine {
    /// Its body.
    pub line: String,
    /// The id of the trace in hexadecimal digits.
    pub trace_id: String,
    /// The id of the span in hexadecimal digits.
    pub span_id: String,
}

struct State {
    behaviour: Mutex<Behaviour>,
    lines: Mutex<Vec<CollectedLine>>,
    /// The spans of each request.
    batches: Mutex<Vec<Vec<CollectedSpan>>>,
}

impl Collector {
    /// Starts a collector that accepts spans.
    ///
    /// # Panics
    /// The collector cannot listen.
    pub fn start() -> Self {
        Self::at(([127, 0, 0, 1], 0).into())
    }

    /// Starts one at this address.
    ///
    /// # Panics
    /// The collector cannot listen there.
    pub fn at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State {
            behaviour: Mutex::new(Behaviour::Accept),
            lines: Mutex::default(),
            batches: Mutex::default(),
        });
        let served = state.clone();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                while let Ok((stream, _)) = listener.accept().await {
                    let served = served.clone();
                    tokio::spawn(async move {
                        let service = service_fn(move |request| respond(served.clone(), request));
                        let builder = auto::Builder::new(TokioExecutor::new());
                        // A client that leaves is no failure of the test.
                        let _ = builder.serve_connection(TokioIo::new(stream), service).await;
                    });
                }
            });
        });
        Self { address, state }
    }

    /// Sets the behaviour from now on.
    ///
    /// # Panics
    /// A request has panicked.
    pub fn set(&self, behaviour: Behaviour) {
        *self.state.behaviour.lock().unwrap() = behaviour;
    }

    /// Returns the accepted spans by request.
    ///
    /// # Panics
    /// A request has panicked.
    pub fn batches(&self) -> Vec<Vec<CollectedSpan>> {
        self.state.batches.lock().unwrap().clone()
    }

    /// Returns the accepted spans.
    ///
    /// # Panics
    /// A request has panicked.
    pub fn spans(&self) -> Vec<CollectedSpan> {
        self.batches().into_iter().flatten().collect()
    }

    /// Returns the accepted log records.
    ///
    /// # Panics
    /// A request has panicked.
    pub fn lines(&self) -> Vec<CollectedLine> {
        self.state.lines.lock().unwrap().clone()
    }

    /// Waits for the span of a request with this path, and returns it with those of its attempts.
    ///
    /// # Panics
    /// There is none in time.
    pub fn await_request(&self, path: &str) -> (CollectedSpan, Vec<CollectedSpan>) {
        await_some(&format!("the span of {path}"), || {
            let spans = self.spans();
            let server = spans.iter().find(|span| span.is(SpanKind::Server, path))?.clone();
            let is_part = |span: &&CollectedSpan| span.span.parent_span_id == server.span.span_id;
            let parts = spans.iter().filter(is_part).cloned().collect();
            Some((server, parts))
        })
    }
}

impl CollectedSpan {
    /// Returns whether the span is of this kind, for this path.
    pub fn is(&self, kind: SpanKind, path: &str) -> bool {
        self.span.kind() == kind && self.attribute("url.path").as_deref() == Some(path)
    }

    /// Returns the text of an attribute.
    pub fn attribute(&self, key: &str) -> Option<String> {
        let found = self.span.attributes.iter().find(|attribute| attribute.key == key)?;
        text(found)
    }

    /// Returns all attributes as `key=value`.
    pub fn attributes(&self) -> Vec<String> {
        let pair = |attribute: &KeyValue| Some(format!("{}={}", attribute.key, text(attribute)?));
        self.span.attributes.iter().filter_map(pair).collect()
    }

    /// Returns the id of the trace in hexadecimal digits.
    pub fn trace_id(&self) -> String {
        hex(&self.span.trace_id)
    }

    /// Returns the id of the span in hexadecimal digits.
    pub fn span_id(&self) -> String {
        hex(&self.span.span_id)
    }

    /// Returns the id of the parent in hexadecimal digits.
    pub fn parent_id(&self) -> String {
        hex(&self.span.parent_span_id)
    }
}

async fn respond(
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
    let behaviour = *state.behaviour.lock().unwrap();
    if behaviour == Behaviour::Hang {
        pending::<()>().await;
    }
    let is_grpc = request.headers().get(CONTENT_TYPE).is_some_and(|content| content == "application/grpc");
    let path = request.uri().path().to_owned();
    let Ok(body) = request.into_body().collect().await else {
        return Ok(answer(StatusCode::BAD_REQUEST, None));
    };
    let body = body.to_bytes();
    if let Behaviour::Refuse(status) = behaviour {
        return Ok(match StatusCode::from_u16(status) {
            Ok(status) => answer(status, None),
            Err(_) => answer(StatusCode::OK, Some((status, Bytes::new()))),
        });
    }
    let message = if is_grpc { &body[5..] } else { &body[..] };
    let Some(reply) = state.accept(&path, message, behaviour) else {
        return Ok(answer(StatusCode::BAD_REQUEST, None));
    };
    Ok(match is_grpc {
        true => answer(StatusCode::OK, Some((0, grpc::message(&reply)))),
        false => Response::new(Full::new(Bytes::from(reply)).boxed()),
    })
}

impl State {
    /// Keeps the content of a request, and returns the response; `None` if it is malformed.
    fn accept(&self, path: &str, message: &[u8], behaviour: Behaviour) -> Option<Vec<u8>> {
        if path.to_lowercase().contains("logs") {
            let message = ExportLogsServiceRequest::decode(message).ok()?;
            self.lines.lock().unwrap().extend(lines(&message));
            return Some(ExportLogsServiceResponse::default().encode_to_vec());
        }
        let message = ExportTraceServiceRequest::decode(message).ok()?;
        self.batches.lock().unwrap().push(collected(&message, path));
        let mut reply = ExportTraceServiceResponse::default();
        if let Behaviour::Reject(rejected_spans) = behaviour {
            let error_message = "some spans are too old".to_owned();
            reply.partial_success = Some(ExportTracePartialSuccess { rejected_spans, error_message });
        }
        Some(reply.encode_to_vec())
    }
}

fn lines(message: &ExportLogsServiceRequest) -> Vec<CollectedLine> {
    let scopes = message.resource_logs.iter().flat_map(|logs| &logs.scope_logs);
    let line = |record: &LogRecord| CollectedLine {
        line: match record.body.as_ref().and_then(|body| body.value.as_ref()) {
            Some(Value::StringValue(text)) => text.clone(),
            _ => String::new(),
        },
        trace_id: hex(&record.trace_id),
        span_id: hex(&record.span_id),
    };
    scopes.flat_map(|scope| &scope.log_records).map(line).collect()
}

fn collected(message: &ExportTraceServiceRequest, path: &str) -> Vec<CollectedSpan> {
    let of_resource = message.resource_spans.iter().flat_map(|spans| {
        let attributes = spans.resource.iter().flat_map(|resource| &resource.attributes);
        let service = attributes.filter(|attribute| attribute.key == "service.name").find_map(text);
        let all = spans.scope_spans.iter().flat_map(|scope| &scope.spans);
        all.map(move |span| (service.clone().unwrap_or_default(), span.clone()))
    });
    of_resource.map(|(service, span)| CollectedSpan { service, path: path.to_owned(), span }).collect()
}

/// Returns a response; for gRPC with a status and a message.
fn answer(status: StatusCode, grpc: Option<(u16, Bytes)>) -> Response<BoxBody<Bytes, Infallible>> {
    let (code, message) = grpc.unwrap_or_default();
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(code));
    let body = Full::new(message).with_trailers(async move { Some(Ok(trailers)) });
    let mut response = Response::new(body.boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

fn text(attribute: &KeyValue) -> Option<String> {
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
