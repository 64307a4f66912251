//! Lines of the log of streams.

use std::net::SocketAddr;
use std::time::Duration;

use sluice_config::{LogEscape, StreamLogPiece, StreamLogVariable, TransportProtocol};

use crate::connection::info::ProxiedAddresses;
use crate::variable::escape::{self, escape};
use crate::variable::record_text::{number, seconds};
use crate::variable::{HOSTNAME, clock};

/// Everything that the log format can print about a finished stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamRecord<'a> {
    /// `$connection`.
    pub(crate) number: u64,
    /// `$protocol`.
    pub(crate) transport: TransportProtocol,
    /// `$realip_remote_addr` and `$realip_remote_port`.
    pub(crate) peer: SocketAddr,
    /// `$proxy_protocol_*`; its source is the client.
    pub(crate) proxied: Option<&'a ProxiedAddresses>,
    /// `$server_addr` and `$server_port`.
    pub(crate) server: Option<SocketAddr>,
    /// `$ssl_preread_server_name`.
    pub(crate) server_name: Option<&'a str>,
    /// `$proxy_upstream_name`.
    pub(crate) upstream: &'a str,
    /// `$status`.
    pub(crate) status: u16,
    /// `$bytes_received`.
    pub(crate) received: u64,
    /// `$bytes_sent`.
    pub(crate) sent: u64,
    /// `$upstream_bytes_sent`.
    pub(crate) upstream_sent: u64,
    /// `$upstream_bytes_received`.
    pub(crate) upstream_received: u64,
    /// `$session_time`.
    pub(crate) time: Duration,
    /// `$upstream_addr`.
    pub(crate) attempts: &'a [SocketAddr],
    /// `$upstream_connect_time`.
    pub(crate) connect: Option<Duration>,
}

impl StreamRecord<'_> {
    /// Writes a line, its newline included. Missing values are `-`, as in nginx.
    pub(super) fn write_line(&self, format: &[StreamLogPiece], out: &mut Vec<u8>) {
        for piece in format {
            match piece {
                StreamLogPiece::Text(text) => out.extend_from_slice(text.as_bytes()),
                StreamLogPiece::Variable(variable) => {
                    if self.write(*variable, out).is_none() {
                        out.push(b'-');
                    }
                }
            }
        }
        out.push(b'\n');
    }

    fn write(&self, variable: StreamLogVariable, out: &mut Vec<u8>) -> Option<()> {
        let client = self.proxied.map_or(self.peer, |proxied| proxied.source);
        let ip = |out: &mut Vec<u8>, address: SocketAddr| escape::ip(out, address.ip().to_canonical());
        match variable {
            StreamLogVariable::BytesReceived => number(out, self.received),
            StreamLogVariable::BytesSent => number(out, self.sent),
            StreamLogVariable::Connection => number(out, self.number),
            StreamLogVariable::Hostname => out.extend_from_slice(HOSTNAME.as_bytes()),
            StreamLogVariable::Msec => seconds(out, clock::since_1970()),
            StreamLogVariable::Pid => number(out, std::process::id().into()),
            StreamLogVariable::Protocol => out.extend_from_slice(match self.transport {
                TransportProtocol::Tcp => b"TCP",
                TransportProtocol::Udp => b"UDP",
            }),
            StreamLogVariable::ProxyProtocolAddr => ip(out, self.proxied?.source),
            StreamLogVariable::ProxyProtocolPort => number(out, self.proxied?.source.port().into()),
            StreamLogVariable::ProxyUpstreamName => out.extend_from_slice(self.upstream.as_bytes()),
            StreamLogVariable::RealIpRemoteAddr => ip(out, self.peer),
            StreamLogVariable::RealIpRemotePort => number(out, self.peer.port().into()),
            StreamLogVariable::RemoteAddr => ip(out, client),
            StreamLogVariable::RemotePort => number(out, client.port().into()),
            StreamLogVariable::ServerAddr => ip(out, self.server?),
            StreamLogVariable::ServerPort => number(out, self.server?.port().into()),
            StreamLogVariable::SessionTime => seconds(out, self.time),
            StreamLogVariable::SslPrereadServerName => {
                escape(LogEscape::Hex, self.server_name?.as_bytes(), out);
            }
            StreamLogVariable::Status => number(out, self.status.into()),
            StreamLogVariable::TimeIso8601 => out.extend_from_slice(&clock::now().iso8601),
            StreamLogVariable::TimeLocal => out.extend_from_slice(&clock::now().local),
            StreamLogVariable::UpstreamAddr => {
                for (position, address) in self.attempts.iter().enumerate() {
                    if position > 0 {
                        out.extend_from_slice(b", ");
                    }
                    escape::address(out, *address);
                }
                return (!self.attempts.is_empty()).then_some(());
            }
            StreamLogVariable::UpstreamBytesReceived => number(out, self.upstream_received),
            StreamLogVariable::UpstreamBytesSent => number(out, self.upstream_sent),
            StreamLogVariable::UpstreamConnectTime => seconds(out, self.connect?),
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::StreamLog;

    use super::*;

    fn record() -> StreamRecord<'static> {
        StreamRecord {
            number: 7,
            transport: TransportProtocol::Tcp,
            peer: ([127, 0, 0, 1], 4711).into(),
            proxied: None,
            server: Some(([10, 0, 0, 1], 5432).into()),
            server_name: None,
            upstream: "tcp-shop-db-5432",
            status: 200,
            received: 12,
            sent: 3456,
            upstream_sent: 12,
            upstream_received: 3456,
            time: Duration::from_millis(1250),
            attempts: &[],
            connect: None,
        }
    }

    fn line(record: &StreamRecord<'_>, format: &[StreamLogPiece]) -> String {
        let mut out = Vec::new();
        record.write_line(format, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_default_line_is_that_of_the_reference() {
        let line = line(&record(), &StreamLog::default().format);
        let (before, rest) = line.split_once("] [").unwrap();
        assert_eq!(before, "[127.0.0.1");
        assert_eq!(rest.split_once("] ").unwrap().1, "TCP 200 3456 12 1.250\n");
    }

    #[test]
    fn missing_values_are_dashes_and_names_cannot_forge_a_line() {
        use StreamLogVariable as V;
        let variables =
            [V::UpstreamAddr, V::SslPrereadServerName, V::ProxyProtocolAddr, V::UpstreamConnectTime];
        let format: Vec<_> = variables
            .into_iter()
            .flat_map(|variable| [StreamLogPiece::Variable(variable), StreamLogPiece::Text(" ".into())])
            .collect();
        assert_eq!(line(&record(), &format), "- - - - \n");
        let attempts = [([10, 0, 0, 2], 1).into(), ([10, 0, 0, 3], 1).into()];
        let proxied = ProxiedAddresses {
            source: ([192, 0, 2, 1], 99).into(),
            destination: ([192, 0, 2, 2], 443).into(),
        };
        let full = StreamRecord {
            attempts: &attempts,
            server_name: Some("a\n\"b"),
            proxied: Some(&proxied),
            connect: Some(Duration::from_millis(3)),
            ..record()
        };
        assert_eq!(line(&full, &format), "10.0.0.2:1, 10.0.0.3:1 a\\x0A\\x22b 192.0.2.1 0.003 \n");
        let client = [StreamLogPiece::Variable(V::RemoteAddr), StreamLogPiece::Variable(V::RealIpRemoteAddr)];
        assert_eq!(line(&full, &client), "192.0.2.1127.0.0.1\n");
    }
}
