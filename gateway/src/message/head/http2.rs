//! Strict parser of HTTP/2 request heads (RFC 9113 §8.2 and §8.3). The result is the HTTP/1.1 head
//! for an endpoint, so all later code is independent of the protocol.
//!
//! `h2` has already checked the order and number of pseudo-header fields, lowercase names,
//! connection fields and body lengths. The remaining rules are those of HTTP/1.

use http::header::{CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderName};
use http::request::Parts;
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderValue, Method, Version};

use crate::message::authority::is_authority;
use crate::message::field_list::FieldList;
use crate::message::field_names::FieldNames;
use crate::message::framing::Framing;
use crate::message::head::Edited;
use crate::message::head::Head;
use crate::message::head::HeadFault;
use crate::message::head::HeadLimits;
use crate::message::head::MAX_FIELDS;
use crate::message::head::UNIQUE;
use crate::message::head::check_target;
use crate::message::head::content_length;
use crate::message::head::escaped_target::unescape;

/// The target of a request that was escaped for `h2`.
#[derive(Clone, Debug)]
struct RestoredTarget(String);

impl Head {
    /// Parses a head. `ends`: the request has no body.
    pub(crate) fn http2(
        parts: &Parts,
        ends: bool,
        limits: &HeadLimits,
        names: FieldNames,
    ) -> Result<Self, HeadFault> {
        let framing = framing(&parts.headers, ends)?;
        Self::convert(parts, (&parts.method, target(parts)), framing, limits, names, &[])
    }

    /// Converts a head to one with this method and target. `added`: fields that replace those of
    /// the client.
    pub(super) fn convert(
        parts: &Parts,
        (method, target): (&Method, &str),
        framing: Framing,
        limits: &HeadLimits,
        names: FieldNames,
        added: &[(&str, &[u8])],
    ) -> Result<Self, HeadFault> {
        check_target(method.as_str(), target)?;
        let authority = authority(parts)?;
        check_size(method, target, authority, &parts.headers, limits)?;
        // Cookies are usually the only repeated fields.
        let has_repeated = parts.headers.len() != parts.headers.keys_len();
        if has_repeated && UNIQUE.iter().any(|name| parts.headers.get_all(*name).iter().nth(1).is_some()) {
            return Err(HeadFault::REPEATED);
        }
        if !parts.headers.iter().all(|(name, value)| is_valid_in_http1(name, value, names)) {
            return Err(HeadFault::bad("a field that HTTP/1 cannot have"));
        }
        let mut fields = FieldList::default();
        fields.reserve(length(parts), parts.headers.len());
        fields.push_text(method.as_str());
        fields.push_text(" ");
        let start = fields.text().len();
        fields.push_text(target);
        fields.push_text(" HTTP/1.1\r\n");
        fields.push_line(b"host", authority.as_bytes());
        for (name, value) in &parts.headers {
            let is_replaced = added.iter().any(|(added, _)| name == added);
            if *name != HOST && *name != COOKIE && !is_replaced && !names.drops(name.as_str().as_bytes()) {
                fields.push_line(name.as_str().as_bytes(), value.as_bytes());
            }
        }
        push_cookies(&mut fields, &parts.headers);
        for (name, value) in added {
            fields.push_line(name.as_bytes(), value);
        }
        if framing == Framing::CHUNKED {
            fields.push_line(b"transfer-encoding", b"chunked");
        }
        fields.push_text("\r\n");
        let expect = parts.headers.get(EXPECT);
        Ok(Self {
            version: Version::HTTP_2,
            framing,
            expects_continue: expect
                .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue")),
            method: method.clone(),
            target: start..start + target.len(),
            received: None,
            edited: Edited::default(),
            fields,
            names,
            length: length(parts),
        })
    }
}

/// Applies the limits of HTTP/1, as nginx does since 1.19.7. Lengths are those of the lines that an
/// endpoint would receive.
pub(crate) fn check_size(
    method: &Method,
    target: &str,
    authority: &str,
    fields: &HeaderMap,
    limits: &HeadLimits,
) -> Result<(), HeadFault> {
    let request_line = method.as_str().len() + target.len() + " ".len() + " HTTP/1.1\r\n".len();
    if request_line > limits.request_line {
        return Err(HeadFault::TOO_LONG_LINE);
    }
    if fields.len() > MAX_FIELDS {
        return Err(HeadFault::bad("too many fields"));
    }
    const AROUND: usize = ": \r\n".len();
    let host = HOST.as_str().len() + authority.len() + AROUND;
    let (mut longest, mut all) = (host, host);
    for (name, value) in fields {
        let line = name.as_str().len() + value.len() + AROUND;
        longest = longest.max(line);
        all += line;
    }
    match () {
        () if longest > limits.field_line => Err(HeadFault::TOO_LONG_FIELD),
        () if request_line + all > limits.head => Err(HeadFault::TOO_LARGE),
        () => Ok(()),
    }
}

/// Returns whether a field that `h2` accepted is valid in HTTP/1 too, or is dropped for its name.
/// `h2`'s names are tokens except that they may contain quotation marks; its values may begin and
/// end with whitespace (RFC 9113 §8.2.1).
pub(crate) fn is_valid_in_http1(name: &HeaderName, value: &HeaderValue, names: FieldNames) -> bool {
    let name = name.as_str().as_bytes();
    (!name.contains(&b'"') || names.drops(name))
        && !matches!(value.as_bytes(), [b' ' | b'\t', ..] | [.., b' ' | b'\t'])
}

/// Restores the target of a request if it was escaped for `h2`.
pub(crate) fn restore_target(parts: &mut Parts) {
    let received = parts.uri.path_and_query().map_or("", PathAndQuery::as_str);
    if received.starts_with('?')
        && let Some(target) = unescape(received)
    {
        parts.extensions.insert(RestoredTarget(target));
    }
}

/// Returns path and query, or the authority for CONNECT.
pub(crate) fn target(parts: &Parts) -> &str {
    match path_and_query(parts) {
        Some(target) if parts.method != Method::CONNECT => target,
        _ => parts.uri.authority().map_or("", |authority| authority.as_str()),
    }
}

/// Returns path and query as the client sent them.
pub(super) fn path_and_query(parts: &Parts) -> Option<&str> {
    match parts.extensions.get() {
        Some(RestoredTarget(target)) => Some(target),
        None => parts.uri.path_and_query().map(PathAndQuery::as_str),
    }
}

/// Returns the bytes of names and values, as HTTP/2 counts them.
pub(crate) fn length(parts: &Parts) -> usize {
    let fields: usize = parts.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    let authority = parts.uri.authority().map_or(0, |authority| authority.as_str().len());
    target(parts).len() + authority + fields
}

/// Returns `:authority`, or `Host` without one (RFC 9113 §8.3.1). Rejects requests in which the two
/// differ.
fn authority(parts: &Parts) -> Result<&str, HeadFault> {
    let mut hosts = parts.headers.get_all(HOST).into_iter();
    let host = hosts.next().map(HeaderValue::as_bytes);
    if hosts.next().is_some() {
        return Err(HeadFault::bad("several Host fields"));
    }
    let named = parts.uri.authority().map(|authority| authority.as_str());
    if let (Some(host), Some(named)) = (host, named)
        && host != named.as_bytes()
    {
        return Err(HeadFault::bad("the Host field is not the authority"));
    }
    match named.or_else(|| str::from_utf8(host?).ok()) {
        Some(authority) if is_authority(authority.as_bytes()) => Ok(authority),
        Some(_) => Err(HeadFault::bad("the authority is not a host with an optional port")),
        None => Err(HeadFault::bad("no authority")),
    }
}

/// Returns the framing of the body for an endpoint: its length if it is known.
fn framing(fields: &HeaderMap, ends: bool) -> Result<Framing, HeadFault> {
    let mut lengths = fields.get_all(CONTENT_LENGTH).into_iter();
    let length = lengths.next();
    if lengths.next().is_some() {
        return Err(HeadFault::bad("several Content-Length fields"));
    }
    let length = match length {
        Some(digits) => content_length(digits.as_bytes()).map(Some),
        None => Some(None),
    };
    match (length, ends) {
        (None, _) => Err(HeadFault::bad("Content-Length is not one number")),
        (Some(Some(1..)), true) => Err(HeadFault::bad("the body is shorter than its length")),
        (Some(Some(length)), _) => Ok(Framing::Length(length)),
        (Some(None), true) => Ok(Framing::NONE),
        (Some(None), false) => Ok(Framing::CHUNKED),
    }
}

/// Joins cookies that were split for compression into one field (RFC 9113 §8.2.3).
fn push_cookies(fields: &mut FieldList, map: &HeaderMap) {
    let mut crumbs = map.get_all(COOKIE).into_iter().map(HeaderValue::as_bytes);
    let Some(first) = crumbs.next() else { return };
    match crumbs.next() {
        None => fields.push_line(b"cookie", first),
        Some(second) => {
            let mut whole = [first, b"; ", second].concat();
            for crumb in crumbs {
                whole.extend_from_slice(b"; ");
                whole.extend_from_slice(crumb);
            }
            fields.push_line(b"cookie", &whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use proptest::prelude::*;

    use super::*;

    const LIMITS: HeadLimits =
        HeadLimits { request_line: 8 * 1024, field_line: 8 * 1024, head: 32 * 1024, first_buffer: 1024 };

    fn read(request: http::request::Builder, ends: bool) -> Result<Head, HeadFault> {
        Head::http2(&request.body(()).unwrap().into_parts().0, ends, &LIMITS, FieldNames::PLAIN)
    }

    #[test]
    fn a_head_becomes_one_of_http1() {
        let request = Request::post("https://a.example/x?y")
            .header("host", "a.example")
            .header("cookie", "a=1")
            .header("x-a", "1")
            .header("cookie", "b=2")
            .header("expect", "100-continue")
            .header("cookie", "c=3");
        let head = read(request, false).unwrap();
        let text = "POST /x?y HTTP/1.1\r\nhost: a.example\r\nx-a: 1\r\nexpect: 100-continue\r\n\
                    cookie: a=1; b=2; c=3\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(str::from_utf8(head.text()), Ok(text));
        assert_eq!((head.framing, head.expects_continue, head.target()), (Framing::CHUNKED, true, "/x?y"));
        // The parser of HTTP/1 accepts the head as well.
        let again = Head::read(head.text(), FieldNames::PLAIN).unwrap();
        assert_eq!((again.framing, again.target()), (head.framing, head.target()));
    }

    #[test]
    fn several_authorization_fields_were_forwarded() {
        let twice = |name: &str| {
            let request = Request::get("https://a.example/").header("cookie", "a").header("cookie", "b");
            read(request.header(name, "1").header("x-other", "1").header(name, "2"), true)
        };
        for name in UNIQUE {
            assert_eq!(twice(name).unwrap_err(), HeadFault::REPEATED, "{name}");
        }
        assert!(twice("range").is_ok());
    }

    #[test]
    fn fields_are_tokens_with_values_that_are_not_padded() {
        for byte in 0..=u8::MAX {
            let Ok(name) = HeaderName::from_lowercase(&[b'x', byte]) else { continue };
            let is_token = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            assert_eq!(
                is_valid_in_http1(&name, &HeaderValue::from_static("1"), FieldNames::ANY),
                is_token,
                "{name:?}"
            );
        }
        for (value, sound) in [
            ("", true),
            ("a b", true),
            (" a", false),
            ("a ", false),
            ("\ta", false),
            ("a\t", false),
            (" ", false),
        ] {
            let request = Request::get("http://a.example/").header("x-a", value);
            assert_eq!(read(request, true).is_ok(), sound, "{value:?}");
        }
    }

    #[test]
    fn bodies_keep_their_length() {
        let request =
            |length: &'static str| Request::post("http://a.example/").header("content-length", length);
        assert_eq!(read(request("5"), false).unwrap().framing, Framing::Length(5));
        assert_eq!(read(request("0"), true).unwrap().framing, Framing::NONE);
        assert_eq!(read(Request::get("http://a.example/"), true).unwrap().framing, Framing::NONE);
        for (length, ends) in
            [("5", true), ("+5", false), ("5, 5", false), ("", false), ("99999999999999999999", false)]
        {
            assert!(read(request(length), ends).is_err(), "{length}");
        }
        assert!(read(request("5").header("content-length", "5"), false).is_err());
    }

    #[test]
    fn a_request_is_for_one_host_and_a_path() {
        assert!(read(Request::get("/x").header("host", "a.example"), true).is_ok());
        assert!(read(Request::options("*").header("host", "a.example"), true).is_ok());
        for bad in [
            Request::get("/x"),
            Request::get("*").header("host", "a.example"),
            Request::get("http://a.example/").header("host", "b.example"),
            Request::get("/x").header("host", "a.example").header("host", "a.example"),
            Request::get("/x").header("host", "a b"),
            Request::get("http://user@a.example/"),
            Request::get("http://a.example:99999/"),
        ] {
            assert!(read(bad, true).is_err());
        }
        for refused in
            [Request::connect("a.example:443"), Request::builder().method("TRACE").uri("http://a.example/")]
        {
            assert_eq!(read(refused, true).unwrap_err().status.as_u16(), 405);
        }
    }

    #[test]
    fn lines_have_the_limits_of_http1() {
        let status = |request: http::request::Builder| match read(request, true) {
            Ok(_) => 200,
            Err(fault) => fault.status.as_u16(),
        };
        let field = |length| Request::get("http://a.example/").header("x", "y".repeat(length));
        assert_eq!((status(field(8 * 1024 - 5)), status(field(8 * 1024 - 4))), (200, 431));
        let path = |length| Request::get(format!("http://a.example/{}", "y".repeat(length)));
        assert_eq!((status(path(8 * 1024 - 16)), status(path(8 * 1024 - 15))), (200, 414));
        let whole = |count| {
            (0..count)
                .fold(Request::get("http://a.example/"), |request, _| request.header("x", "y".repeat(8000)))
        };
        assert_eq!((status(whole(4)), status(whole(5))), (200, 431));
    }

    proptest! {
        /// Every accepted head is the same single request for readers of HTTP/1.
        #[test]
        fn every_accepted_head_is_one_http1_head(
            method in "GET|POST|OPTIONS|X-A",
            target in "(/[!-~\u{e4}]{0,12}|\\*)",
            host in prop::option::of("[a-c@: ]{1,3}"),
            fields in prop::collection::vec(("(cookie|host|x-a|x_a|x.b|content-length|expect|te)", "[ -~]{0,8}|[0-9]{1,3}"), 0..6),
            ends in any::<bool>(),
        ) {
            let uri = match host {
                Some(host) if target != "*" => format!("http://{host}{target}"),
                _ => target,
            };
            let mut request = Request::builder().method(method.as_str()).uri(uri);
            for (name, value) in &fields {
                request = request.header(name, value);
            }
            let Ok(request) = request.body(()) else { return Ok(()) };
            let (parts, ()) = request.into_parts();
            let Ok(head) = Head::http2(&parts, ends, &LIMITS, FieldNames::PLAIN) else { return Ok(()) };
            let again = Head::read(head.text(), FieldNames::PLAIN).expect("a head of HTTP/1");
            prop_assert_eq!(again.framing, head.framing);
            prop_assert_eq!(again.target(), head.target());
            prop_assert_eq!(again.method, head.method);
            prop_assert_eq!(again.expects_continue, head.expects_continue);
            prop_assert_eq!(again.fields.iter().count(), head.fields.iter().count());
            prop_assert!(!head.fields.iter().any(|(name, _)| FieldNames::PLAIN.drops(name)));
        }
    }
}
