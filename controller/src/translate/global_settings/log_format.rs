//! What lines of the access log say, and where they go, as ingress-nginx's ConfigMap has it.

use std::sync::Arc;

use sluice_config::{LogOutput, LogPiece, LogVariable, StreamLogPiece, StreamLogVariable};

use crate::translate::value::{self, Type};

/// A format, as between the quotes of nginx's `log_format`.
pub(super) fn format() -> Type<Arc<[LogPiece]>> {
    value::any().called("text with variables of the access log").and_then(|text| parse(&text))
}

/// A format of the log of streams.
pub(super) fn stream_format() -> Type<Arc<[StreamLogPiece]>> {
    let words = "text with variables of the log of streams";
    value::any().called(words).and_then(|text| parse_stream(&text))
}

fn parse(text: &str) -> Result<Arc<[LogPiece]>, String> {
    pieces(
        text,
        |text| LogPiece::Text(text.into()),
        |name| LogVariable::named(name).map(LogPiece::Variable).ok_or_else(|| unknown(name)),
    )
}

fn parse_stream(text: &str) -> Result<Arc<[StreamLogPiece]>, String> {
    pieces(
        text,
        |text| StreamLogPiece::Text(text.into()),
        |name| {
            let unknown = || {
                format!(
                    "has ${name}, which is no variable of the log of streams; docs/log-format.md#streams has them all"
                )
            };
            StreamLogVariable::named(name).map(StreamLogPiece::Variable).ok_or_else(unknown)
        },
    )
}

/// Splits a format into text and variables.
fn pieces<P>(
    text: &str,
    literal: impl Fn(&str) -> P,
    variable: impl Fn(&str) -> Result<P, String>,
) -> Result<Arc<[P]>, String> {
    let text = unquoted(text);
    let mut pieces = Vec::new();
    let mut rest = &*text;
    while let Some(at) = rest.find('$') {
        if at > 0 {
            pieces.push(literal(&rest[..at]));
        }
        let after = &rest[at + 1..];
        let (name, left) = match after.strip_prefix('{') {
            Some(braced) => braced.split_once('}').ok_or("has a ${ without its }")?,
            None => {
                let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
                after.split_at(end)
            }
        };
        if name.is_empty() {
            return Err("has a $ without the name of a variable behind it".to_owned());
        }
        pieces.push(variable(name)?);
        rest = left;
    }
    if !rest.is_empty() {
        pieces.push(literal(rest));
    }
    Ok(pieces.into())
}

fn unknown(name: &str) -> String {
    let reason = match name {
        _ if name.starts_with("geoip") => ": nothing is looked up about where clients are",
        _ if name.starts_with("opentelemetry") => ": there is no tracing yet",
        "request_body" => ": bodies are not kept",
        _ => "",
    };
    format!(
        "has ${name}, which is no variable of the access log{reason}; docs/log-format.md#variables has them all"
    )
}

/// The escapes of nginx's quoted texts.
fn unquoted(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let escaped = match (c, rest.clone().next()) {
            ('\\', Some(next @ ('\\' | '"' | '\''))) => Some(next),
            ('\\', Some('t')) => Some('\t'),
            ('\\', Some('r')) => Some('\r'),
            ('\\', Some('n')) => Some('\n'),
            _ => None,
        };
        if escaped.is_some() {
            rest.next();
        }
        plain.push(escaped.unwrap_or(c));
    }
    plain
}

/// Where a log goes. In ingress-nginx's image the usual files are links to the standard streams.
pub(super) fn path(standard: [&'static str; 2], other: &'static str) -> Type<LogOutput> {
    let words = format!("an absolute path; {} is the standard stream", standard[0]);
    value::text().called(words).and_then(move |text| match &*text {
        path if standard.contains(&path) => Ok(LogOutput::Standard),
        path if path == other => Ok(LogOutput::StandardError),
        path if path.starts_with('/') && !path.ends_with('/') => Ok(LogOutput::File(path.into())),
        path if path.starts_with("syslog:") => {
            Err("is a syslog server; say so with enable-syslog, syslog-host and syslog-port")
        }
        _ => Err("must be an absolute path"),
    })
}

#[cfg(test)]
mod tests {
    use sluice_config::{LogFormat, StreamLog};

    use super::*;
    use crate::translate::value::Author;

    #[test]
    fn the_default_is_what_its_text_says() {
        assert_eq!(parse(LogFormat::DEFAULT).unwrap(), LogFormat::default().pieces);
        assert_eq!(parse_stream(StreamLog::DEFAULT).unwrap(), StreamLog::default().format);
        let reason = parse_stream("$request").unwrap_err();
        assert!(reason.contains("log-format.md#streams"), "{reason}");
    }

    #[test]
    fn variables_are_told_from_text() {
        let text = |text: &str| LogPiece::Text(text.into());
        let variable = LogPiece::Variable;
        assert_eq!(
            *parse("{\\\"a\\\": \"${status}ms\", $http_X_My_Field$the_real_ip\\n$cookie_A$arg_b").unwrap(),
            [
                text("{\"a\": \""),
                variable(LogVariable::Status),
                text("ms\", "),
                variable(LogVariable::Field("x-my-field".into())),
                variable(LogVariable::RemoteAddr),
                text("\n"),
                variable(LogVariable::Cookie("A".into())),
                variable(LogVariable::Argument("b".into())),
            ]
        );
        for bad in ["$", "a$-", "${host", "$nothing", "$http_", "${}", "$geoip2_city", "$request_body"] {
            let reason = parse(bad).unwrap_err();
            assert!(!bad.contains('_') || reason.contains("log-format.md#variables"), "{reason}");
        }
    }

    #[test]
    fn the_usual_files_are_the_standard_streams() {
        let usual = path(["/var/log/nginx/access.log", "/dev/stdout"], "/dev/stderr");
        let read = |text: &str| usual.parse(text, &Author::OPERATOR);
        assert_eq!(read("/var/log/nginx/access.log"), Ok(LogOutput::Standard));
        assert_eq!(read("/dev/stdout"), Ok(LogOutput::Standard));
        assert_eq!(read("/dev/stderr"), Ok(LogOutput::StandardError));
        assert_eq!(read("/logs/a.log"), Ok(LogOutput::File("/logs/a.log".into())));
        for bad in ["access.log", "off", "/logs/", "syslog:server=1.2.3.4"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
