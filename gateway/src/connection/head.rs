//! Reads an HTTP/1 request head strictly, before anything else sees it.
//!
//! What is refused here is refused with our page, our log line and our metric; what passes is framed
//! unambiguously, so that no parser behind us can read the message differently (RFC 9112 §11.2, request
//! smuggling). Only what nginx's users send in earnest is tolerated: empty lines before the request line and
//! UTF-8 octets in the path.

use bytes::{BufMut, BytesMut};
use http::StatusCode;

use super::chunks::ChunkScanner;

/// Fields in one head. Pingora's own parser ends there as well.
const MAX_FIELDS: usize = 256;

/// The preface by which a client says that it speaks HTTP/2 at once (RFC 9113 §3.4).
const H2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How long a head may be, in octets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The request line; more is 414.
    pub(crate) line: usize,
    /// Everything; more is 400.
    pub(crate) head: usize,
}

/// What the octets read so far amount to.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// Not a whole head yet.
    Partial,
    /// The HTTP/2 preface, of which nothing was consumed.
    Http2,
    /// A head.
    Head(Head),
    /// Not acceptable.
    Refused(StatusCode),
}

/// A request head that is well formed.
#[derive(Debug)]
pub(crate) struct Head {
    /// Octets it takes at the start of the buffer, empty lines before it included.
    pub(crate) length: usize,
    /// Octets of those that are empty lines.
    pub(crate) skipped: usize,
    /// What follows it.
    pub(crate) framing: Framing,
    /// The head in origin form, where the client sent the target in absolute form (RFC 9112 §3.2.2): Host has
    /// become the target's authority.
    pub(crate) rewritten: Option<BytesMut>,
}

/// How the body of a request is delimited (RFC 9112 §6.3).
#[derive(Debug)]
pub(crate) enum Framing {
    /// This many octets, 0 for no body.
    Length(u64),
    /// Chunks, up to and with the trailer section.
    Chunked(ChunkScanner),
}

/// Looks at what was read so far.
pub(crate) fn parse(buffer: &[u8], limits: Limits) -> Parsed {
    let prefix = buffer.len().min(H2_PREFACE.len());
    if prefix >= 3 && buffer[..prefix] == H2_PREFACE[..prefix] {
        return if prefix == H2_PREFACE.len() { Parsed::Http2 } else { Parsed::Partial };
    }
    let skipped = empty_lines(buffer);
    let rest = &buffer[skipped..];
    match rest.iter().position(|&octet| octet == b'\n') {
        Some(end) if end > limits.line => return Parsed::Refused(StatusCode::URI_TOO_LONG),
        None if rest.len() > limits.line => return Parsed::Refused(StatusCode::URI_TOO_LONG),
        _ => {}
    }
    if has_bare_line_end(rest) {
        return Parsed::Refused(StatusCode::BAD_REQUEST);
    }
    let Some(length) = find(rest, b"\r\n\r\n").map(|at| at + 4) else {
        let too_long = buffer.len() > limits.head;
        return if too_long { Parsed::Refused(StatusCode::BAD_REQUEST) } else { Parsed::Partial };
    };
    if length > limits.head {
        return Parsed::Refused(StatusCode::BAD_REQUEST);
    }
    match check(&rest[..length]) {
        Ok((framing, rewritten)) => {
            Parsed::Head(Head { length: skipped + length, skipped, framing, rewritten })
        }
        Err(status) => Parsed::Refused(status),
    }
}

/// Empty lines that some clients send after a body (RFC 9112 §2.2).
fn empty_lines(buffer: &[u8]) -> usize {
    let mut at = 0;
    while buffer[at..].starts_with(b"\r\n") {
        at += 2;
    }
    at
}

/// A line feed without its carriage return, or the other way round, inside the head: parsers disagree on them.
fn has_bare_line_end(buffer: &[u8]) -> bool {
    let head = find(buffer, b"\r\n\r\n").map_or(buffer, |at| &buffer[..at + 4]);
    head.iter().enumerate().any(|(at, &octet)| match octet {
        b'\n' => at == 0 || head[at - 1] != b'\r',
        b'\r' => head.get(at + 1).is_some_and(|&next| next != b'\n'),
        _ => false,
    })
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

type Checked = Result<(Framing, Option<BytesMut>), StatusCode>;

fn check(head: &[u8]) -> Checked {
    const BAD: StatusCode = StatusCode::BAD_REQUEST;
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    if !request.parse(head).is_ok_and(|status| status.is_complete()) {
        return Err(BAD);
    }
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Err(BAD);
    };
    // nginx answers both so: neither is for a gateway.
    if method == "CONNECT" || method == "TRACE" {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    if target.contains('#') {
        return Err(BAD);
    }
    let host = host_field(request.headers, version)?;
    let framing = framing(request.headers, version)?;
    if target.starts_with('/') || (target == "*" && method == "OPTIONS") {
        return Ok((framing, None));
    }
    let (authority, path) = absolute(target).ok_or(BAD)?;
    if !is_authority(authority) {
        return Err(BAD);
    }
    let rewritten = (host != Some(authority.as_bytes()) || !target.starts_with('/'))
        .then(|| rewrite(method, path, authority, version, request.headers));
    Ok((framing, rewritten))
}

/// The Host field: exactly one for HTTP/1.1, at most one for HTTP/1.0 (RFC 9112 §3.2).
fn host_field<'a>(fields: &[httparse::Header<'a>], version: u8) -> Result<Option<&'a [u8]>, StatusCode> {
    let mut hosts = fields.iter().filter(|field| field.name.eq_ignore_ascii_case("host"));
    let first = hosts.next().map(|field| field.value);
    let valid = match first {
        Some(value) => str::from_utf8(value).is_ok_and(is_authority),
        None => version == 0,
    };
    if !valid || hosts.next().is_some() {
        return Err(StatusCode::BAD_REQUEST);
    }
    Ok(first)
}

/// `host [":" port]` without userinfo (RFC 9110 §4.2.4, RFC 3986 §3.2).
fn is_authority(text: &str) -> bool {
    let (host, port) = match text.rfind(':') {
        Some(at) if !text[at..].contains(']') => (&text[..at], Some(&text[at + 1..])),
        _ => (text, None),
    };
    let port_fits = port.is_none_or(|port| {
        port.is_empty() || (port.bytes().all(|octet| octet.is_ascii_digit()) && port.parse::<u16>().is_ok())
    });
    let host_fits = match host.strip_prefix('[') {
        Some(literal) => literal.strip_suffix(']').is_some_and(|ip| ip.parse::<std::net::Ipv6Addr>().is_ok()),
        None => {
            !host.is_empty()
                && host
                    .bytes()
                    .all(|octet| octet.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(&octet))
        }
    };
    port_fits && host_fits
}

/// How the body ends. Whatever could be read in two ways is refused.
fn framing(fields: &[httparse::Header<'_>], version: u8) -> Result<Framing, StatusCode> {
    const BAD: StatusCode = StatusCode::BAD_REQUEST;
    let mut length = None;
    let mut chunked = false;
    for field in fields {
        if field.name.eq_ignore_ascii_case("content-length") {
            let text = str::from_utf8(field.value).map_err(|_| BAD)?;
            let plain = !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
            if !plain || length.is_some() {
                return Err(BAD);
            }
            length = Some(text.parse::<u64>().map_err(|_| BAD)?);
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            if chunked || version == 0 || !field.value.eq_ignore_ascii_case(b"chunked") {
                return Err(BAD);
            }
            chunked = true;
        }
    }
    match (length, chunked) {
        (Some(_), true) => Err(BAD),
        (_, true) => Ok(Framing::Chunked(ChunkScanner::default())),
        (length, false) => Ok(Framing::Length(length.unwrap_or(0))),
    }
}

/// Authority and path of `http://authority/path` (RFC 9112 §3.2.2).
fn absolute(target: &str) -> Option<(&str, &str)> {
    let scheme = target.find("://")?;
    if !target[..scheme].eq_ignore_ascii_case("http") && !target[..scheme].eq_ignore_ascii_case("https") {
        return None;
    }
    let rest = &target[scheme + 3..];
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    Some((&rest[..end], &rest[end..]))
}

fn rewrite(
    method: &str,
    path: &str,
    authority: &str,
    version: u8,
    fields: &[httparse::Header<'_>],
) -> BytesMut {
    let mut head = BytesMut::with_capacity(512);
    head.put_slice(method.as_bytes());
    head.put_slice(if path.starts_with('/') { b" " } else { b" /" });
    head.put_slice(path.as_bytes());
    head.put_slice(if version == 0 { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" });
    head.put_slice(b"Host: ");
    head.put_slice(authority.as_bytes());
    head.put_slice(b"\r\n");
    for field in fields.iter().filter(|field| !field.name.eq_ignore_ascii_case("host")) {
        head.put_slice(field.name.as_bytes());
        head.put_slice(b": ");
        head.put_slice(field.value);
        head.put_slice(b"\r\n");
    }
    head.put_slice(b"\r\n");
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { line: 64, head: 256 };

    fn status(head: &str) -> u16 {
        match parse(head.as_bytes(), LIMITS) {
            Parsed::Partial => 0,
            Parsed::Http2 => 2,
            Parsed::Head(_) => 200,
            Parsed::Refused(status) => status.as_u16(),
        }
    }

    fn framing_of(fields: &str) -> Framing {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        match parse(text.as_bytes(), LIMITS) {
            Parsed::Head(head) => head.framing,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn takes_what_clients_send_in_earnest() {
        for head in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.0\r\n\r\n",
            "\r\n\r\nGET / HTTP/1.1\r\nHost: a:8080\r\n\r\n",
            "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET http://b/x HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
            "GET /ü?q=ü HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n",
        ] {
            assert_eq!(status(head), 200, "{head:?}");
        }
    }

    #[test]
    fn waits_for_the_rest_of_a_head() {
        for head in ["", "GE", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a\r\n", "PRI * HTTP/2.0\r\n"] {
            assert_eq!(status(head), 0, "{head:?}");
        }
    }

    #[test]
    fn refuses_what_could_be_read_in_two_ways() {
        for fields in [
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: 1\r\nContent-Length: 2\r\n",
            "Content-Length: 1\r\nContent-Length: 1\r\n",
            "Content-Length: 1, 1\r\n",
            "Content-Length: +1\r\n",
            "Content-Length: 0x1\r\n",
            "Content-Length: \r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Transfer-Encoding: gzip\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            "Transfer-Encoding: \x0bchunked\r\n",
            "Transfer-Encoding : chunked\r\n",
            "X: a\r\n folded\r\n",
            "X: a\nY: b\r\n",
            "X: a\rY: b\r\n",
            "X: a\0b\r\n",
            "no colon\r\n",
            ": no name\r\n",
            "Host: b\r\n",
        ] {
            let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
            assert_eq!(status(&head), 400, "{fields:?}");
        }
    }

    #[test]
    fn refuses_bad_request_lines_and_hosts() {
        for (head, expected) in [
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a:70000\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400),
            ("GET x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET /#x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
            ("GET /\r\n\r\n", 400),
            ("GET / HTTP/3.0\r\nHost: a\r\n\r\n", 400),
            ("\x16\x03\x01\x02\r\n\r\n", 400),
            ("GET / HTTP/1.1\nHost: a\n\n", 400),
            ("CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", 405),
            ("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
            ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 2),
        ] {
            assert_eq!(status(head), expected, "{head:?}");
        }
    }

    #[test]
    fn bounds_the_request_line_and_the_head() {
        let long_line = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(64));
        assert_eq!(status(&long_line), 414);
        assert_eq!(status(&long_line[..70]), 414);
        let long_head = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(256));
        assert_eq!(status(&long_head), 400);
        assert_eq!(status(&long_head[..long_head.len() - 4]), 400);
    }

    #[test]
    fn tells_how_the_body_ends() {
        assert!(matches!(framing_of(""), Framing::Length(0)));
        assert!(matches!(framing_of("Content-Length: 12\r\n"), Framing::Length(12)));
        assert!(matches!(framing_of("Transfer-Encoding: Chunked\r\n"), Framing::Chunked(_)));
    }

    #[test]
    fn an_absolute_target_decides_the_host() {
        let text = b"GET http://b:81/x?y HTTP/1.1\r\nA: 1\r\nHost: a\r\n\r\n";
        let Parsed::Head(head) = parse(text, LIMITS) else { panic!() };
        let rewritten = head.rewritten.unwrap();
        assert_eq!(&rewritten[..], b"GET /x?y HTTP/1.1\r\nHost: b:81\r\nA: 1\r\n\r\n");
        let Parsed::Head(head) = parse(b"GET http://b?y HTTP/1.1\r\nHost: b\r\n\r\n", LIMITS) else {
            panic!()
        };
        assert_eq!(&head.rewritten.unwrap()[..], b"GET /?y HTTP/1.1\r\nHost: b\r\n\r\n");
    }

    #[test]
    fn leaves_what_follows_the_head_alone() {
        let text = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nbare\nline";
        let Parsed::Head(head) = parse(text, LIMITS) else { panic!() };
        assert_eq!(&text[head.length..], b"bare\nline");
    }
}
