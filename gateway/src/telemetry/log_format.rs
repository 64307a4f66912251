//! What a line of the access log says, compiled: made once for each change of the format, written once for each request
//! into the buffer that goes to the log.
//!
//! The head of a request is gone when the request ends. So the values that the format wants of it are put away when it
//! begins ([`LogLine`]), escaped as they will be written; everything else is known at the end ([`Facts`]). No value of a
//! request is ever turned into text that is not written.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderName};
use http::{Method, Version};
use sluice_config::{LogEscape, LogPiece, LogVariable, Origin, ServiceRef};
use smallvec::SmallVec;

use super::clock;
use super::escape::{self, escape};
use crate::connection_info::ConnectionInfo;
use crate::message::fields::Fields;
use crate::message::parts;
use crate::message::request_head::RequestHead;
use crate::router::host_of;

/// A format, compiled.
#[derive(Debug)]
pub struct LogFormat {
    pieces: Box<[Piece]>,
    escape: LogEscape,
    wants_response: bool,
}

#[derive(Debug)]
enum Piece {
    Text(Box<[u8]>),
    /// Put away when the request begins.
    Head(HeadValue),
    /// Put away when the response has come.
    Upstream(HeaderName),
    /// Put away when the response goes.
    Sent(HeaderName),
    /// Known at the end.
    Fact(LogVariable),
}

/// What the head of a request says.
#[derive(Debug)]
enum HeadValue {
    Args,
    IsArgs,
    PassAccessScheme,
    RemoteUser,
    Request,
    RequestUri,
    Uri,
    Field(HeaderName),
    Cookie(Box<str>),
    Argument(Box<str>),
}

/// What is put away for the line of a request.
#[derive(Debug, Default)]
pub struct LogLine {
    head: Values,
    response: Option<Box<ResponseValues>>,
}

#[derive(Debug, Default)]
struct ResponseValues {
    upstream: Values,
    sent: Values,
}

/// Values one behind the other, in the order of the format.
#[derive(Debug, Default)]
struct Values {
    bytes: Vec<u8>,
    /// Where each ends, and whether there is none.
    ends: SmallVec<[(u32, bool); 4]>,
}

/// The head of a request, as the log looks at it.
#[derive(Clone, Copy, Debug)]
pub struct LoggedHead<'a, F> {
    /// The head.
    pub head: &'a RequestHead<'a, F>,
    /// Its path, normalised, where it has one.
    pub path: Option<&'a str>,
    /// The scheme that the client used, as far as that is believed.
    pub access_scheme: &'a [u8],
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
    /// `$upstream_connect_time`.
    pub connect: Option<Duration>,
    /// `$upstream_header_time`.
    pub header: Option<Duration>,
}

/// What is known when the request has ended.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The connection that it came on.
    pub connection: &'a ConnectionInfo,
    /// `$remote_addr`.
    pub client: IpAddr,
    /// `$connection_requests`.
    pub requests: u32,
    /// `$request_method`; `None` where no head could be read.
    pub method: Option<&'a Method>,
    /// `$server_protocol`.
    pub version: Version,
    /// Host and port that the request was for.
    pub authority: &'a str,
    /// `$status`.
    pub status: u16,
    /// `$body_bytes_sent`.
    pub body_sent: u64,
    /// `$bytes_sent`.
    pub bytes_sent: u64,
    /// `$request_length`.
    pub request_length: u64,
    /// `$request_time`.
    pub request_time: Duration,
    /// `$request_completion`.
    pub is_whole: bool,
    /// `$proxy_upstream_name`.
    pub upstream: &'a str,
    /// `$proxy_alternative_upstream_name`.
    pub alternative: &'a str,
    /// The attempts, in order.
    pub attempts: &'a [UpstreamAttempt],
    /// `$req_id`.
    pub request_id: &'a [u8],
    /// The rule.
    pub origin: Option<&'a Origin>,
    /// `$server_name`.
    pub server_name: &'a str,
    /// The Service that the request was for.
    pub service: Option<&'a ServiceRef>,
}

impl LogFormat {
    /// Compiles a format.
    pub fn compile(format: &sluice_config::LogFormat) -> Self {
        let pieces: Box<[Piece]> = format.pieces.iter().filter_map(Piece::compile).collect();
        let of_response = |piece: &Piece| matches!(piece, Piece::Upstream(_) | Piece::Sent(_));
        Self { wants_response: pieces.iter().any(of_response), pieces, escape: format.escape }
    }

    /// Whether it says anything of response heads, which its lines are to be shown then.
    pub fn wants_response(&self) -> bool {
        self.wants_response
    }

    /// Begins the line of a request that was read.
    pub fn request<F: Fields>(&self, logged: &LoggedHead<'_, F>) -> LogLine {
        let mut line = LogLine::default();
        for piece in &self.pieces {
            if let Piece::Head(value) = piece {
                line.head.put(|out| value.write(logged, self.escape, out));
            }
        }
        line
    }

    /// Begins the line of a request of which no more than its first line, or a part of that, was read.
    pub fn refused(&self, request_line: &[u8]) -> LogLine {
        let mut line = LogLine::default();
        for piece in &self.pieces {
            match piece {
                Piece::Head(HeadValue::Request) => line.head.put(|out| {
                    escape(self.escape, request_line, out);
                    Some(())
                }),
                Piece::Head(_) => line.head.put(|_| None),
                _ => {}
            }
        }
        line
    }

    /// Puts away what the format wants of a response as its endpoint has sent it.
    pub fn upstream(&self, line: &mut LogLine, fields: &impl Fields) {
        let values = &mut line.response.get_or_insert_default().upstream;
        values.clear();
        for piece in &self.pieces {
            if let Piece::Upstream(name) = piece {
                values.put(|out| field(fields, name, self.escape, out));
            }
        }
    }

    /// Puts away what it wants of a response as the client gets it.
    pub fn sent(&self, line: &mut LogLine, fields: &impl Fields) {
        let values = &mut line.response.get_or_insert_default().sent;
        values.clear();
        for piece in &self.pieces {
            if let Piece::Sent(name) = piece {
                values.put(|out| field(fields, name, self.escape, out));
            }
        }
    }

    /// Writes a line, its newline included.
    pub fn write(&self, line: &LogLine, facts: &Facts<'_>, out: &mut Vec<u8>) {
        let (mut head, mut upstream, mut sent) = (0, 0, 0);
        let response = line.response.as_deref();
        for piece in &self.pieces {
            let written = match piece {
                Piece::Text(text) => {
                    out.extend_from_slice(text);
                    continue;
                }
                Piece::Head(_) => line.head.write(&mut head, out),
                Piece::Upstream(_) => response.and_then(|values| values.upstream.write(&mut upstream, out)),
                Piece::Sent(_) => response.and_then(|values| values.sent.write(&mut sent, out)),
                Piece::Fact(variable) => facts.write(variable, self.escape, out),
            };
            if written.is_none() && self.escape == LogEscape::Hex {
                out.push(b'-');
            }
        }
        out.push(b'\n');
    }
}

impl Default for LogFormat {
    fn default() -> Self {
        Self::compile(&sluice_config::LogFormat::default())
    }
}

impl Piece {
    /// `None` for what is always empty.
    fn compile(piece: &LogPiece) -> Option<Self> {
        // Translation passes on whatever has a prefix of fields: what is no name of one has no value.
        let name = |text: &str| text.parse().unwrap_or(HeaderName::from_static("x-none"));
        let text = |text: &str| Self::Text(text.as_bytes().into());
        let variable = match piece {
            LogPiece::Text(piece) => return Some(text(piece)),
            LogPiece::Variable(variable) => variable,
        };
        Some(match variable {
            LogVariable::Args => Self::Head(HeadValue::Args),
            LogVariable::IsArgs => Self::Head(HeadValue::IsArgs),
            LogVariable::PassAccessScheme => Self::Head(HeadValue::PassAccessScheme),
            LogVariable::RemoteUser => Self::Head(HeadValue::RemoteUser),
            LogVariable::Request => Self::Head(HeadValue::Request),
            LogVariable::RequestUri => Self::Head(HeadValue::RequestUri),
            LogVariable::Uri => Self::Head(HeadValue::Uri),
            LogVariable::Field(field) => Self::Head(HeadValue::Field(name(field))),
            LogVariable::Cookie(cookie) => Self::Head(HeadValue::Cookie((**cookie).into())),
            LogVariable::Argument(argument) => Self::Head(HeadValue::Argument((**argument).into())),
            LogVariable::UpstreamField(field) => Self::Upstream(name(field)),
            LogVariable::SentField(field) => Self::Sent(name(field)),
            LogVariable::Pid => text(&std::process::id().to_string()),
            LogVariable::Hostname => text(&hostname()),
            variable => Self::Fact(variable.clone()),
        })
    }
}

/// The name of this machine, as far as it has one.
pub(super) fn hostname() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
}

impl HeadValue {
    /// Writes it; `None` where there is none.
    fn write<F: Fields>(&self, logged: &LoggedHead<'_, F>, mode: LogEscape, out: &mut Vec<u8>) -> Option<()> {
        let LoggedHead { head, path, access_scheme } = logged;
        let query = || head.target.split_once('?').map(|(_, query)| query);
        match self {
            Self::Args => escape(mode, query()?.as_bytes(), out),
            Self::IsArgs => out.extend_from_slice(query().map_or(b"", |_| b"?")),
            Self::PassAccessScheme => escape(mode, access_scheme, out),
            Self::RemoteUser => {
                escape(mode, &remote_user(head.headers).filter(|user| !user.is_empty())?, out)
            }
            Self::Request => {
                escape(mode, head.method.as_str().as_bytes(), out);
                out.push(b' ');
                escape(mode, head.target.as_bytes(), out);
                out.push(b' ');
                out.extend_from_slice(protocol(head.version));
            }
            Self::RequestUri => escape(mode, head.target.as_bytes(), out),
            Self::Uri => escape(mode, (*path)?.as_bytes(), out),
            Self::Field(name) => return field(head.headers, name, mode, out),
            Self::Cookie(name) => escape(mode, parts::cookie(head.headers, name)?, out),
            Self::Argument(name) => escape(mode, parts::argument(query()?, name)?.as_bytes(), out),
        }
        Some(())
    }
}

fn field(fields: &impl Fields, name: &HeaderName, mode: LogEscape, out: &mut Vec<u8>) -> Option<()> {
    let mut lines = fields.lines(name);
    escape(mode, lines.next()?, out);
    for line in lines {
        out.extend_from_slice(b", ");
        escape(mode, line, out);
    }
    Some(())
}

impl Values {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn put(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Option<()>) {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(256);
        }
        let is_there = write(&mut self.bytes).is_some();
        // A head is far smaller than 4 GiB.
        self.ends.push((u32::try_from(self.bytes.len()).unwrap_or(u32::MAX), is_there));
    }

    /// Writes the next one.
    fn write(&self, next: &mut usize, out: &mut Vec<u8>) -> Option<()> {
        let start = next.checked_sub(1).map_or(0, |before| self.ends[before].0);
        let (end, is_there) = *self.ends.get(*next)?;
        *next += 1;
        out.extend_from_slice(self.bytes.get(start as usize..end as usize)?);
        is_there.then_some(())
    }
}

impl Facts<'_> {
    /// Writes one of them; `None` where there is none.
    fn write(&self, variable: &LogVariable, mode: LogEscape, out: &mut Vec<u8>) -> Option<()> {
        let tls = || self.connection.tls.as_ref();
        let proxied = || self.connection.proxied.as_deref();
        let origin = |part: fn(&Origin) -> &str| self.origin.map_or("", part);
        match variable {
            LogVariable::BodyBytesSent => number(out, self.body_sent),
            LogVariable::BytesSent => number(out, self.bytes_sent),
            LogVariable::Connection => number(out, self.connection.number),
            LogVariable::ConnectionRequests => number(out, self.requests.into()),
            LogVariable::ConnectionTime => seconds(out, self.connection.opened.elapsed()),
            LogVariable::Host => escape(mode, host_of(self.authority).as_bytes(), out),
            LogVariable::Http2 => out.extend_from_slice(match (self.version, tls()) {
                (Version::HTTP_2, Some(_)) => b"h2",
                (Version::HTTP_2, None) => b"h2c",
                _ => b"",
            }),
            LogVariable::Https => out.extend_from_slice(tls().map_or(b"", |_| b"on")),
            LogVariable::IngressName => escape(mode, origin(|it| &it.object.name.name).as_bytes(), out),
            LogVariable::LocationPath => escape(mode, origin(|it| &it.path).as_bytes(), out),
            LogVariable::Msec => {
                let now = clock::since_1970();
                seconds(out, now);
            }
            LogVariable::Namespace => escape(mode, origin(|it| &it.object.name.namespace).as_bytes(), out),
            LogVariable::Pipe | LogVariable::SslSessionReused => {
                if *variable == LogVariable::SslSessionReused {
                    tls()?;
                }
                out.push(b'.');
            }
            LogVariable::ProxyAlternativeUpstreamName => name(mode, self.alternative, out),
            LogVariable::ProxyProtocolAddr => escape::ip(out, proxied()?.source.ip().to_canonical()),
            LogVariable::ProxyProtocolPort => number(out, proxied()?.source.port().into()),
            LogVariable::ProxyProtocolServerAddr => {
                escape::ip(out, proxied()?.destination.ip().to_canonical());
            }
            LogVariable::ProxyProtocolServerPort => number(out, proxied()?.destination.port().into()),
            LogVariable::ProxyUpstreamName => name(mode, self.upstream, out),
            LogVariable::RealIpRemoteAddr => escape::ip(out, self.connection.peer.ip().to_canonical()),
            LogVariable::RealIpRemotePort => number(out, self.connection.peer.port().into()),
            LogVariable::RemoteAddr => escape::ip(out, self.client),
            LogVariable::RequestId => match self.request_id {
                [] => return None,
                id => escape(mode, id, out),
            },
            LogVariable::RequestCompletion => {
                out.extend_from_slice(if self.is_whole { b"OK" } else { b"" });
            }
            LogVariable::RequestLength => number(out, self.request_length),
            LogVariable::RequestMethod => escape(mode, self.method?.as_str().as_bytes(), out),
            LogVariable::RequestTime => seconds(out, self.request_time),
            LogVariable::Scheme => out.extend_from_slice(self.connection.scheme().as_bytes()),
            LogVariable::ServerName => escape(mode, self.server_name.as_bytes(), out),
            LogVariable::ServerPort => out.extend_from_slice(self.connection.texts.port.as_bytes()),
            LogVariable::ServerProtocol => {
                self.method?;
                out.extend_from_slice(protocol(self.version));
            }
            LogVariable::ServiceName => {
                escape(mode, self.service.map_or("", |service| &service.name).as_bytes(), out);
            }
            LogVariable::ServicePort => {
                escape(mode, self.service.map_or("", |service| &service.port).as_bytes(), out);
            }
            LogVariable::SslAlpnProtocol => out.extend_from_slice(tls()?.alpn.as_bytes()),
            LogVariable::SslCipher => out.extend_from_slice(tls()?.cipher.as_bytes()),
            LogVariable::SslClientVerify => {
                tls()?;
                out.extend_from_slice(b"NONE");
            }
            LogVariable::SslProtocol => out.extend_from_slice(tls()?.version.as_bytes()),
            LogVariable::SslServerName => escape(mode, tls()?.server_name.as_deref()?.as_bytes(), out),
            LogVariable::Status => number(out, self.status.into()),
            LogVariable::TimeIso8601 => out.extend_from_slice(&clock::now().iso8601),
            LogVariable::TimeLocal => out.extend_from_slice(&clock::now().local),
            LogVariable::UpstreamAddr => return self.list(out, |out, one| escape::address(out, one.address)),
            LogVariable::UpstreamConnectTime => return self.list(out, |out, one| maybe(out, one.connect)),
            LogVariable::UpstreamHeaderTime => return self.list(out, |out, one| maybe(out, one.header)),
            LogVariable::UpstreamResponseLength => return self.list(out, |out, one| number(out, one.length)),
            LogVariable::UpstreamResponseTime => return self.list(out, |out, one| seconds(out, one.time)),
            LogVariable::UpstreamStatus => {
                return self.list(out, |out, one| match one.status {
                    Some(status) => number(out, status.into()),
                    None => out.push(b'-'),
                });
            }
            // The others are no facts: `Piece::compile` has them.
            _ => return None,
        }
        Some(())
    }

    fn list(&self, out: &mut Vec<u8>, write: impl Fn(&mut Vec<u8>, &UpstreamAttempt)) -> Option<()> {
        for (position, one) in self.attempts.iter().enumerate() {
            if position > 0 {
                out.extend_from_slice(b", ");
            }
            write(out, one);
        }
        (!self.attempts.is_empty()).then_some(())
    }
}

/// A name that [`log_name`](super::log_name) has made.
fn name(mode: LogEscape, name: &str, out: &mut Vec<u8>) {
    match mode {
        LogEscape::Json => escape(mode, name.as_bytes(), out),
        LogEscape::Hex | LogEscape::None => out.extend_from_slice(name.as_bytes()),
    }
}

fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn maybe(out: &mut Vec<u8>, time: Option<Duration>) {
    match time {
        Some(time) => seconds(out, time),
        None => out.push(b'-'),
    }
}

fn seconds(out: &mut Vec<u8>, time: Duration) {
    let mut buffer = itoa::Buffer::new();
    out.extend_from_slice(buffer.format(time.as_secs()).as_bytes());
    let thousandths = buffer.format(1000 + time.subsec_millis());
    out.push(b'.');
    out.extend_from_slice(&thousandths.as_bytes()[1..]);
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

#[cfg(test)]
mod tests;
