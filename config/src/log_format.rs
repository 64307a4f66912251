//! The format of access log lines: text and variables with nginx's names.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The format of the access log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogFormat {
    /// Parts of a line, in order.
    pub pieces: Arc<[LogPiece]>,
    /// Escaping of values.
    pub escape: LogEscape,
}

/// A part of an access log line.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LogPiece {
    /// Literal text.
    Text(Arc<str>),
    /// A variable.
    Variable(LogVariable),
}

/// Escaping of variable values, which prevents forged lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LogEscape {
    /// nginx's default: quotes, backslashes and bytes that are not printable ASCII as `\xXX`; `-`
    /// if empty.
    #[default]
    Hex,
    /// Escapes of JSON strings; nothing if empty.
    Json,
    /// No escaping.
    None,
}

/// Variables whose names contain the name of a field, cookie or query parameter.
pub const FAMILIES: &[(&str, &str)] = &[
    ("arg_", "A parameter of the query."),
    ("cookie_", "A cookie of the request."),
    ("http_", "A field of the request, in lower case and with `_` for `-`."),
    ("sent_http_", "A field of the response, as sent to the client."),
    ("upstream_http_", "A field of the response, as sent by the endpoint."),
];

macro_rules! variables {
    ($($name:ident: $($text:literal)|+ = $doc:literal;)*) => {
        /// A variable of the access log.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum LogVariable {
            $(#[doc = $doc] $name,)*
            /// `$arg_NAME`.
            Argument(Arc<str>),
            /// `$cookie_NAME`.
            Cookie(Arc<str>),
            /// `$http_NAME`, with the field name.
            Field(Arc<str>),
            /// `$sent_http_NAME`, with the field name.
            SentField(Arc<str>),
            /// `$upstream_http_NAME`, with the field name.
            UpstreamField(Arc<str>),
        }

        impl LogVariable {
            /// Variables with fixed names, and their descriptions.
            pub const NAMED: &'static [(&'static [&'static str], &'static str)] =
                &[$((&[$($text),+], $doc),)*];

            /// Returns the variable `name` (without `$`). Converts `_` in field names to `-`.
            pub fn named(name: &str) -> Option<Self> {
                match name {
                    $($($text)|+ => return Some(Self::$name),)*
                    _ => {}
                }
                let rest = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
                let field = |rest: &str| rest.to_ascii_lowercase().replace('_', "-").into();
                rest("arg_")
                    .map(|rest| Self::Argument(rest.into()))
                    .or_else(|| rest("cookie_").map(|rest| Self::Cookie(rest.into())))
                    .or_else(|| rest("http_").map(|rest| Self::Field(field(rest))))
                    .or_else(|| rest("sent_http_").map(|rest| Self::SentField(field(rest))))
                    .or_else(|| rest("upstream_http_").map(|rest| Self::UpstreamField(field(rest))))
            }
        }
    };
}

variables! {
    Args: "args" | "query_string" = "The query.";
    BodyBytesSent: "body_bytes_sent" = "Bytes of the response body sent to the client.";
    BytesSent: "bytes_sent" = "Bytes of the complete response sent to the client.";
    Connection: "connection" = "The number of the connection.";
    ConnectionRequests: "connection_requests" = "Requests on the connection so far, including this one.";
    ConnectionTime: "connection_time" = "Seconds since the connection was opened.";
    Host: "host" = "The host in lower case, without its port.";
    Hostname: "hostname" = "The name of the machine; in Kubernetes, of the Pod.";
    Http2: "http2" = "`h2` over TLS, `h2c` without TLS, otherwise empty.";
    Https: "https" = "`on` for connections with TLS, otherwise empty.";
    IngressName: "ingress_name" = "The Ingress.";
    IsArgs: "is_args" = "A question mark if there is a query, otherwise empty.";
    LocationPath: "location_path" = "The path of the rule.";
    Msec: "msec" = "The time in seconds since 1970, with milliseconds.";
    Namespace: "namespace" = "The namespace of the Ingress.";
    Nothing: "upstream_cache_status" | "ssl_session_id" | "ssl_early_data"
        = "Always empty: no cache, no early data, and sessions have no id that is logged.";
    PassAccessScheme: "pass_access_scheme" = "The scheme that the client used, or a trusted \
                                              X-Forwarded-Proto.";
    Pid: "pid" = "Number of the process.";
    Pipe: "pipe" = "Always `.`: pipelined requests are not distinguished.";
    ProxyAlternativeUpstreamName: "proxy_alternative_upstream_name" = "The canary, if the request went to \
                                                                       one.";
    ProxyProtocolAddr: "proxy_protocol_addr" = "The client's address in the header of the PROXY protocol.";
    ProxyProtocolPort: "proxy_protocol_port" = "The client's port in that header.";
    ProxyProtocolServerAddr: "proxy_protocol_server_addr" = "The destination address in that header.";
    ProxyProtocolServerPort: "proxy_protocol_server_port" = "The destination port in that header.";
    ProxyUpstreamName: "proxy_upstream_name" | "proxy_host" = "`namespace-service-port`.";
    RealIpRemoteAddr: "realip_remote_addr" = "The address of the connection's peer.";
    RealIpRemotePort: "realip_remote_port" | "remote_port" = "Its port.";
    RemoteAddr: "remote_addr" | "the_real_ip" = "The client's address.";
    RemoteUser: "remote_user" = "The name in basic credentials, whether they were checked or not.";
    RequestId: "req_id" | "request_id" = "The request's id (X-Request-ID).";
    Request: "request" = "The request line.";
    RequestCompletion: "request_completion" = "`OK` if the client received the complete response, \
                                               otherwise empty.";
    RequestLength: "request_length" = "Bytes of the request, including its line and head.";
    RequestMethod: "request_method" = "The method.";
    RequestTime: "request_time" = "Seconds from the request's head to the end of the response.";
    RequestUri: "request_uri" = "Path and query as the client sent them.";
    Scheme: "scheme" = "`http` or `https`, of the connection.";
    ServerName: "server_name" = "The host of the rule, as written in its Ingress.";
    ServerPort: "server_port" | "pass_server_port" | "pass_port" = "The port that the client connected to, as it knows it.";
    ServerProtocol: "server_protocol" = "`HTTP/1.1`, `HTTP/2.0` or `HTTP/1.0`.";
    ServiceName: "service_name" = "The Service.";
    ServicePort: "service_port" = "Its port.";
    SslAlpnProtocol: "ssl_alpn_protocol" = "The protocol negotiated in TLS (ALPN).";
    SslCipher: "ssl_cipher" = "The cipher suite, by OpenSSL's name.";
    SslClientCert: "ssl_client_cert" = "The client's certificate in PEM, with a tab before each line but the first.";
    SslClientDaysLeft: "ssl_client_v_remain" = "Days until the client's certificate expires.";
    SslClientEscapedCert: "ssl_client_escaped_cert" = "The client's certificate in PEM, URL-encoded.";
    SslClientFingerprint: "ssl_client_fingerprint" = "SHA-1 of the client's certificate.";
    SslClientIssuer: "ssl_client_i_dn" = "The issuer of the client's certificate (RFC 2253).";
    SslClientRawCert: "ssl_client_raw_cert" = "The client's certificate in PEM.";
    SslClientSerial: "ssl_client_serial" = "The serial number of the client's certificate.";
    SslClientSubject: "ssl_client_s_dn" = "The subject of the client's certificate (RFC 2253).";
    SslClientValidFrom: "ssl_client_v_start" = "The start of the validity of the client's certificate.";
    SslClientValidUntil: "ssl_client_v_end" = "The end of the validity of the client's certificate.";
    SslClientVerify: "ssl_client_verify" = "`SUCCESS`, `FAILED:` with the reason, or `NONE` without a certificate or \
                                            for a host that requests none.";
    SslProtocol: "ssl_protocol" = "`TLSv1.3` or `TLSv1.2`.";
    SslServerName: "ssl_server_name" = "The server name that the client sent in TLS (SNI).";
    SslSessionReused: "ssl_session_reused" = "Always `.`: sessions are not resumed.";
    Status: "status" = "The status of the response; 499 if the client left first.";
    TimeIso8601: "time_iso8601" = "The time as in `2026-11-22T06:26:37+00:00`.";
    TimeLocal: "time_local" = "The time as in `22/Nov/2026:06:26:37 +0000`.";
    UpstreamAddr: "upstream_addr" = "The endpoints, one for each attempt.";
    UpstreamConnectTime: "upstream_connect_time" = "Seconds until each was connected.";
    UpstreamHeaderTime: "upstream_header_time" = "Seconds until the head of each response.";
    UpstreamResponseLength: "upstream_response_length" = "Bytes of each response body.";
    UpstreamResponseTime: "upstream_response_time" = "Seconds until the end of each response.";
    UpstreamStatus: "upstream_status" = "The status of each response.";
    Uri: "uri" | "document_uri" = "The path, normalised.";
}

impl LogFormat {
    /// The default format of ingress-nginx, byte for byte.
    pub const DEFAULT: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
        \"$http_referer\" \"$http_user_agent\" $request_length $request_time [$proxy_upstream_name] \
        [$proxy_alternative_upstream_name] $upstream_addr $upstream_response_length $upstream_response_time \
        $upstream_status $req_id";
}

impl Default for LogFormat {
    fn default() -> Self {
        use LogVariable as V;
        let (text, field) = (|text: &str| LogPiece::Text(text.into()), |name: &str| V::Field(name.into()));
        let pieces = [
            ("", V::RemoteAddr),
            (" - ", V::RemoteUser),
            (" [", V::TimeLocal),
            ("] \"", V::Request),
            ("\" ", V::Status),
            (" ", V::BodyBytesSent),
            (" \"", field("referer")),
            ("\" \"", field("user-agent")),
            ("\" ", V::RequestLength),
            (" ", V::RequestTime),
            (" [", V::ProxyUpstreamName),
            ("] [", V::ProxyAlternativeUpstreamName),
            ("] ", V::UpstreamAddr),
            (" ", V::UpstreamResponseLength),
            (" ", V::UpstreamResponseTime),
            (" ", V::UpstreamStatus),
            (" ", V::RequestId),
        ];
        let pieces = pieces.into_iter().flat_map(|(before, variable)| {
            let before = (!before.is_empty()).then(|| text(before));
            before.into_iter().chain([LogPiece::Variable(variable)])
        });
        Self { pieces: pieces.collect(), escape: LogEscape::Hex }
    }
}

/// Returns the variables as Markdown, for the reference documentation.
pub fn markdown_table() -> String {
    let mut text = String::from("| variable | says |\n|---|---|\n");
    for (names, doc) in LogVariable::NAMED {
        let names: Vec<String> = names.iter().map(|name| format!("`${name}`")).collect();
        text.push_str(&format!("| {} | {doc} |\n", names.join(", ")));
    }
    for (prefix, doc) in FAMILIES {
        text.push_str(&format!("| `${prefix}NAME` | {doc} |\n"));
    }
    text
}
