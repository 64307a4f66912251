//! What a request leaves for its spans.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http::{Method, Version};
use sluice_config::{Origin, ServiceRef};
use smallvec::SmallVec;

use super::TraceContext;
use super::ids::SpanId;

/// Maximum length of a text in a span, in bytes. It bounds the memory of the queue.
const LONGEST_TEXT: usize = 1024;
/// The same for a line of the access log.
const LONGEST_LINE: usize = 8 * 1024;

/// A finished request whose trace is sampled.
#[derive(Clone, Debug)]
pub(crate) struct RequestTrace {
    pub(crate) context: TraceContext,
    /// The span of the client, if its trace is continued.
    pub(crate) parent: Option<SpanId>,
    pub(crate) name: Box<str>,
    pub(crate) began: SystemTime,
    pub(crate) time: Duration,
    pub(crate) method: Method,
    pub(crate) version: Version,
    pub(crate) scheme: &'static str,
    /// The path without the query, which may contain credentials.
    pub(crate) path: Box<str>,
    /// Host and port as the client sent them.
    pub(crate) authority: Box<str>,
    pub(crate) user_agent: Option<Box<str>>,
    pub(crate) request_id: Option<Box<str>>,
    pub(crate) client: IpAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) status: Option<u16>,
    /// Why the response is missing or incomplete.
    pub(crate) error: Option<&'static str>,
    /// The rule that matched.
    pub(crate) origin: Option<Arc<Origin>>,
    pub(crate) service: Option<ServiceRef>,
    pub(crate) attempts: SmallVec<[AttemptTrace; 1]>,
}

/// An attempt of such a request.
#[derive(Clone, Debug)]
pub(crate) struct AttemptTrace {
    pub(crate) span: SpanId,
    /// Time since the request began.
    pub(crate) after: Duration,
    pub(crate) time: Duration,
    pub(crate) address: SocketAddr,
    pub(crate) scheme: &'static str,
    /// The path that the endpoint got, without the query.
    pub(crate) path: Box<str>,
    /// The status of the response, if there was one.
    pub(crate) status: Option<u16>,
    /// How it failed.
    pub(crate) error: Option<&'static str>,
}

impl RequestTrace {
    /// Returns the number of spans.
    pub(crate) fn spans(&self) -> usize {
        1 + self.attempts.len()
    }
}

/// Copies a text for a span; a longer one is cut at the end of a character.
pub(crate) fn shortened(text: &str) -> Box<str> {
    text[..text.floor_char_boundary(LONGEST_TEXT)].into()
}

/// The same for a line of the access log, without its end.
pub(crate) fn shortened_line(line: &[u8]) -> Box<str> {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches('\n');
    text[..text.floor_char_boundary(LONGEST_LINE)].into()
}

#[cfg(test)]
pub(super) mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::otel::TraceId;

    /// Returns a GET request with this number of failed attempts.
    pub(in crate::otel) fn request_trace(attempts: usize) -> RequestTrace {
        let context =
            TraceContext { trace: TraceId::random(), span: SpanId::random(), is_sampled: true, state: None };
        let attempt = AttemptTrace {
            span: SpanId::random(),
            after: Duration::from_millis(1),
            time: Duration::from_millis(2),
            address: ([10, 0, 0, 1], 8080).into(),
            scheme: "http",
            path: "/inner".into(),
            status: None,
            error: Some("connect_error"),
        };
        RequestTrace {
            context,
            parent: None,
            name: "shop".into(),
            began: SystemTime::UNIX_EPOCH + Duration::from_secs(7),
            time: Duration::from_millis(5),
            method: Method::GET,
            version: Version::HTTP_2,
            scheme: "https",
            path: "/cart".into(),
            authority: "shop.example:8443".into(),
            user_agent: Some("tester/1".into()),
            request_id: None,
            client: [192, 0, 2, 7].into(),
            peer: ([192, 0, 2, 8], 1234).into(),
            status: Some(200),
            error: None,
            origin: None,
            service: None,
            attempts: smallvec![attempt; attempts],
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(&*shortened("short"), "short");
        let long = "é".repeat(LONGEST_TEXT) + "end";
        assert_eq!(shortened(&long).len(), LONGEST_TEXT);
        assert_eq!(shortened(&("a".to_owned() + &long)).len(), LONGEST_TEXT - 1);
    }
}
