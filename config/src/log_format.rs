//! The format of access log lines: text and variables with nginx's names.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::template::TemplatePiece;
use crate::variable::Variable;

/// The format of the access log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogFormat {
    /// Parts of a line, in order.
    pub pieces: Arc<[TemplatePiece]>,
    /// Escaping of values.
    pub escape: LogEscape,
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

impl LogFormat {
    /// The default format of ingress-nginx, byte for byte.
    pub const DEFAULT: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \
        \"$http_referer\" \"$http_user_agent\" $request_length $request_time [$proxy_upstream_name] \
        [$proxy_alternative_upstream_name] $upstream_addr $upstream_response_length $upstream_response_time \
        $upstream_status $req_id";

    /// The format of `log-format-preset: json`: an object with the values of [`Self::DEFAULT`],
    /// named as there, and the ids of the trace. Only numbers that always have a value are without
    /// quotes.
    pub const JSON: &str = "{\"time_iso8601\":\"$time_iso8601\",\"remote_addr\":\"$remote_addr\",\
        \"remote_user\":\"$remote_user\",\"request\":\"$request\",\"status\":$status,\
        \"body_bytes_sent\":$body_bytes_sent,\"http_referer\":\"$http_referer\",\
        \"http_user_agent\":\"$http_user_agent\",\"request_length\":$request_length,\
        \"request_time\":$request_time,\"proxy_upstream_name\":\"$proxy_upstream_name\",\
        \"proxy_alternative_upstream_name\":\"$proxy_alternative_upstream_name\",\
        \"upstream_addr\":\"$upstream_addr\",\"upstream_response_length\":\"$upstream_response_length\",\
        \"upstream_response_time\":\"$upstream_response_time\",\"upstream_status\":\"$upstream_status\",\
        \"req_id\":\"$req_id\",\"trace_id\":\"$opentelemetry_trace_id\",\
        \"span_id\":\"$opentelemetry_span_id\"}";
}

impl Default for LogFormat {
    fn default() -> Self {
        use Variable as V;
        let (text, field) =
            (|text: &str| TemplatePiece::Text(text.into()), |name: &str| V::Field(name.into()));
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
            before.into_iter().chain([TemplatePiece::Variable(variable)])
        });
        Self { pieces: pieces.collect(), escape: LogEscape::Hex }
    }
}
