//! The gateway's own answers for gRPC clients: a gRPC status instead of an HTTP status.
//!
//! A gRPC client that receives an HTTP error only guesses a status from it and does not show the
//! page. Errors therefore become 200 with the status from gRPC's mapping table, in the head alone
//! ("Trailers-Only"). Redirects stay as they are: the table has no status for them.

use bytes::Bytes;
use h2::Reason;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{StatusCode, Version};

use crate::message::fields::Fields;
use crate::message::head::Head;
use crate::pipeline::Answer;

const GRPC: &[u8] = b"application/grpc";
static STATUS: HeaderName = HeaderName::from_static("grpc-status");
static MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Returns whether a request is gRPC: HTTP/2 and the content type `application/grpc`, with or
/// without a suffix.
pub(super) fn is_grpc(head: &Head) -> bool {
    let Some(content) = head.fields.first(&CONTENT_TYPE) else { return false };
    let is_grpc = content.get(..GRPC.len()).is_some_and(|start| start.eq_ignore_ascii_case(GRPC));
    head.version == Version::HTTP_2 && is_grpc && matches!(content.get(GRPC.len()), None | Some(b'+' | b';'))
}

/// Converts an error to gRPC. `reset`: the code with which the endpoint reset its stream.
pub(super) fn convert(answer: &mut Answer, reset: Option<Reason>) {
    if answer.silent || !(answer.status.is_client_error() || answer.status.is_server_error()) {
        return;
    }
    let status = reset.and_then(code_of_reset).unwrap_or_else(|| code(answer.status));
    answer.fields.retain(|(name, _)| *name != CONTENT_TYPE);
    answer.fields.push((CONTENT_TYPE, HeaderValue::from_static("application/grpc")));
    answer.fields.push((STATUS.clone(), HeaderValue::from_static(status)));
    // The field is percent-encoded; these phrases contain no characters that need it.
    let phrase = answer.status.canonical_reason().unwrap_or("HTTP error");
    answer.fields.push((MESSAGE.clone(), HeaderValue::from_static(phrase)));
    answer.status = StatusCode::OK;
    answer.body = Bytes::new();
}

/// Returns gRPC's status for stream resets with a specific meaning (`PROTOCOL-HTTP2.md`, "Errors").
fn code_of_reset(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::CANCEL => Some("1"),
        Reason::ENHANCE_YOUR_CALM => Some("8"),
        Reason::INADEQUATE_SECURITY => Some("7"),
        _ => None,
    }
}

/// Returns the status from gRPC's table (`http-grpc-status-mapping.md`).
fn code(status: StatusCode) -> &'static str {
    match status.as_u16() {
        400 => "13",
        401 => "16",
        403 => "7",
        404 => "12",
        429 | 502 | 503 | 504 => "14",
        _ => "2",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::field_names::FieldNames;
    use crate::message::head::HeadLimits;

    fn head(content: &str, version: Version) -> Head {
        let request = http::Request::post("http://a.example/s/m").header(CONTENT_TYPE, content);
        let parts = request.body(()).unwrap().into_parts().0;
        let limits = HeadLimits { request_line: 1024, field_line: 1024, head: 4096, first_buffer: 1024 };
        let mut head = Head::http2(&parts, false, &limits, FieldNames::PLAIN).unwrap();
        head.version = version;
        head
    }

    #[test]
    fn clients_of_grpc_are_known_by_their_content() {
        for content in ["application/grpc", "application/grpc+proto", "Application/gRPC; a=b"] {
            assert!(is_grpc(&head(content, Version::HTTP_2)), "{content}");
            assert!(!is_grpc(&head(content, Version::HTTP_11)), "{content}");
        }
        for content in ["application/grpc-web", "application/json", "application/grp"] {
            assert!(!is_grpc(&head(content, Version::HTTP_2)), "{content}");
        }
    }

    #[test]
    fn an_error_becomes_a_status_of_grpc_and_a_redirect_stays() {
        let answer = |status| Answer {
            fields: vec![(CONTENT_TYPE, HeaderValue::from_static("text/html"))],
            body: "page".into(),
            ..Answer::empty(status)
        };
        for (status, code) in [(503, "14"), (404, "12"), (401, "16"), (403, "7"), (413, "2")] {
            let mut answer = answer(StatusCode::from_u16(status).unwrap());
            convert(&mut answer, None);
            let field = |name: &HeaderName| {
                let mut found = answer.fields.iter().filter(|(other, _)| other == name);
                let value = found.next().unwrap().1.to_str().unwrap().to_owned();
                assert!(found.next().is_none());
                value
            };
            assert_eq!((answer.status, answer.body.len()), (StatusCode::OK, 0));
            assert_eq!((field(&STATUS).as_str(), field(&CONTENT_TYPE).as_str()), (code, "application/grpc"));
        }
        for (reason, code) in
            [(Reason::CANCEL, "1"), (Reason::ENHANCE_YOUR_CALM, "8"), (Reason::INTERNAL_ERROR, "14")]
        {
            let mut answer = answer(StatusCode::BAD_GATEWAY);
            convert(&mut answer, Some(reason));
            assert!(answer.fields.contains(&(STATUS.clone(), HeaderValue::from_static(code))), "{reason}");
        }
        let mut redirect = answer(StatusCode::PERMANENT_REDIRECT);
        convert(&mut redirect, Some(Reason::CANCEL));
        assert_eq!(redirect.status, StatusCode::PERMANENT_REDIRECT);
    }
}
