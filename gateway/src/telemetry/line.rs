//! One line of the access log in ingress-nginx's default format, byte for byte:
//!
//! `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer"
//! "$http_user_agent" $request_length $request_time [$proxy_upstream_name]
//! [$proxy_alternative_upstream_name] $upstream_addr $upstream_response_length $upstream_response_time
//! $upstream_status $req_id`
//!
//! What is known of the request is written when it begins, because the head is gone when it ends; the rest is
//! written around it at the end. That makes one buffer per request, which is also what is sent to the writer.

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderName, REFERER, USER_AGENT};
use http::{Method, Version};

use super::clock;
use crate::message::fields::Fields;

/// A line whose end is not known yet.
#[derive(Debug)]
pub struct LogLine {
    bytes: Vec<u8>,
    time: usize,
    status: usize,
}

/// One attempt to reach an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamAttempt {
    /// `$upstream_addr`.
    pub address: SocketAddr,
    /// `$upstream_status`; `None` when there was neither a response head nor a failure.
    pub status: Option<u16>,
    /// `$upstream_response_length`.
    pub length: u64,
    /// `$upstream_response_time`.
    pub time: Duration,
}

/// What is known when the request has ended.
#[derive(Clone, Copy, Debug)]
pub struct Tail<'a> {
    /// `$status`.
    pub status: u16,
    /// `$body_bytes_sent`.
    pub body_sent: u64,
    /// `$request_length`.
    pub request_length: u64,
    /// `$request_time`.
    pub request_time: Duration,
    /// `$proxy_upstream_name`.
    pub upstream: &'a str,
    /// `$proxy_alternative_upstream_name`.
    pub alternative: &'a str,
    /// The attempts, in order.
    pub attempts: &'a [UpstreamAttempt],
    /// `$req_id`.
    pub request_id: &'a [u8],
}

impl LogLine {
    /// The line of a request that was read.
    pub fn request(
        client: IpAddr,
        method: &Method,
        target: &str,
        version: Version,
        headers: &impl Fields,
    ) -> Self {
        let user = remote_user(headers);
        let mut line = Self::start(client, user.as_deref(), |bytes| {
            escape(bytes, method.as_str().as_bytes());
            bytes.push(b' ');
            escape(bytes, target.as_bytes());
            bytes.push(b' ');
            bytes.extend_from_slice(protocol(version));
        });
        line.quote(headers, &REFERER);
        line.quote(headers, &USER_AGENT);
        line
    }

    /// The line of a request of which no more than its first line, or a part of that, was read.
    pub fn refused(client: IpAddr, request_line: &[u8]) -> Self {
        let mut line = Self::start(client, None, |bytes| escape(bytes, request_line));
        line.bytes.extend_from_slice(br#" "-" "-""#);
        line
    }

    fn start(client: IpAddr, user: Option<&[u8]>, request: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut bytes = Vec::with_capacity(512);
        write_ip(&mut bytes, client);
        bytes.extend_from_slice(b" - ");
        match user {
            Some(user) if !user.is_empty() => escape(&mut bytes, user),
            _ => bytes.push(b'-'),
        }
        bytes.extend_from_slice(b" [");
        let time = bytes.len();
        bytes.extend_from_slice(&[b' '; clock::LENGTH]);
        bytes.extend_from_slice(b"] \"");
        request(&mut bytes);
        bytes.push(b'"');
        let status = bytes.len();
        Self { bytes, time, status }
    }

    fn quote(&mut self, headers: &impl Fields, name: &HeaderName) {
        self.bytes.extend_from_slice(b" \"");
        match headers.first(name) {
            Some(value) => escape(&mut self.bytes, value),
            None => self.bytes.push(b'-'),
        }
        self.bytes.push(b'"');
    }

    /// The whole line, its newline included.
    pub fn finish(mut self, tail: &Tail<'_>) -> Vec<u8> {
        self.bytes[self.time..self.time + clock::LENGTH].copy_from_slice(&clock::now());

        let mut number = itoa::Buffer::new();
        let mut result = [0; 48];
        let mut result_length = 0;
        for part in [" ", itoa::Buffer::new().format(tail.status), " ", number.format(tail.body_sent)] {
            result[result_length..result_length + part.len()].copy_from_slice(part.as_bytes());
            result_length += part.len();
        }
        let end = self.bytes.len();
        self.bytes.extend_from_slice(&result[..result_length]);
        self.bytes[self.status..].rotate_right(result_length);
        debug_assert_eq!(self.bytes.len(), end + result_length);

        let bytes = &mut self.bytes;
        bytes.push(b' ');
        bytes.extend_from_slice(number.format(tail.request_length).as_bytes());
        bytes.push(b' ');
        seconds(bytes, tail.request_time);
        bytes.extend_from_slice(b" [");
        bytes.extend_from_slice(tail.upstream.as_bytes());
        bytes.extend_from_slice(b"] [");
        bytes.extend_from_slice(tail.alternative.as_bytes());
        bytes.extend_from_slice(b"] ");
        list(bytes, tail.attempts, |bytes, one| write_address(bytes, one.address));
        list(bytes, tail.attempts, |bytes, one| {
            bytes.extend_from_slice(itoa::Buffer::new().format(one.length).as_bytes());
        });
        list(bytes, tail.attempts, |bytes, one| seconds(bytes, one.time));
        list(bytes, tail.attempts, |bytes, one| match one.status {
            Some(status) => bytes.extend_from_slice(itoa::Buffer::new().format(status).as_bytes()),
            None => bytes.push(b'-'),
        });
        match tail.request_id {
            [] => bytes.push(b'-'),
            id => escape(bytes, id),
        }
        bytes.push(b'\n');
        self.bytes
    }
}

/// The user of `Basic` credentials (RFC 7617 §2), whether or not anybody has checked them.
fn remote_user(headers: &impl Fields) -> Option<Vec<u8>> {
    let value = headers.first(&AUTHORIZATION)?;
    let (scheme, credentials) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let mut pair = STANDARD.decode(credentials.trim_ascii()).ok()?;
    let colon = pair.iter().position(|byte| *byte == b':')?;
    pair.truncate(colon);
    Some(pair)
}

fn protocol(version: Version) -> &'static [u8] {
    match version {
        Version::HTTP_09 => b"HTTP/0.9",
        Version::HTTP_10 => b"HTTP/1.0",
        Version::HTTP_2 => b"HTTP/2.0",
        Version::HTTP_3 => b"HTTP/3.0",
        _ => b"HTTP/1.1",
    }
}

/// nginx's default escaping: what could end a field or a line becomes `\xXX`.
fn escape(to: &mut Vec<u8>, text: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| !matches!(byte, 0x20..=0x7e) || b"\"\\".contains(byte)) {
        let byte = rest[at];
        to.extend_from_slice(&rest[..at]);
        to.extend_from_slice(&[b'\\', b'x', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        rest = &rest[at + 1..];
    }
    to.extend_from_slice(rest);
}

/// A name for between the brackets of a line. It is made of names of objects, which a folder of manifests does not
/// hold to any rule: what could end the brackets or the line becomes `\xXX`.
pub fn log_name(text: &str) -> String {
    let mut name = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' | b'[' | b']' => name.extend_from_slice(format!("\\x{byte:02X}").as_bytes()),
            _ => escape(&mut name, &[byte]),
        }
    }
    String::from_utf8(name).expect("what is escaped is ASCII")
}

fn seconds(to: &mut Vec<u8>, time: Duration) {
    let mut number = itoa::Buffer::new();
    to.extend_from_slice(number.format(time.as_secs()).as_bytes());
    let thousandths = number.format(1000 + time.subsec_millis());
    to.push(b'.');
    to.extend_from_slice(&thousandths.as_bytes()[1..]);
}

fn list(to: &mut Vec<u8>, attempts: &[UpstreamAttempt], print_one: impl Fn(&mut Vec<u8>, &UpstreamAttempt)) {
    if attempts.is_empty() {
        to.push(b'-');
    }
    for (position, one) in attempts.iter().enumerate() {
        if position > 0 {
            to.extend_from_slice(b", ");
        }
        print_one(to, one);
    }
    to.push(b' ');
}

/// An address as its `Display` has it; the common kind without the machinery of that.
fn write_ip(to: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(ip) => {
            for (index, byte) in ip.octets().into_iter().enumerate() {
                if index > 0 {
                    to.push(b'.');
                }
                to.extend_from_slice(itoa::Buffer::new().format(byte).as_bytes());
            }
        }
        // Writing to memory does not fail.
        IpAddr::V6(ip) => drop(write!(to, "{ip}")),
    }
}

fn write_address(to: &mut Vec<u8>, address: SocketAddr) {
    match address {
        SocketAddr::V4(address) => {
            write_ip(to, (*address.ip()).into());
            to.push(b':');
            to.extend_from_slice(itoa::Buffer::new().format(address.port()).as_bytes());
        }
        // Writing to memory does not fail.
        SocketAddr::V6(address) => drop(write!(to, "{address}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;

    fn without_time(line: Vec<u8>) -> String {
        let text = String::from_utf8(line).unwrap();
        let (start, rest) = text.split_once('[').unwrap();
        let (time, end) = rest.split_once(']').unwrap();
        assert_eq!(time.len(), clock::LENGTH);
        format!("{start}[T]{end}")
    }

    #[test]
    fn a_proxied_request() {
        let mut headers = HeaderMap::new();
        headers.insert("referer", "https://a.example/".parse().unwrap());
        headers.insert("user-agent", "curl/8.5 \"x\"".parse().unwrap());
        headers.insert("authorization", "Basic YWxpY2U6c2VjcmV0".parse().unwrap());
        let client = "192.0.2.7".parse().unwrap();
        let line = LogLine::request(client, &Method::GET, "/a?b=\\c", Version::HTTP_11, &headers);
        let attempts = [
            UpstreamAttempt {
                address: "10.0.0.1:80".parse().unwrap(),
                status: Some(502),
                length: 0,
                time: Duration::from_millis(1),
            },
            UpstreamAttempt {
                address: "[fd00::2]:80".parse().unwrap(),
                status: Some(200),
                length: 5,
                time: Duration::from_millis(1234),
            },
        ];
        let text = without_time(line.finish(&Tail {
            status: 200,
            body_sent: 5,
            request_length: 321,
            request_time: Duration::from_millis(1240),
            upstream: "shop-web-80",
            alternative: "",
            attempts: &attempts,
            request_id: b"0123456789abcdef0123456789abcdef",
        }));
        assert_eq!(
            text,
            "192.0.2.7 - alice [T] \"GET /a?b=\\x5Cc HTTP/1.1\" 200 5 \"https://a.example/\" \
             \"curl/8.5 \\x22x\\x22\" 321 1.240 [shop-web-80] [] 10.0.0.1:80, [fd00::2]:80 0, 5 \
             0.001, 1.234 502, 200 0123456789abcdef0123456789abcdef\n"
        );
    }

    #[test]
    fn a_name_cannot_end_its_brackets_or_the_line() {
        assert_eq!(log_name("shop-web-80"), "shop-web-80");
        assert_eq!(log_name("a] [\n\u{e4}"), "a\\x5D\\x20\\x5B\\x0A\\xC3\\xA4");
    }

    #[test]
    fn a_refused_request() {
        let line = LogLine::refused("2001:db8::1".parse().unwrap(), b"GET\x01 / HTTP/1.1");
        let text = without_time(line.finish(&Tail {
            status: 400,
            body_sent: 99,
            request_length: 17,
            request_time: Duration::ZERO,
            upstream: "",
            alternative: "",
            attempts: &[],
            request_id: b"",
        }));
        assert_eq!(
            text,
            "2001:db8::1 - - [T] \"GET\\x01 / HTTP/1.1\" 400 99 \"-\" \"-\" 17 0.000 [] [] - - - - -\n"
        );
    }

    #[test]
    fn credentials_that_are_none_leave_the_user_out() {
        for value in ["Bearer abc", "Basic", "Basic ???", "Basic bm9jb2xvbg=="] {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())]);
            assert_eq!(remote_user(&headers), None, "{value}");
        }
    }
}
