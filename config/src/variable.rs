//! The table of nginx's variables: the names that values of annotations, keys, snippets and log
//! formats may have behind a `$`. `docs/variables.md` is generated from it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::location::LocationVariable;

/// The moment at which the value of a variable is known. A text that is evaluated at one moment may
/// have the variables of all earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Moment {
    /// When the rule is translated.
    Rule,
    /// When the connection is ready: TLS and the PROXY protocol.
    Connection,
    /// When the head of the request has been read.
    Request,
    /// When the authorisation service has admitted the request.
    Authentication,
    /// When an endpoint has been chosen.
    Attempt,
    /// When the head of the response is sent.
    Response,
    /// When the request ends.
    End,
    /// Never: the value is always empty.
    Never,
}

impl Moment {
    /// Returns the moment in words: completes "known ...".
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rule => "with the rule",
            Self::Connection => "with the connection",
            Self::Request => "with the request head",
            Self::Authentication => "after authentication",
            Self::Attempt => "with the attempt",
            Self::Response => "with the response head",
            Self::End => "at the end of the request",
            Self::Never => "never",
        }
    }
}

/// The form of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text.
    Text,
    /// A decimal integer.
    Integer,
    /// Seconds with milliseconds.
    Seconds,
    /// A date and time.
    Time,
    /// An IP address.
    Address,
    /// One value for each attempt, separated by `, `.
    PerAttempt,
}

impl Form {
    /// Returns the printed form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Integer => "integer",
            Self::Seconds => "seconds",
            Self::Time => "time",
            Self::Address => "address",
            Self::PerAttempt => "one per attempt",
        }
    }
}

/// The party that determines a value. A value of the client can be forged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setter {
    /// The client, by its request.
    Client,
    /// The gateway, by what it observes.
    Gateway,
    /// The author of the rule.
    Rule,
    /// The endpoint, by its response.
    Endpoint,
}

impl Setter {
    /// Returns the printed form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Gateway => "gateway",
            Self::Rule => "rule",
            Self::Endpoint => "endpoint",
        }
    }
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct VariableRow {
    /// Names without `$`. A family has the prefix of its names.
    pub names: &'static [&'static str],
    /// When the value is known.
    pub known: Moment,
    /// Its form.
    pub form: Form,
    /// Who determines it.
    pub setter: Setter,
    /// A sentence that describes it.
    pub doc: &'static str,
}

macro_rules! variables {
    (
        names { $($name:ident: $($text:literal)|+ = $known:ident, $form:ident, $setter:ident, $doc:literal;)* }
        fields { $($field:literal = $field_form:ident, $field_doc:literal;)* }
        families { $($family:ident: $prefix:literal = $family_known:ident, $family_setter:ident, $family_doc:literal;)* }
    ) => {
        /// A variable of a request, with nginx's name.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Variable {
            $(#[doc = $doc] $name,)*
            $(#[doc = $family_doc] $family(Arc<str>),)*
            /// A value from the GeoIP2 databases about the client's address.
            Location(LocationVariable),
            /// A variable of nginx that has no value in Sluice, or none at the moment at which the
            /// text is evaluated.
            Unserved,
            /// A variable that a `set` of a snippet assigns, in lower case.
            Assigned(Arc<str>),
            /// A field of the response of the authorisation service, by name in lower case
            /// (`auth_request_set`).
            Authorised(Arc<str>),
            /// A variable that `map` or `geo` of `http-snippet` declares.
            Computed {
                /// Its name, in lower case.
                name: Arc<str>,
                /// When the values that it depends on are known.
                known: Moment,
            },
            /// `$1` to `$9` and `$NAME`: a group of the replaced expression, or of the last
            /// expression of a snippet that matched.
            Group(Arc<str>),
        }

        impl Variable {
            /// Variables with fixed names.
            pub const NAMED: &'static [VariableRow] = &[$(VariableRow {
                names: &[$($text),+],
                known: Moment::$known,
                form: Form::$form,
                setter: Setter::$setter,
                doc: $doc,
            },)*];

            /// Fields of the request that have names of their own, with `_` for `-`.
            pub const FIELDS: &'static [VariableRow] = &[$(VariableRow {
                names: &[$field],
                known: Moment::Request,
                form: Form::$field_form,
                setter: Setter::Client,
                doc: $field_doc,
            },)*];

            /// Variables whose names contain the name of a field, cookie or parameter.
            pub const FAMILIES: &'static [VariableRow] = &[$(VariableRow {
                names: &[$prefix],
                known: Moment::$family_known,
                form: Form::Text,
                setter: Setter::$family_setter,
                doc: $family_doc,
            },)*];

            /// Returns when the value is known.
            pub fn known(&self) -> Moment {
                match self {
                    $(Self::$name => Moment::$known,)*
                    $(Self::$family(_) => Moment::$family_known,)*
                    Self::Unserved => Moment::Never,
                    Self::Assigned(_) | Self::Group(_) | Self::Location(_) => Moment::Request,
                    Self::Authorised(_) => Moment::Authentication,
                    Self::Computed { known, .. } => *known,
                }
            }

            /// Returns the variable `name` (without `$`). As in nginx, the case of a name does not
            /// count, and `_` stands for `-` in names of fields. `None` if nginx has no such
            /// variable.
            pub fn named(name: &str) -> Option<Self> {
                let lower = name.to_ascii_lowercase();
                match &*lower {
                    $($($text)|+ => return Some(Self::$name),)*
                    $($field)|* => {
                        return Some(Self::Field(lower.replace('_', "-").into()));
                    }
                    _ if let Some(variable) = LocationVariable::named(&lower) => {
                        return Some(Self::Location(variable));
                    }
                    _ if unserved_reason(&lower).is_some() => return Some(Self::Unserved),
                    _ => {}
                }
                let rest = |prefix: &str| {
                    lower.starts_with(prefix).then(|| &name[prefix.len()..]).filter(|rest| !rest.is_empty())
                };
                $(if let Some(rest) = rest($prefix) {
                    let rest = match $prefix.ends_with("http_") {
                        true => rest.to_ascii_lowercase().replace('_', "-"),
                        false => rest.to_owned(),
                    };
                    return Some(Self::$family(rest.into()));
                })*
                None
            }
        }
    };
}

variables! {
    names {
        Args: "args" | "query_string" = Request, Text, Client, "The query; in the access log, as `$arg_NAME` and `$is_args`, without the changes of `rewrite` in snippets.";
        BestHttpHost: "best_http_host" = Request, Text, Client, "Host and port as sent, or a trusted `X-Forwarded-Host`.";
        BodyBytesSent: "body_bytes_sent" = End, Integer, Gateway, "Bytes of the response body sent to the client.";
        BytesSent: "bytes_sent" = End, Integer, Gateway, "Bytes of the complete response sent to the client.";
        Connection: "connection" = Connection, Integer, Gateway, "The number of the connection.";
        ConnectionRequests: "connection_requests" = Request, Integer, Gateway, "Requests on the connection so far, including this one.";
        ConnectionTime: "connection_time" = Connection, Seconds, Gateway, "Seconds since the connection was opened.";
        ConnectionUpgrade: "connection_upgrade" = Request, Text, Client, "`upgrade` if the request has the field `Upgrade`, otherwise empty.";
        EscapedRequestUri: "escaped_request_uri" = Request, Text, Client, "`$request_uri`, escaped for use as the value of a parameter.";
        ForwardedFor: "proxy_add_x_forwarded_for" = Request, Text, Client, "The client's `X-Forwarded-For` with the client's address appended.";
        Host: "host" = Request, Text, Client, "The host in lower case, without its port.";
        Hostname: "hostname" = Rule, Text, Gateway, "The name of the machine; in Kubernetes, of the Pod.";
        Http2: "http2" = Connection, Text, Client, "`h2` over TLS, `h2c` without TLS, otherwise empty.";
        HttpHost: "http_host" = Request, Text, Client, "Host and port as the client sent them.";
        Https: "https" = Connection, Text, Client, "`on` for connections with TLS, otherwise empty.";
        IngressName: "ingress_name" = Rule, Text, Rule, "The Ingress.";
        IsArgs: "is_args" = Request, Text, Client, "A question mark if there is a query, otherwise empty.";
        LocationPath: "location_path" = Rule, Text, Rule, "The path of the rule.";
        Msec: "msec" = Connection, Seconds, Gateway, "The time in seconds since 1970, with milliseconds.";
        Namespace: "namespace" = Rule, Text, Rule, "The namespace of the Ingress.";
        OpentelemetryContextTraceparent: "opentelemetry_context_traceparent" = Request, Text, Gateway,
            "The trace context that endpoints continue (W3C), with the span of the request; empty if the request is not traced.";
        OpentelemetrySampled: "opentelemetry_sampled" = Request, Integer, Gateway,
            "`1` if the trace is sampled, `0` if not; empty if the request is not traced.";
        OpentelemetrySpanId: "opentelemetry_span_id" | "otel_span_id" = Request, Text, Gateway,
            "The id of the request's span, 16 hexadecimal digits; empty if the request is not traced.";
        OpentelemetryTraceId: "opentelemetry_trace_id" | "otel_trace_id" = Request, Text, Client,
            "The id of the trace, 32 hexadecimal digits; empty if the request is not traced.";
        PassAccessScheme: "pass_access_scheme" = Request, Text, Client, "The scheme that the client used, or a trusted `X-Forwarded-Proto`.";
        Pid: "pid" = Rule, Integer, Gateway, "Number of the process.";
        Pipe: "pipe" = Connection, Text, Gateway, "Always `.`: pipelined requests are not distinguished.";
        ProxyAlternativeUpstreamName: "proxy_alternative_upstream_name" = Attempt, Text, Gateway, "The canary, if the request went to one.";
        ProxyProtocolAddr: "proxy_protocol_addr" = Connection, Address, Gateway, "The client's address in the header of the PROXY protocol.";
        ProxyProtocolPort: "proxy_protocol_port" = Connection, Integer, Gateway, "The client's port in that header.";
        ProxyProtocolServerAddr: "proxy_protocol_server_addr" = Connection, Address, Gateway, "The destination address in that header.";
        ProxyProtocolServerPort: "proxy_protocol_server_port" = Connection, Integer, Gateway, "The destination port in that header.";
        ProxyUpstreamName: "proxy_upstream_name" | "proxy_host" = Request, Text, Rule, "`namespace-service-port`; `upstream-default-backend` if the program's default backend serves the request.";
        RealIpRemoteAddr: "realip_remote_addr" = Connection, Address, Gateway, "The address of the connection's peer.";
        RealIpRemotePort: "realip_remote_port" | "remote_port" = Connection, Integer, Gateway, "Its port.";
        RemoteAddr: "remote_addr" | "the_real_ip" | "binary_remote_addr" = Request, Address, Gateway, "The client's address, always as text.";
        RemoteUser: "remote_user" = Request, Text, Client, "The name in basic credentials, whether they were checked or not; in digest credentials where the rule checks them.";
        Request: "request" = Request, Text, Client, "The request line.";
        RequestBody: "request_body" = End, Text, Client,
            "The request body, if it is buffered and has at most as many bytes as `client-body-buffer-size`.";
        RequestCompletion: "request_completion" = End, Text, Gateway, "`OK` if the client received the complete response, otherwise empty.";
        RequestId: "req_id" | "request_id" = Request, Text, Gateway, "The request's id (X-Request-ID).";
        RequestLength: "request_length" = Request, Integer, Client, "Bytes of the request, including its line and head; of the body, what has arrived.";
        RequestMethod: "request_method" = Request, Text, Client, "The method.";
        RequestTime: "request_time" = Response, Seconds, Gateway, "Seconds since the request's head was read.";
        RequestUri: "request_uri" = Request, Text, Client, "Path and query as the client sent them.";
        Scheme: "scheme" = Connection, Text, Client, "`http` or `https`, of the connection.";
        ServerName: "server_name" = Rule, Text, Rule, "The host of the rule, as written in its Ingress.";
        ServerPort: "server_port" | "pass_server_port" | "pass_port" = Connection, Integer, Gateway, "The port under which clients reach the socket.";
        ServerProtocol: "server_protocol" = Request, Text, Client, "`HTTP/1.1`, `HTTP/2.0` or `HTTP/1.0`.";
        ServiceName: "service_name" = Rule, Text, Rule, "The Service.";
        ServicePort: "service_port" = Rule, Text, Rule, "Its port.";
        SslAlpnProtocol: "ssl_alpn_protocol" = Connection, Text, Client, "The protocol negotiated in TLS (ALPN).";
        SslCipher: "ssl_cipher" = Connection, Text, Gateway, "The cipher suite, by OpenSSL's name.";
        SslClientCert: "ssl_client_cert" = Connection, Text, Client, "The client's certificate in PEM, with a tab before each line but the first.";
        SslClientDaysLeft: "ssl_client_v_remain" = Connection, Integer, Client, "Days until the client's certificate expires.";
        SslClientEscapedCert: "ssl_client_escaped_cert" = Connection, Text, Client, "The client's certificate in PEM, URL-encoded.";
        SslClientFingerprint: "ssl_client_fingerprint" = Connection, Text, Client, "SHA-1 of the client's certificate.";
        SslClientIssuer: "ssl_client_i_dn" = Connection, Text, Client, "The issuer of the client's certificate (RFC 2253).";
        SslClientRawCert: "ssl_client_raw_cert" = Connection, Text, Client, "The client's certificate in PEM.";
        SslClientSerial: "ssl_client_serial" = Connection, Text, Client, "The serial number of the client's certificate.";
        SslClientSubject: "ssl_client_s_dn" = Connection, Text, Client, "The subject of the client's certificate (RFC 2253).";
        SslClientValidFrom: "ssl_client_v_start" = Connection, Time, Client, "The start of the validity of the client's certificate.";
        SslClientValidUntil: "ssl_client_v_end" = Connection, Time, Client, "The end of the validity of the client's certificate.";
        SslClientVerify: "ssl_client_verify" = Connection, Text, Gateway, "`SUCCESS`, `FAILED:` with the reason, or `NONE` without a certificate or for a host that requests none.";
        SslEarlyData: "ssl_early_data" = Connection, Text, Gateway,
            "`1` while the TLS handshake of a request in early data has not ended, otherwise empty.";
        SslProtocol: "ssl_protocol" = Connection, Text, Gateway, "`TLSv1.3` or `TLSv1.2`.";
        SslServerName: "ssl_server_name" = Connection, Text, Client, "The server name that the client sent in TLS (SNI).";
        SslSessionReused: "ssl_session_reused" = Connection, Text, Gateway,
            "`r` if the TLS session was resumed, otherwise `.`.";
        Status: "status" = Response, Integer, Gateway, "The status of the response; 499 if the client left first.";
        TimeIso8601: "time_iso8601" = Connection, Time, Gateway, "The time as in `2026-11-22T06:26:37+00:00`.";
        TimeLocal: "time_local" = Connection, Time, Gateway, "The time as in `22/Nov/2026:06:26:37 +0000`.";
        UpstreamAddr: "upstream_addr" = Attempt, PerAttempt, Gateway, "The endpoints.";
        UpstreamCacheStatus: "upstream_cache_status" = Response, Text, Gateway,
            "`HIT`, `MISS`, `BYPASS`, `EXPIRED`, `STALE`, `UPDATING` or `REVALIDATED` (docs/cache-inspection.md); empty where the rule has no cache.";
        UpstreamConnectTime: "upstream_connect_time" = Response, PerAttempt, Gateway, "Seconds until each was connected.";
        UpstreamHeaderTime: "upstream_header_time" = Response, PerAttempt, Gateway, "Seconds until the head of each response.";
        UpstreamResponseLength: "upstream_response_length" = End, PerAttempt, Endpoint, "Bytes of each response body.";
        UpstreamResponseTime: "upstream_response_time" = Response, PerAttempt, Gateway, "Seconds until the end of each response, or so far.";
        UpstreamStatus: "upstream_status" = Response, PerAttempt, Endpoint, "The status of each response.";
        Uri: "uri" | "document_uri" = Request, Text, Client, "The path, normalised; in the access log, without the changes of `rewrite-target` and of `rewrite` in snippets.";
    }
    fields {
        "content_length" = Integer, "The field `Content-Length` of the request.";
        "content_type" = Text, "The field `Content-Type` of the request.";
    }
    families {
        Argument: "arg_" = Request, Client, "A parameter of the query.";
        Cookie: "cookie_" = Request, Client, "A cookie of the request.";
        Field: "http_" = Request, Client, "A field of the request, in lower case and with `_` for `-`.";
        SentField: "sent_http_" = Response, Gateway, "A field of the response, as sent to the client.";
        UpstreamField: "upstream_http_" = Response, Endpoint, "A field of the response, as sent by the endpoint.";
    }
}

/// Variables that nginx or the template of ingress-nginx has and that are always empty here, with
/// the reason. A name that ends with `_` is the prefix of a family.
pub const UNSERVED: &[(&[&str], &str)] = &[
    (&["request_body_file"], "no file of a body is kept"),
    (&["geoip_"], "the older databases are not read; `$geoip2_*` has the same values"),
    (&["opentelemetry_context_", "otel_"], "trace contexts have only the form of the W3C"),
    (&["ssl_session_id"], "sessions have no id that is logged"),
    (
        &["ssl_ciphers", "ssl_curve", "ssl_curves", "ssl_client_i_dn_legacy", "ssl_client_s_dn_legacy"],
        "the TLS library does not report it",
    ),
    (&["server_addr"], "connections are accepted for all addresses of the Pod"),
    (&["fastcgi_path_info", "fastcgi_script_name"], "only `fastcgi-params-configmap` has it"),
    (&["http3"], "HTTP/3 is not served"),
    (&["brotli_ratio", "gzip_ratio"], "the ratio of compression is not recorded"),
    (
        &["limit_conn_status", "limit_req_status"],
        "a refused request has the status 503, or that of the ConfigMap",
    ),
    (
        &[
            "connections_active",
            "connections_reading",
            "connections_waiting",
            "connections_writing",
            "tcpinfo_rcv_space",
            "tcpinfo_rtt",
            "tcpinfo_rttvar",
            "tcpinfo_snd_cwnd",
            "upstream_bytes_received",
            "upstream_bytes_sent",
            "upstream_queue_time",
        ],
        "it is not recorded",
    ),
    (
        &["proxy_protocol_tlv_", "sent_trailer_", "upstream_cookie_", "upstream_trailer_"],
        "these values are not kept",
    ),
    (
        &["document_root", "realpath_root", "request_filename", "date_gmt", "date_local"],
        "there are no files to serve",
    ),
    (
        &[
            "forwarded_for_proxy_protocol",
            "full_x_forwarded_for",
            "limit_rate",
            "nginx_version",
            "proxy_port",
        ],
        "it is about the internals of nginx",
    ),
    (ASSIGNABLE, NO_DIRECTIVES),
    (&["secure_link", "secure_link_expires", "uid_got", "uid_set"], NO_DIRECTIVES),
];

const NO_DIRECTIVES: &str = "the directives of nginx that give it a value are not served";

/// Variables of [`UNSERVED`] that nginx lets a configuration declare or assign.
const ASSIGNABLE: &[&str] = &[
    "ancient_browser",
    "balancer_ewma_score",
    "invalid_referer",
    "loggable",
    "memcached_key",
    "modern_browser",
    "msie",
    "uid_reset",
];

/// Returns whether no text may declare or assign the variable `name`, because it is one of the
/// gateway.
pub fn is_reserved(name: &str) -> bool {
    let is_assignable = ASSIGNABLE.iter().any(|assignable| assignable.eq_ignore_ascii_case(name));
    Variable::named(name).is_some() && !is_assignable
}

/// Returns why the variable `name`, in lower case, is always empty; `None` if it is served or does
/// not exist.
pub fn unserved_reason(name: &str) -> Option<&'static str> {
    let is_meant = |known: &&str| match known.ends_with('_') {
        true => name.len() > known.len() && name.starts_with(known),
        false => name == *known,
    };
    UNSERVED.iter().find(|(names, _)| names.iter().any(&is_meant)).map(|(_, reason)| *reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_whatever_their_case() {
        for (name, variable) in [
            ("Host", Variable::Host),
            ("http_host", Variable::HttpHost),
            ("http_X_Tenant", Variable::Field("x-tenant".into())),
            ("content_type", Variable::Field("content-type".into())),
            ("cookie_Session_id", Variable::Cookie("Session_id".into())),
            ("sent_http_etag", Variable::SentField("etag".into())),
            ("upstream_http_x", Variable::UpstreamField("x".into())),
            ("geoip2_City", Variable::Location(LocationVariable::City)),
            ("geoip_city", Variable::Unserved),
            ("request_body", Variable::RequestBody),
        ] {
            assert_eq!(Variable::named(name), Some(variable), "{name}");
        }
        for name in ["nothing", "http_", "geoip2_nothing", ""] {
            assert_eq!(Variable::named(name), None, "{name}");
        }
    }

    #[test]
    fn names_that_nginx_lets_a_text_assign_are_not_reserved() {
        for (name, reserved) in [("Loggable", false), ("mine", false), ("gzip_ratio", true), ("Status", true)]
        {
            assert_eq!(is_reserved(name), reserved, "{name}");
        }
        assert!(ASSIGNABLE.iter().all(|name| unserved_reason(name).is_some()));
    }

    #[test]
    fn no_name_is_listed_twice() {
        let rows = Variable::NAMED.iter().chain(Variable::FIELDS);
        let mut names: Vec<&str> = rows.flat_map(|row| row.names).copied().collect();
        names.extend(UNSERVED.iter().flat_map(|(names, _)| *names));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
