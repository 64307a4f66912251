//! Fields that concern one connection only (RFC 9110 §7.6.1). They and the fields named in
//! `Connection` are dropped in both directions; a permitted upgrade is added again.
//!
//! The engines manage `Content-Length`, `Transfer-Encoding` and `Host`. Naming these in
//! `Connection` has no effect: otherwise a client could change the framing between Sluice and an
//! endpoint.
//!
//! Every option of `Connection` is looked up among the fields for each attempt. Clients need few of
//! them, so parsers reject heads with more than [`MAX_OPTIONS`].

use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, HeaderValue, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::{StatusCode, Version};
use smallvec::SmallVec;

use crate::message::fields::Fields;
use crate::message::fields::FieldsMut;

static KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
static PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
static HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// Maximum number of options in all `Connection` lines together.
pub const MAX_OPTIONS: usize = 64;

/// Returns the number of options in one `Connection` line, including empty ones.
pub fn count_options(line: &[u8]) -> usize {
    line.iter().filter(|byte| **byte == b',').count() + 1
}

/// Returns whether `Connection` has more than [`MAX_OPTIONS`] options.
pub fn has_too_many_options(head: &impl Fields) -> bool {
    head.lines(&CONNECTION).map(count_options).sum::<usize>() > MAX_OPTIONS
}

/// Removes hop-by-hop fields from a request to an endpoint. An upgrade that the client requests is
/// requested again, except one to HTTP/2 (RFC 7540's `h2c`, withdrawn by RFC 9113), which would
/// bypass every rule. The gateway answers `Expect` itself, as nginx does: with an endpoint that
/// never sends 100, client and endpoint would wait for each other.
///
/// Only an extended CONNECT gives a head of HTTP/2 an upgrade: requests with fields of a connection
/// are malformed (RFC 9113 §8.2.2).
pub fn request(head: &mut impl FieldsMut, version: Version) {
    let upgrade = match version {
        Version::HTTP_11 | Version::HTTP_2 if asks_for_upgrade(head) => value(head, &UPGRADE),
        _ => None,
    };
    clear(head);
    head.remove(&TE);
    head.remove(&HTTP2_SETTINGS);
    head.remove(&EXPECT);
    if let Some(protocol) = upgrade {
        head.set(&UPGRADE, &protocol);
        head.set(&CONNECTION, &HeaderValue::from_static("upgrade"));
    }
}

/// Removes hop-by-hop fields from a response to the client. The upgrade stays if the endpoint
/// switches protocols.
pub fn response(head: &mut impl FieldsMut, status: StatusCode) {
    let upgrade = match status {
        StatusCode::SWITCHING_PROTOCOLS => value(head, &UPGRADE),
        _ => None,
    };
    clear(head);
    if let Some(protocol) = upgrade {
        head.set(&UPGRADE, &protocol);
        head.set(&CONNECTION, &HeaderValue::from_static("upgrade"));
    }
}

/// Returns whether a request asks for an upgrade that is passed on.
pub fn asks_for_upgrade(head: &impl Fields) -> bool {
    head.first(&UPGRADE).is_some_and(is_allowed) && names(head, &UPGRADE)
}

/// Returns whether the client accepts trailers (RFC 9110 §10.1.4). gRPC endpoints require this
/// information.
pub fn takes_trailers(head: &impl Fields) -> bool {
    let is_trailers = |coding: &[u8]| coding.trim_ascii().eq_ignore_ascii_case(b"trailers");
    head.lines(&TE).any(|line| line.split(|byte| *byte == b',').any(is_trailers))
}

fn value(head: &impl Fields, name: &HeaderName) -> Option<HeaderValue> {
    HeaderValue::from_bytes(head.first(name)?).ok()
}

fn is_allowed(upgrade: &[u8]) -> bool {
    let mut protocols = upgrade.split(|byte| *byte == b',').map(|one| one.trim_ascii());
    !protocols.any(|protocol| protocol.eq_ignore_ascii_case(b"h2c") || protocol.eq_ignore_ascii_case(b"h2"))
}

fn clear(head: &mut impl FieldsMut) {
    if head.has(&CONNECTION) {
        let named: SmallVec<[HeaderName; 4]> =
            options(head).filter_map(|name| HeaderName::from_bytes(name).ok()).collect();
        for name in named {
            if ![HOST, CONTENT_LENGTH, TRANSFER_ENCODING].contains(&name) {
                head.remove(&name);
            }
        }
        head.remove(&CONNECTION);
    }
    for name in [&UPGRADE, &KEEP_ALIVE, &PROXY_CONNECTION] {
        head.remove(name);
    }
}

/// Returns whether HTTP/2 forbids this field (RFC 9113 §8.2.2).
pub fn is_connection_field(name: &HeaderName) -> bool {
    // Comparing strings is fast here, because nearly all names differ in length.
    matches!(
        name.as_str(),
        "connection" | "keep-alive" | "proxy-connection" | "te" | "transfer-encoding" | "upgrade"
    )
}

/// Returns whether `Connection` names this field.
pub fn names(head: &impl Fields, name: &HeaderName) -> bool {
    options(head).any(|option| option.eq_ignore_ascii_case(name.as_str().as_bytes()))
}

fn options(head: &impl Fields) -> impl Iterator<Item = &[u8]> {
    head.lines(&CONNECTION)
        .flat_map(|line| line.split(|byte| *byte == b','))
        .map(|option| option.trim_ascii())
        .filter(|option| !option.is_empty())
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use proptest::prelude::*;

    use super::*;
    use crate::message::field_names::FieldNames;
    use crate::message::head::Head;

    fn head(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        fields.iter().map(pair).collect()
    }

    #[test]
    fn fields_that_connection_names_go() {
        let mut map = head(&[
            ("connection", "close, X-Secret ,"),
            ("x-secret", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("te", "trailers"),
            ("x-other", "2"),
        ]);
        request(&mut map, Version::HTTP_11);
        assert_eq!(map, head(&[("x-other", "2")]));
    }

    #[test]
    fn options_are_counted_over_all_lines() {
        let mut map = HeaderMap::new();
        assert!(!has_too_many_options(&map));
        for (options, excessive) in [(32, false), (32, false), (1, true)] {
            map.append(CONNECTION, HeaderValue::from_str(&vec!["a"; options].join(", ")).unwrap());
            assert_eq!(has_too_many_options(&map), excessive);
        }
        let commas = head(&[("connection", ",,,")]);
        assert_eq!(commas.get(CONNECTION).map(|line| count_options(line.as_bytes())), Some(4));
    }

    #[test]
    fn framing_and_host_stay_even_if_named() {
        let fields = [("host", "a.example"), ("content-length", "3"), ("transfer-encoding", "chunked")];
        let mut map = head(&fields);
        map.insert(CONNECTION, HeaderValue::from_static("host, content-length, transfer-encoding"));
        request(&mut map, Version::HTTP_11);
        assert_eq!(map, head(&fields));
    }

    #[test]
    fn an_upgrade_is_passed_on_once_asked_for_properly() {
        let websocket = [("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")];
        let mut map = head(&websocket);
        request(&mut map, Version::HTTP_11);
        assert_eq!(map, head(&[("connection", "upgrade"), ("upgrade", "websocket")]));

        let mut old = head(&websocket);
        request(&mut old, Version::HTTP_10);
        assert!(old.is_empty());
        let mut unnamed = head(&[("upgrade", "websocket")]);
        request(&mut unnamed, Version::HTTP_11);
        assert!(unnamed.is_empty());
        let mut h2c = head(&[
            ("connection", "Upgrade, HTTP2-Settings"),
            ("upgrade", "h2c"),
            ("http2-settings", "AAMAAABk"),
        ]);
        request(&mut h2c, Version::HTTP_11);
        assert!(h2c.is_empty());
    }

    #[test]
    fn responses_are_cleared_too() {
        let mut map = head(&[("connection", "upgrade, x-a"), ("upgrade", "h2"), ("x-a", "1"), ("x-b", "2")]);
        let mut switched = map.clone();
        response(&mut map, StatusCode::OK);
        assert_eq!(map, head(&[("x-b", "2")]));
        response(&mut switched, StatusCode::SWITCHING_PROTOCOLS);
        assert_eq!(switched, head(&[("connection", "upgrade"), ("upgrade", "h2"), ("x-b", "2")]));
    }

    proptest! {
        /// For any `Connection` field: an accepted head has at most the allowed number of options,
        /// and loses exactly the fields that it names, in every representation.
        #[test]
        fn exactly_the_fields_named_by_connection_are_removed(
            lines in prop::collection::vec(
                prop::collection::vec("[ \t]{0,2}(X-[A-D]|x-[a-d]|Host|Content-Length|close|a b|)[ \t]{0,2}", 0..40),
                0..4,
            ),
            fields in prop::collection::vec("x-[a-f]", 0..8),
        ) {
            let lines: Vec<String> = lines.iter().map(|options| options.join(",")).collect();
            let mut text = "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n".to_owned();
            fields.iter().for_each(|name| text += &format!("{name}: 1\r\n"));
            lines.iter().for_each(|line| text += &format!("connection: {line}\r\n"));
            text += "\r\n";
            let options: usize = lines.iter().map(|line| line.trim().split(',').count()).sum();
            let head = Head::read(text.as_bytes(), FieldNames::PLAIN);
            prop_assert_eq!(head.is_ok(), options <= MAX_OPTIONS);
            let Ok(mut head) = head else { return Ok(()) };
            let mut map: HeaderMap = head.fields.iter().fold(HeaderMap::new(), |mut map, (name, value)| {
                let name = HeaderName::from_bytes(name).unwrap();
                HeaderMap::append(&mut map, name, HeaderValue::from_bytes(value).unwrap());
                map
            });
            let named = |name: &str| {
                lines.iter().any(|line| line.split(',').any(|option| option.trim().eq_ignore_ascii_case(name)))
            };
            let mut expected: Vec<&str> =
                fields.iter().map(String::as_str).filter(|name| !named(name)).chain(["content-length", "host"]).collect();
            expected.sort_unstable();
            request(&mut head.fields, Version::HTTP_11);
            request(&mut map, Version::HTTP_11);
            let lower = |(name, _): (&[u8], &[u8])| String::from_utf8(name.to_ascii_lowercase()).unwrap();
            let mut left: Vec<String> = head.fields.iter().map(lower).collect();
            left.sort_unstable();
            prop_assert_eq!(&left, &expected);
            let mut left: Vec<&str> = map.iter().map(|(name, _)| name.as_str()).collect();
            left.sort_unstable();
            prop_assert_eq!(&left, &expected);
        }
    }
}
