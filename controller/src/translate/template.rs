//! Reads texts with nginx's variables in them, once, at the edge.

use std::sync::Arc;

use sluice_config::{LogVariable, Piece, Template, Variable};

use super::value::{self, Type};

/// Variables of nginx that are not served, beside those of the access log that are about the
/// response.
const UNSET: [&str; 29] = [
    "connection_upgrade",
    "date_gmt",
    "date_local",
    "document_root",
    "forwarded_for_proxy_protocol",
    "full_x_forwarded_for",
    "gzip_ratio",
    "http3",
    "limit_conn_status",
    "limit_rate",
    "limit_req_status",
    "nginx_version",
    "proxy_port",
    "realpath_root",
    "request_body",
    "request_body_file",
    "request_filename",
    "server_addr",
    "ssl_ciphers",
    "ssl_client_i_dn_legacy",
    "ssl_client_s_dn_legacy",
    "ssl_curve",
    "ssl_curves",
    "tcpinfo_rcv_space",
    "tcpinfo_rtt",
    "tcpinfo_rttvar",
    "tcpinfo_snd_cwnd",
    "upstream_bytes_received",
    "upstream_bytes_sent",
];

/// Reads a template. The error completes "the value ...".
pub(crate) fn parse(text: &str) -> Result<Template, String> {
    parse_with_groups(text, |_| false)
}

/// The same for a text that may also name groups of an expression, if there are such: `$1`, `$name`.
pub(crate) fn parse_with_groups(text: &str, is_group: impl Fn(&str) -> bool) -> Result<Template, String> {
    parse_with(text, |name| {
        let group = is_group(name).then(|| Variable::Group(name.into()));
        group.or_else(|| variable(name)).ok_or_else(|| format!("has ${name}, which is not served"))
    })
}

/// The same for a text whose variables `resolve` gives by their names.
pub(crate) fn parse_with(
    text: &str,
    resolve: impl Fn(&str) -> Result<Variable, String>,
) -> Result<Template, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        if at > 0 {
            pieces.push(Piece::Text(rest[..at].into()));
        }
        let after = &rest[at + 1..];
        let (name, left) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}').ok_or("has a ${ without its }")?,
            // Behind a number of one digit the text goes on, as in nginx.
            None if after.starts_with(|c: char| c.is_ascii_digit()) => after.split_at(1),
            None => {
                let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
                after.split_at(end)
            }
        };
        if name.is_empty() {
            return Err("has a $ without the name of a variable behind it".to_owned());
        }
        pieces.push(Piece::Variable(resolve(name)?));
        rest = left;
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.into()));
    }
    Ok(Template { pieces })
}

/// A template for a header field.
pub(crate) fn field() -> Type<Template> {
    value::field().called("text with variables").and_then(|text| parse(&text))
}

/// A template that tells requests apart for a limit: all its variables must be served.
pub(crate) fn key() -> Type<Template> {
    field().and_then(|template| match has_unset(&template) {
        true => Err("has a variable that is always empty here"),
        false => Ok(template),
    })
}

/// A template for a `Host` field. Variables that a client can choose freely are refused: some endpoints believe what
/// that field says.
pub(crate) fn host() -> Type<Template> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let read = move |text: Arc<str>| {
        let template = parse(&text)?;
        for piece in &template.pieces {
            match piece {
                Piece::Text(text) if !text.bytes().all(fits) => {
                    return Err("has a character that no host can have".to_owned());
                }
                Piece::Text(_)
                | Piece::Variable(
                    Variable::Host
                    | Variable::HttpHost
                    | Variable::BestHttpHost
                    | Variable::ServerPort
                    | Variable::Namespace
                    | Variable::IngressName
                    | Variable::ServiceName
                    | Variable::ServicePort,
                ) => {}
                Piece::Variable(_) => {
                    return Err("has a variable that is no part of a host".to_owned());
                }
            }
        }
        Ok(template)
    };
    value::field().called("host, with variables").and_then(read)
}

/// Whether a template has a variable that is always empty here and not in nginx.
pub(crate) fn has_unset(template: &Template) -> bool {
    template.pieces.contains(&Piece::Variable(Variable::Unset))
}

/// The variable of this name, without its `$`.
pub(crate) fn variable(name: &str) -> Option<Variable> {
    let named = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
    Some(match name {
        "host" => Variable::Host,
        "http_host" => Variable::HttpHost,
        "best_http_host" => Variable::BestHttpHost,
        "remote_user" => Variable::RemoteUser,
        "request" => Variable::RequestLine,
        "content_type" | "content_length" => Variable::Field(name.replace('_', "-").into()),
        "scheme" => Variable::Scheme,
        "pass_access_scheme" => Variable::AccessScheme,
        "request_uri" => Variable::RequestUri,
        "escaped_request_uri" => Variable::EscapedRequestUri,
        "uri" | "document_uri" => Variable::Uri,
        "args" | "query_string" => Variable::Args,
        "is_args" => Variable::IsArgs,
        "request_method" => Variable::Method,
        "server_protocol" => Variable::Protocol,
        "https" => Variable::Https,
        "msec" => Variable::Seconds,
        "proxy_add_x_forwarded_for" => Variable::ForwardedFor,
        // Here it is text, too: a key is as good, and a field that is not text is none.
        "remote_addr" | "binary_remote_addr" | "the_real_ip" => Variable::ClientAddress,
        "server_port" | "pass_server_port" | "pass_port" => Variable::ServerPort,
        "req_id" | "request_id" => Variable::RequestId,
        "namespace" => Variable::Namespace,
        "ingress_name" => Variable::IngressName,
        "service_name" => Variable::ServiceName,
        "service_port" => Variable::ServicePort,
        "location_path" => Variable::LocationPath,
        _ => {
            let field = |rest: &str| Variable::Field(rest.replace('_', "-").into());
            let cookie = |rest: &str| Variable::Cookie(rest.into());
            let argument = |rest: &str| Variable::Argument(rest.into());
            return named("http_")
                .map(field)
                .or_else(|| named("cookie_").map(cookie))
                .or_else(|| named("arg_").map(argument))
                .or_else(|| logged(name));
        }
    })
}

/// A variable of the access log, which has no value yet where it is about the response.
fn logged(name: &str) -> Option<Variable> {
    use LogVariable as V;
    let is_known = |variable: &V| {
        matches!(
            variable,
            V::Connection
                | V::ConnectionRequests
                | V::ConnectionTime
                | V::Hostname
                | V::Http2
                | V::Pid
                | V::ProxyProtocolAddr
                | V::ProxyProtocolPort
                | V::ProxyProtocolServerAddr
                | V::ProxyProtocolServerPort
                | V::ProxyUpstreamName
                | V::RealIpRemoteAddr
                | V::RealIpRemotePort
                | V::RequestLength
                | V::ServerName
                | V::SslAlpnProtocol
                | V::SslCipher
                | V::SslClientCert
                | V::SslClientDaysLeft
                | V::SslClientEscapedCert
                | V::SslClientFingerprint
                | V::SslClientIssuer
                | V::SslClientRawCert
                | V::SslClientSerial
                | V::SslClientSubject
                | V::SslClientValidFrom
                | V::SslClientValidUntil
                | V::SslClientVerify
                | V::SslProtocol
                | V::SslServerName
                | V::TimeIso8601
                | V::TimeLocal
        )
    };
    match V::named(name) {
        Some(variable) if is_known(&variable) => Some(Variable::Logged(variable)),
        Some(_) => Some(Variable::Unset),
        None => UNSET.contains(&name).then_some(Variable::Unset),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_told_from_text() {
        let text = |text: &str| Piece::Text(text.into());
        assert_eq!(
            parse("a$host-${arg_x}b$http_x_user").unwrap().pieces,
            [
                text("a"),
                Piece::Variable(Variable::Host),
                text("-"),
                Piece::Variable(Variable::Argument("x".into())),
                text("b"),
                Piece::Variable(Variable::Field("x-user".into())),
            ]
        );
        assert_eq!(parse("plain").unwrap().pieces, [text("plain")]);
        for (name, variable) in [
            ("$remote_user", Variable::RemoteUser),
            ("$best_http_host", Variable::BestHttpHost),
            ("$content_type", Variable::Field("content-type".into())),
            ("$server_name", Variable::Logged(LogVariable::ServerName)),
            ("$ssl_client_s_dn", Variable::Logged(LogVariable::SslClientSubject)),
            ("$upstream_http_x", Variable::Unset),
            ("$request_body", Variable::Unset),
        ] {
            assert_eq!(parse(name).unwrap().pieces, [Piece::Variable(variable)], "{name}");
        }
        assert!(key().parse("$host", &value::Author::OPERATOR).is_ok());
        assert!(key().parse("$request_body", &value::Author::OPERATOR).is_err());
        for bad in ["$", "a$-", "${host", "$nothing", "$http_", "${}"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(field().parse("a\r\nb", &value::Author::OPERATOR).is_err());
    }
}
