//! WebSocket over HTTP/2 (RFC 8441): an extended CONNECT as the handshake of HTTP/1.1 that its
//! endpoint receives (RFC 6455 §4.1).
//!
//! Over HTTP/2 the handshake has no key, because `:protocol` states the protocol. The gateway adds
//! a random key for the endpoint and verifies the endpoint's `Sec-WebSocket-Accept`.

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use h2::ext::Protocol;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{Method, StatusCode};

use crate::message::field_names::FieldNames;
use crate::message::framing::Framing;
use crate::message::head::http2::path_and_query;
use crate::message::head::{Head, HeadFault, HeadLimits};

/// The constant that is hashed with a key (RFC 6455 §1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// The value of `Sec-WebSocket-Accept` with which an endpoint accepts a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Accept(String);

impl Accept {
    fn of(key: &str) -> Self {
        let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
        context.update(key.as_bytes());
        context.update(GUID);
        Self(STANDARD.encode(context.finish()))
    }

    /// Returns whether the field has the expected value.
    pub(crate) fn is(&self, value: Option<&[u8]>) -> bool {
        value == Some(self.0.as_bytes())
    }
}

impl Head {
    /// Returns whether a request is an extended CONNECT (RFC 8441 §4).
    pub(crate) fn is_extended_connect(parts: &Parts) -> bool {
        parts.method == Method::CONNECT && parts.extensions.get::<Protocol>().is_some()
    }

    /// Converts the head of an extended CONNECT to the handshake that its endpoint receives.
    ///
    /// # Errors
    /// The protocol is not `websocket` (501, as in RFC 9220 §3), or the head is malformed.
    pub(crate) fn websocket(
        parts: &Parts,
        limits: &HeadLimits,
        names: FieldNames,
    ) -> Result<(Self, Accept), HeadFault> {
        let protocol = parts.extensions.get::<Protocol>().map_or("", Protocol::as_str);
        if !protocol.eq_ignore_ascii_case("websocket") {
            return Err(HeadFault {
                status: StatusCode::NOT_IMPLEMENTED,
                reason: "CONNECT with another protocol",
            });
        }
        if parts.headers.contains_key(CONTENT_LENGTH) {
            return Err(HeadFault::bad("CONNECT with a Content-Length"));
        }
        let target = path_and_query(parts).unwrap_or_default();
        let key = STANDARD.encode(fastrand::u128(..).to_be_bytes());
        let added: [(&str, &[u8]); 3] =
            [("upgrade", b"websocket"), ("connection", b"Upgrade"), ("sec-websocket-key", key.as_bytes())];
        let head = Self::convert(parts, (&Method::GET, target), Framing::NONE, limits, names, &added)?;
        Ok((head, Accept::of(&key)))
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use http::header::{CONNECTION, HeaderName, UPGRADE};

    use super::*;
    use crate::message::fields::Fields;
    use crate::message::request;

    const LIMITS: HeadLimits =
        HeadLimits { request_line: 1024, field_line: 1024, head: 4096, first_buffer: 1024 };

    fn parts(protocol: &'static str, fields: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().method(Method::CONNECT).uri("https://a.example/chat?x=1");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let mut parts = request.body(()).unwrap().into_parts().0;
        parts.extensions.insert(Protocol::from_static(protocol));
        parts
    }

    fn read(protocol: &'static str, fields: &[(&str, &str)]) -> Result<(Head, Accept), HeadFault> {
        Head::websocket(&parts(protocol, fields), &LIMITS, FieldNames::PLAIN)
    }

    #[test]
    fn the_accept_value_is_the_example_of_the_rfc() {
        assert!(Accept::of("dGhlIHNhbXBsZSBub25jZQ==").is(Some(b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")));
        assert!(!Accept::of("dGhlIHNhbXBsZSBub25jZQ==").is(None));
    }

    #[test]
    fn an_extended_connect_becomes_a_handshake_of_http1() {
        let fields =
            [("sec-websocket-version", "13"), ("sec-websocket-key", "mine"), ("origin", "https://b")];
        let (head, accept) = read("websocket", &fields).unwrap();
        assert_eq!((head.method.as_str(), head.target()), ("GET", "/chat?x=1"));
        assert!(head.framing.is_done() && request::asks_for_upgrade(&head));
        let key = HeaderName::from_static("sec-websocket-key");
        let keys: Vec<_> = head.fields.lines(&key).collect();
        let [key] = keys[..] else { panic!("{keys:?}") };
        assert_eq!(accept, Accept::of(str::from_utf8(key).unwrap()));
        assert_eq!(STANDARD.decode(key).unwrap().len(), 16);
        assert_eq!(head.fields.first(&UPGRADE), Some(&b"websocket"[..]));
        assert_eq!(head.fields.first(&CONNECTION), Some(&b"Upgrade"[..]));
        let (again, _) = read("websocket", &fields).unwrap();
        assert_ne!(
            head.fields.first(&HeaderName::from_static("sec-websocket-key")),
            again.fields.first(&HeaderName::from_static("sec-websocket-key")),
            "each handshake has its own key"
        );
    }

    #[test]
    fn other_protocols_and_lengths_are_refused() {
        assert_eq!(read("connect-udp", &[]).unwrap_err().status.as_u16(), 501);
        assert_eq!(read("websocket", &[("content-length", "1")]).unwrap_err().status.as_u16(), 400);
    }
}
