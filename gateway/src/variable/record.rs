//! Data of a request, and the values of the variables that come from it.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use http::{Method, Version};
use sluice_config::{LogEscape, Origin, ServiceRef, Variable};

use super::clock;
use super::escape::{self, escape};
use super::record_text::{number, seconds};
use crate::cache::CacheStatus;
use crate::connection::info::ConnectionInfo;
use crate::location::Locations;
use crate::otel::TraceContext;
use crate::router::host_of;
use crate::tls::{ClientIdentity, PresentedCertificate};

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

/// What is known of a request besides its head. Before its end, a part of it is not known yet.
#[derive(Clone, Copy, Debug)]
pub struct RequestRecord<'a> {
    /// The client connection.
    pub connection: &'a ConnectionInfo,
    /// `$remote_addr`.
    pub client: IpAddr,
    /// `$connection_requests`.
    pub requests: u32,
    /// `$request_method`; `None` if no head could be read.
    pub method: Option<&'a Method>,
    /// `$server_protocol`.
    pub version: Version,
    /// Host and port of the request.
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
    /// `$upstream_cache_status`; `None` if the rule has no cache.
    pub cache_status: Option<CacheStatus>,
    /// `$req_id`.
    pub request_id: &'a [u8],
    /// The rule that matched.
    pub origin: Option<&'a Origin>,
    /// `$server_name`.
    pub server_name: &'a str,
    /// The Service of the rule.
    pub service: Option<&'a ServiceRef>,
    /// GeoIP2 databases; `None` for connections without a request.
    pub locations: Option<&'a Locations>,
    /// The client, as far as its certificate proves it, where one was asked for.
    pub client_identity: Option<ClientIdentity<'a>>,
    /// The trace, if the request is traced.
    pub(crate) trace: Option<&'a TraceContext>,
}

impl<'a> RequestRecord<'a> {
    /// Returns the record of a request of which only the connection is known.
    pub fn at_start(connection: &'a ConnectionInfo) -> Self {
        Self {
            connection,
            client: connection.nearest(),
            requests: 0,
            method: None,
            version: Version::HTTP_11,
            authority: "",
            status: 0,
            body_sent: 0,
            bytes_sent: 0,
            request_length: 0,
            request_time: Duration::ZERO,
            is_whole: false,
            upstream: "",
            alternative: "",
            attempts: &[],
            cache_status: None,
            request_id: b"",
            origin: None,
            server_name: "_",
            service: None,
            locations: None,
            client_identity: None,
            trace: None,
        }
    }

    /// Appends a value; `None` if there is none.
    pub(crate) fn write(&self, variable: &Variable, mode: LogEscape, out: &mut Vec<u8>) -> Option<()> {
        let tls = || self.connection.tls.as_ref();
        let proxied = || self.connection.proxied.as_deref();
        let origin = |part: fn(&Origin) -> &str| self.origin.map_or("", part);
        match variable {
            Variable::BodyBytesSent => number(out, self.body_sent),
            Variable::BytesSent => number(out, self.bytes_sent),
            Variable::Connection => number(out, self.connection.number),
            Variable::ConnectionRequests => number(out, self.requests.into()),
            Variable::ConnectionTime => seconds(out, self.connection.opened.elapsed()),
            Variable::Host => escape(mode, host_of(self.authority).as_bytes(), out),
            Variable::Http2 => out.extend_from_slice(match (self.version, tls()) {
                (Version::HTTP_2, Some(_)) => b"h2",
                (Version::HTTP_2, None) => b"h2c",
                _ => b"",
            }),
            Variable::Https => out.extend_from_slice(tls().map_or(b"", |_| b"on")),
            Variable::IngressName => escape(mode, origin(|it| &it.object.name.name).as_bytes(), out),
            Variable::LocationPath => escape(mode, origin(|it| &it.path).as_bytes(), out),
            Variable::Location(variable) => {
                return self.locations?.with_value(*variable, self.client, |value| escape(mode, value, out));
            }
            Variable::Msec => {
                let now = clock::since_1970();
                seconds(out, now);
            }
            Variable::Namespace => escape(mode, origin(|it| &it.object.name.namespace).as_bytes(), out),
            Variable::OpentelemetryContextTraceparent => {
                let trace = self.trace?;
                out.extend_from_slice(&trace.traceparent(trace.span));
            }
            Variable::OpentelemetrySampled => out.push(if self.trace?.is_sampled { b'1' } else { b'0' }),
            Variable::OpentelemetrySpanId => out.extend_from_slice(&self.trace?.span.digits()),
            Variable::OpentelemetryTraceId => out.extend_from_slice(&self.trace?.trace.digits()),
            Variable::Pipe => out.push(b'.'),
            Variable::SslEarlyData => match self.connection.may_be_replayed() {
                true => out.push(b'1'),
                false => return None,
            },
            Variable::SslSessionReused => out.push(if tls()?.resumed { b'r' } else { b'.' }),
            Variable::ProxyAlternativeUpstreamName => name(mode, self.alternative, out),
            Variable::ProxyProtocolAddr => escape::ip(out, proxied()?.source.ip().to_canonical()),
            Variable::ProxyProtocolPort => number(out, proxied()?.source.port().into()),
            Variable::ProxyProtocolServerAddr => {
                escape::ip(out, proxied()?.destination.ip().to_canonical());
            }
            Variable::ProxyProtocolServerPort => number(out, proxied()?.destination.port().into()),
            Variable::ProxyUpstreamName => name(mode, self.upstream, out),
            Variable::RealIpRemoteAddr => escape::ip(out, self.connection.peer.ip().to_canonical()),
            Variable::RealIpRemotePort => number(out, self.connection.peer.port().into()),
            // The common case: the connection holds the address as text.
            Variable::RemoteAddr if self.client == self.connection.nearest() => {
                out.extend_from_slice(self.connection.texts.nearest.as_bytes());
            }
            Variable::RemoteAddr => escape::ip(out, self.client),
            Variable::RequestId => match self.request_id {
                [] => return None,
                id => escape(mode, id, out),
            },
            Variable::RequestCompletion => {
                out.extend_from_slice(if self.is_whole { b"OK" } else { b"" });
            }
            Variable::RequestLength => number(out, self.request_length),
            Variable::RequestMethod => escape(mode, self.method?.as_str().as_bytes(), out),
            Variable::RequestTime => seconds(out, self.request_time),
            Variable::Scheme => out.extend_from_slice(self.connection.scheme().as_bytes()),
            Variable::ServerName => escape(mode, self.server_name.as_bytes(), out),
            Variable::ServerPort => out.extend_from_slice(self.connection.texts.port.as_bytes()),
            Variable::ServerProtocol => {
                self.method?;
                out.extend_from_slice(protocol(self.version));
            }
            Variable::ServiceName => {
                escape(mode, self.service.map_or("", |service| &service.name).as_bytes(), out);
            }
            Variable::ServicePort => {
                escape(mode, self.service.map_or("", |service| &service.port).as_bytes(), out);
            }
            Variable::SslAlpnProtocol => out.extend_from_slice(tls()?.alpn.as_bytes()),
            Variable::SslCipher => out.extend_from_slice(tls()?.cipher.as_bytes()),
            Variable::SslClientVerify => {
                tls()?;
                let identity = self.client_identity.unwrap_or_default();
                escape(mode, identity.verify().as_bytes(), out);
            }
            Variable::SslClientCert
            | Variable::SslClientEscapedCert
            | Variable::SslClientRawCert
            | Variable::SslClientFingerprint
            | Variable::SslClientIssuer
            | Variable::SslClientSubject
            | Variable::SslClientSerial
            | Variable::SslClientValidFrom
            | Variable::SslClientValidUntil
            | Variable::SslClientDaysLeft => {
                let presented = self.client_identity?.presented()?;
                client_certificate(presented, variable, mode, out);
            }
            Variable::SslProtocol => out.extend_from_slice(tls()?.version.as_bytes()),
            Variable::SslServerName => escape(mode, tls()?.server_name.as_deref()?.as_bytes(), out),
            Variable::Status => number(out, self.status.into()),
            Variable::TimeIso8601 => out.extend_from_slice(&clock::now().iso8601),
            Variable::TimeLocal => out.extend_from_slice(&clock::now().local),
            Variable::UpstreamAddr => return self.list(out, |out, one| escape::address(out, one.address)),
            Variable::UpstreamCacheStatus => out.extend_from_slice(self.cache_status?.as_str().as_bytes()),
            Variable::UpstreamConnectTime => return self.list(out, |out, one| maybe(out, one.connect)),
            Variable::UpstreamHeaderTime => return self.list(out, |out, one| maybe(out, one.header)),
            Variable::UpstreamResponseLength => return self.list(out, |out, one| number(out, one.length)),
            Variable::UpstreamResponseTime => return self.list(out, |out, one| seconds(out, one.time)),
            Variable::UpstreamStatus => {
                return self.list(out, |out, one| match one.status {
                    Some(status) => number(out, status.into()),
                    None => out.push(b'-'),
                });
            }
            // The other variables are not part of the record; `CompiledVariable` handles them.
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

/// One of the variables about a client's certificate.
fn client_certificate(
    presented: &PresentedCertificate,
    variable: &Variable,
    mode: LogEscape,
    out: &mut Vec<u8>,
) {
    let text = presented.text();
    match variable {
        Variable::SslClientCert => {
            // As nginx has it, so that it can be a folded field value.
            let pem = presented.pem();
            escape(mode, pem.trim_end().replace('\n', "\n\t").as_bytes(), out);
        }
        Variable::SslClientEscapedCert => escape(mode, presented.escaped().as_bytes(), out),
        Variable::SslClientRawCert => escape(mode, presented.pem().as_bytes(), out),
        Variable::SslClientFingerprint => escape(mode, text.fingerprint.as_bytes(), out),
        Variable::SslClientIssuer => escape(mode, text.issuer.as_bytes(), out),
        Variable::SslClientSubject => escape(mode, text.subject.as_bytes(), out),
        Variable::SslClientSerial => escape(mode, text.serial.as_bytes(), out),
        Variable::SslClientValidFrom => escape(mode, text.valid_from.as_bytes(), out),
        Variable::SslClientValidUntil => escape(mode, text.valid_until.as_bytes(), out),
        Variable::SslClientDaysLeft => number(out, presented.days_left()),
        _ => {}
    }
}

/// Appends a name that [`log_name`](escape::log_name) has escaped.
fn name(mode: LogEscape, name: &str, out: &mut Vec<u8>) {
    match mode {
        LogEscape::Json => escape(mode, name.as_bytes(), out),
        LogEscape::Hex | LogEscape::None => out.extend_from_slice(name.as_bytes()),
    }
}

fn maybe(out: &mut Vec<u8>, time: Option<Duration>) {
    match time {
        Some(time) => seconds(out, time),
        None => out.push(b'-'),
    }
}

pub(super) fn protocol(version: Version) -> &'static [u8] {
    match version {
        Version::HTTP_09 => b"HTTP/0.9",
        Version::HTTP_10 => b"HTTP/1.0",
        Version::HTTP_2 => b"HTTP/2.0",
        Version::HTTP_3 => b"HTTP/3.0",
        _ => b"HTTP/1.1",
    }
}
