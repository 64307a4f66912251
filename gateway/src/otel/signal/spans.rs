//! Spans as OTLP has them, with the attributes of OpenTelemetry's stable conventions for HTTP.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use http::{Method, Version};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};

use super::Signal;
use super::attribute::{SCHEMA, nanoseconds, number, resource, scope, text};
use crate::io::failure::CLIENT_LEFT;
use crate::otel::record::{AttemptTrace, RequestTrace};
use crate::otel::{SpanId, TraceContext};

/// Bits of `flags`: it is known whether the parent is remote, and it is.
const PARENT_IS_KNOWN: u32 = 0x100;
const PARENT_IS_REMOTE: u32 = 0x200;

/// The signal of spans.
#[derive(Debug)]
pub(crate) struct Spans;

impl Signal for Spans {
    type Item = RequestTrace;
    type Record = Span;
    type Request = ExportTraceServiceRequest;
    type Response = ExportTraceServiceResponse;

    const NAME: &'static str = "spans";
    const GRPC_PATH: &'static str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    const HTTP_PATH: &'static str = "/v1/traces";

    fn count(item: &RequestTrace) -> usize {
        item.spans()
    }

    /// Appends the span of the request, and one per attempt.
    fn push(spans: &mut Vec<Span>, trace: &RequestTrace) {
        spans.push(request_span(trace));
        for (number, attempt) in trace.attempts.iter().enumerate() {
            spans.push(attempt_span(trace, attempt, number));
        }
    }

    fn request(service: &str, instance: &str, spans: Vec<Span>) -> ExportTraceServiceRequest {
        let spans = ScopeSpans { scope: Some(scope()), spans, schema_url: SCHEMA.to_owned() };
        let of_resource = ResourceSpans {
            resource: Some(resource(service, instance)),
            scope_spans: vec![spans],
            schema_url: SCHEMA.to_owned(),
        };
        ExportTraceServiceRequest { resource_spans: vec![of_resource] }
    }

    fn rejected(response: ExportTraceServiceResponse) -> (i64, String) {
        let partial = response.partial_success.unwrap_or_default();
        (partial.rejected_spans, partial.error_message)
    }
}

fn request_span(trace: &RequestTrace) -> Span {
    let RequestTrace { context, parent, name, began, time, status, error, .. } = trace;
    let mut attributes = method(&trace.method);
    attributes.extend([
        text("url.scheme", trace.scheme),
        text("url.path", &*trace.path),
        text("network.protocol.version", protocol_version(trace.version)),
        text("client.address", trace.client.to_string()),
    ]);
    attributes.extend(peer(trace.peer));
    let (host, port) = host_and_port(&trace.authority);
    if !host.is_empty() {
        attributes.push(text("server.address", host));
        attributes.extend(port.map(|port| number("server.port", port)));
    }
    attributes.extend(trace.user_agent.as_deref().map(|agent| text("user_agent.original", agent)));
    if let Some(origin) = &trace.origin {
        attributes.push(text("http.route", &*origin.path));
        attributes.push(text("sluice.object", origin.object.to_string()));
    }
    attributes.extend(trace.service.as_ref().map(|service| text("sluice.service", service.to_string())));
    attributes.extend(trace.request_id.as_deref().map(|id| text("sluice.request_id", id)));
    attributes.extend(status.map(|status| number("http.response.status_code", status)));
    let error = error.map(str::to_owned).or_else(|| failed_status(*status, 500));
    Span {
        kind: SpanKind::Server.into(),
        name: name.to_string(),
        parent_span_id: parent.map(|parent| parent.bytes().to_vec()).unwrap_or_default(),
        flags: flags(parent.is_some()),
        ..span(context, context.span, *began, *time, attributes, error)
    }
}

fn attempt_span(trace: &RequestTrace, attempt: &AttemptTrace, number_of_attempt: usize) -> Span {
    let RequestTrace { context, began, .. } = trace;
    let AttemptTrace { span: id, after, time, address, scheme, path, status, error } = attempt;
    let mut attributes = method(&trace.method);
    attributes.extend([
        text("server.address", address.ip().to_string()),
        number("server.port", address.port()),
        text("url.full", format!("{scheme}://{address}{path}")),
    ]);
    attributes.extend(peer(*address));
    if number_of_attempt > 0 {
        attributes
            .push(number("http.request.resend_count", u16::try_from(number_of_attempt).unwrap_or(u16::MAX)));
    }
    attributes.extend(status.map(|status| number("http.response.status_code", status)));
    let error = error.map(str::to_owned).or_else(|| failed_status(*status, 400));
    Span {
        kind: SpanKind::Client.into(),
        name: method_name(&trace.method).to_owned(),
        parent_span_id: context.span.bytes().to_vec(),
        flags: flags(false),
        ..span(context, *id, *began + *after, *time, attributes, error)
    }
}

/// Returns the part that all spans have.
fn span(
    context: &TraceContext,
    id: SpanId,
    began: SystemTime,
    time: Duration,
    mut attributes: Vec<KeyValue>,
    error: Option<String>,
) -> Span {
    let code = match error.as_deref() {
        None | Some(CLIENT_LEFT) => StatusCode::Unset,
        Some(_) => StatusCode::Error,
    };
    attributes.extend(error.map(|error| text("error.type", error)));
    let state = context.state.as_ref().and_then(|state| state.to_str().ok());
    Span {
        trace_id: context.trace.bytes().to_vec(),
        span_id: id.bytes().to_vec(),
        trace_state: state.unwrap_or_default().to_owned(),
        start_time_unix_nano: nanoseconds(began),
        end_time_unix_nano: nanoseconds(began + time),
        attributes,
        status: Some(Status { code: code.into(), message: String::new() }),
        ..Span::default()
    }
}

/// Returns the flags of a sampled span.
fn flags(parent_is_remote: bool) -> u32 {
    1 | PARENT_IS_KNOWN | if parent_is_remote { PARENT_IS_REMOTE } else { 0 }
}

/// Returns `error.type` for a status that is an error of this side of the request.
fn failed_status(status: Option<u16>, first: u16) -> Option<String> {
    status.filter(|status| *status >= first).map(|status| status.to_string())
}

/// Clients choose methods freely, so only those of RFC 9110 and PATCH are values.
fn method(method: &Method) -> Vec<KeyValue> {
    let mut attributes = vec![text("http.request.method", method_name(method))];
    if !is_known(method) {
        attributes[0] = text("http.request.method", "_OTHER");
        attributes.push(text("http.request.method_original", method.as_str()));
    }
    attributes
}

fn method_name(method: &Method) -> &str {
    if is_known(method) { method.as_str() } else { "HTTP" }
}

fn is_known(method: &Method) -> bool {
    use Method as M;
    let known = [M::GET, M::HEAD, M::POST, M::PUT, M::DELETE, M::CONNECT, M::OPTIONS, M::TRACE, M::PATCH];
    known.contains(method)
}

fn protocol_version(version: Version) -> &'static str {
    match version {
        Version::HTTP_09 => "0.9",
        Version::HTTP_10 => "1.0",
        Version::HTTP_2 => "2",
        Version::HTTP_3 => "3",
        _ => "1.1",
    }
}

fn peer(address: SocketAddr) -> [KeyValue; 2] {
    [
        text("network.peer.address", address.ip().to_canonical().to_string()),
        number("network.peer.port", address.port()),
    ]
}

fn host_and_port(authority: &str) -> (&str, Option<u16>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()),
        _ => (authority, None),
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;

    use super::*;
    use crate::otel::record::tests::request_trace;

    fn values(span: &Span) -> Vec<String> {
        let value = |attribute: &KeyValue| match attribute.value.as_ref()?.value.as_ref()? {
            Value::StringValue(text) => Some(format!("{}={text}", attribute.key)),
            Value::IntValue(number) => Some(format!("{}={number}", attribute.key)),
            _ => None,
        };
        span.attributes.iter().map(|attribute| value(attribute).unwrap()).collect()
    }

    #[test]
    fn a_request_has_a_server_span_and_a_client_span_per_attempt() {
        let (mut trace, mut spans) = (request_trace(2), Vec::new());
        trace.attempts[1] = AttemptTrace { status: Some(404), error: None, ..trace.attempts[1].clone() };
        Spans::push(&mut spans, &trace);
        let [server, first, second] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!(
            values(server),
            [
                "http.request.method=GET",
                "url.scheme=https",
                "url.path=/cart",
                "network.protocol.version=2",
                "client.address=192.0.2.7",
                "network.peer.address=192.0.2.8",
                "network.peer.port=1234",
                "server.address=shop.example",
                "server.port=8443",
                "user_agent.original=tester/1",
                "http.response.status_code=200",
            ]
        );
        assert_eq!(
            values(first),
            [
                "http.request.method=GET",
                "server.address=10.0.0.1",
                "server.port=8080",
                "url.full=http://10.0.0.1:8080/inner",
                "network.peer.address=10.0.0.1",
                "network.peer.port=8080",
                "error.type=connect_error",
            ]
        );
        assert!(values(second).ends_with(&[
            "http.request.resend_count=1".to_owned(),
            "http.response.status_code=404".to_owned(),
            "error.type=404".to_owned(),
        ]));
        let code = |span: &Span| span.status.as_ref().unwrap().code;
        assert_eq!(spans.iter().map(code).collect::<Vec<_>>(), [0, 2, 2]);
        assert_eq!(first.parent_span_id, server.span_id);
        assert_eq!(server.end_time_unix_nano - server.start_time_unix_nano, 5_000_000);
        assert_eq!(first.start_time_unix_nano, 7_001_000_000);
        assert_eq!((server.flags, server.kind, first.kind), (0x101, 2, 3));
    }

    #[test]
    fn errors_of_clients_are_no_errors_of_the_server() {
        for (status, error, code, kind) in [
            (Some(404), None, 0, None),
            (Some(503), None, 2, Some("503")),
            (None, Some(CLIENT_LEFT), 0, Some(CLIENT_LEFT)),
            (Some(200), Some("broken"), 2, Some("broken")),
        ] {
            let span = request_span(&RequestTrace { status, error, ..request_trace(0) });
            assert_eq!(span.status.as_ref().unwrap().code, code, "{status:?} {error:?}");
            let found =
                values(&span).into_iter().find_map(|text| Some(text.strip_prefix("error.type=")?.to_owned()));
            assert_eq!(found.as_deref(), kind);
        }
    }

    #[test]
    fn methods_that_clients_make_up_are_no_values() {
        let span = request_span(&RequestTrace {
            method: Method::from_bytes(b"PROPFIND").unwrap(),
            ..request_trace(0)
        });
        assert_eq!(
            values(&span)[..2],
            ["http.request.method=_OTHER", "http.request.method_original=PROPFIND"]
        );
    }

    #[test]
    fn the_port_is_told_from_an_address() {
        assert_eq!(host_and_port("[::1]:80"), ("[::1]", Some(80)));
        assert_eq!(host_and_port("[::1]"), ("[::1]", None));
        assert_eq!(host_and_port("a.example"), ("a.example", None));
    }
}
