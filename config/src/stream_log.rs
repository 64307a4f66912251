//! The log of streams: text and variables with the names of nginx's stream module.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::access_log::LogOutput;

/// Settings of the log of streams, one line per stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StreamLog {
    /// Logs streams (`disable-access-log` and `disable-stream-access-log`, negated).
    pub enabled: bool,
    /// Parts of a line, in order (`log-format-stream`). Values are escaped as in nginx.
    pub format: Arc<[StreamLogPiece]>,
    /// Output of the log (`access-log-path`, `stream-access-log-path`, `enable-syslog`).
    pub output: LogOutput,
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StreamLogPiece {
    /// Literal text.
    Text(Arc<str>),
    /// A variable.
    Variable(StreamLogVariable),
}

macro_rules! variables {
    ($($name:ident: $($text:literal)|+ = $doc:literal;)*) => {
        /// A variable of the log of streams.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum StreamLogVariable {
            $(#[doc = $doc] $name,)*
        }

        impl StreamLogVariable {
            /// The variables with their descriptions.
            pub const NAMED: &'static [(&'static [&'static str], &'static str)] =
                &[$((&[$($text),+], $doc),)*];

            /// Returns the variable `name` (without `$`).
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($($text)|+ => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

variables! {
    BytesReceived: "bytes_received" = "Bytes from the client.";
    BytesSent: "bytes_sent" = "Bytes to the client.";
    Connection: "connection" = "The number of the connection.";
    Hostname: "hostname" = "The name of the machine; in Kubernetes, of the Pod.";
    Msec: "msec" = "The time in seconds since 1970, with milliseconds.";
    Pid: "pid" = "Number of the process.";
    Protocol: "protocol" = "`TCP` or `UDP`.";
    ProxyProtocolAddr: "proxy_protocol_addr" = "The client's address in the header of the PROXY protocol.";
    ProxyProtocolPort: "proxy_protocol_port" = "The client's port in that header.";
    ProxyUpstreamName: "proxy_upstream_name" = "`tcp-namespace-service-port`, or with `udp` or `tls`.";
    RealIpRemoteAddr: "realip_remote_addr" = "The address of the connection's peer.";
    RealIpRemotePort: "realip_remote_port" = "Its port.";
    RemoteAddr: "remote_addr" = "The client's address.";
    RemotePort: "remote_port" = "The client's port.";
    ServerAddr: "server_addr" = "The address that the client sent to.";
    ServerPort: "server_port" = "The port of the listener.";
    SessionTime: "session_time" = "Seconds from the first byte or datagram to the end.";
    SslPrereadServerName: "ssl_preread_server_name" = "The server name of a connection that is passed through (SNI).";
    Status: "status" = "`200`; `400` without a valid PROXY protocol header; `502` if no endpoint could be reached; \
                        `503` without endpoints.";
    TimeIso8601: "time_iso8601" = "The time as in `2026-11-22T06:26:37+00:00`.";
    TimeLocal: "time_local" = "The time as in `22/Nov/2026:06:26:37 +0000`.";
    UpstreamAddr: "upstream_addr" = "The endpoints, one for each attempt.";
    UpstreamBytesReceived: "upstream_bytes_received" = "Bytes from the endpoint.";
    UpstreamBytesSent: "upstream_bytes_sent" = "Bytes to the endpoint.";
    UpstreamConnectTime: "upstream_connect_time" = "Seconds until the endpoint was connected.";
}

impl StreamLog {
    /// The default format of ingress-nginx, byte for byte.
    pub const DEFAULT: &str =
        "[$remote_addr] [$time_local] $protocol $status $bytes_sent $bytes_received $session_time";
}

impl Default for StreamLog {
    fn default() -> Self {
        use StreamLogVariable as V;
        let pieces = [
            ("[", V::RemoteAddr),
            ("] [", V::TimeLocal),
            ("] ", V::Protocol),
            (" ", V::Status),
            (" ", V::BytesSent),
            (" ", V::BytesReceived),
            (" ", V::SessionTime),
        ];
        let pieces = pieces.into_iter().flat_map(|(before, variable)| {
            [StreamLogPiece::Text(before.into()), StreamLogPiece::Variable(variable)]
        });
        Self { enabled: true, format: pieces.collect(), output: LogOutput::Standard }
    }
}
