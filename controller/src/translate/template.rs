//! Reads texts with nginx's variables in them, once, at the edge.

use std::sync::Arc;

use sluice_config::{Piece, Template, Variable};

use super::value::{self, Type};

/// Reads a template. The error completes "the value ...".
pub(crate) fn parse(text: &str) -> Result<Template, String> {
    parse_with_groups(text, |_| false)
}

/// The same for a text that may also name groups of an expression, if there are such: `$1`, `$name`.
pub(crate) fn parse_with_groups(text: &str, is_group: impl Fn(&str) -> bool) -> Result<Template, String> {
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
        let group = is_group(name).then(|| Variable::Group(name.into()));
        let variable = group.or_else(|| variable(name));
        pieces.push(Piece::Variable(variable.ok_or_else(|| format!("has ${name}, which is not served"))?));
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

fn variable(name: &str) -> Option<Variable> {
    let named = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
    Some(match name {
        "host" => Variable::Host,
        "http_host" | "best_http_host" => Variable::HttpHost,
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
                .or_else(|| named("arg_").map(argument));
        }
    })
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
        for bad in ["$", "a$-", "${host", "$nothing", "$http_", "${}"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(field().parse("a\r\nb", &value::Author::OPERATOR).is_err());
    }
}
