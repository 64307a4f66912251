//! The content and the destination of log lines, as in ingress-nginx's ConfigMap.

use std::sync::Arc;

use sluice_config::{
    LogFormat, LogOutput, Moment, StreamLogPiece, StreamLogVariable, TemplatePiece, Variable,
};

use crate::translate::template::{self, Segment};
use crate::translate::value::{self, Author, Type};

/// A format, as between the quotes of nginx's `log_format`.
pub(super) fn format() -> Type<Arc<[TemplatePiece]>> {
    let read = |text: Arc<str>, author: &Author<'_>| parse(&text, author);
    value::any().called("text with variables").and_then_for(read).evaluated_at(Moment::End)
}

/// A format with a name.
pub(super) fn preset() -> Type<Arc<[TemplatePiece]>> {
    value::one_of(&[("json", LogFormat::JSON)]).and_then_for(parse)
}

/// A format of the log of streams.
pub(super) fn stream_format() -> Type<Arc<[StreamLogPiece]>> {
    let words = "text with variables of the log of streams";
    value::any().called(words).and_then(|text| parse_stream(&text))
}

fn parse(text: &str, author: &Author<'_>) -> Result<Arc<[TemplatePiece]>, String> {
    let pieces = template::parse_for(&unquoted(text), Moment::End, author)?.pieces;
    for piece in &pieces {
        // Tables are read when the line begins.
        if let TemplatePiece::Variable(Variable::Computed { name, known }) = piece
            && *known > Moment::Request
        {
            return Err(format!("has ${name}, whose value is known {}, too late for a line", known.as_str()));
        }
    }
    Ok(pieces.into())
}

/// nginx's modules for streams have variables of their own.
fn parse_stream(text: &str) -> Result<Arc<[StreamLogPiece]>, String> {
    let text = unquoted(text);
    let segments = template::segments(&text)?.into_iter().map(|segment| match segment {
        Segment::Text(text) => Ok(StreamLogPiece::Text(text.into())),
        Segment::Name(name) => StreamLogVariable::named(name).map(StreamLogPiece::Variable).ok_or_else(|| {
            format!(
                "has ${name}, which is not a variable of the log of streams; docs/log-format.md#streams lists all"
            )
        }),
    });
    segments.collect()
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
            Err("is a syslog server; set enable-syslog, syslog-host and syslog-port instead")
        }
        _ => Err("must be an absolute path"),
    })
}

#[cfg(test)]
mod tests {
    use sluice_config::StreamLog;

    use super::*;

    fn parse(text: &str) -> Result<Arc<[TemplatePiece]>, String> {
        super::parse(text, &Author::OPERATOR)
    }

    #[test]
    fn the_default_is_what_its_text_says() {
        assert_eq!(parse(LogFormat::DEFAULT).unwrap(), LogFormat::default().pieces);
        assert_eq!(parse_stream(StreamLog::DEFAULT).unwrap(), StreamLog::default().format);
        let reason = parse_stream("$request").unwrap_err();
        assert!(reason.contains("log-format.md#streams"), "{reason}");
    }

    #[test]
    fn variables_are_told_from_text() {
        let text = |text: &str| TemplatePiece::Text(text.into());
        let variable = TemplatePiece::Variable;
        assert_eq!(
            *parse("{\\\"a\\\": \"${status}ms\", $http_X_My_Field$the_real_ip\\n$cookie_A$arg_b").unwrap(),
            [
                text("{\"a\": \""),
                variable(Variable::Status),
                text("ms\", "),
                variable(Variable::Field("x-my-field".into())),
                variable(Variable::RemoteAddr),
                text("\n"),
                variable(Variable::Cookie("A".into())),
                variable(Variable::Argument("b".into())),
            ]
        );
        assert_eq!(*parse("$request_body").unwrap(), [variable(Variable::RequestBody)]);
        for bad in ["$", "a$-", "${host", "$nothing", "$http_", "${}"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    /// One of them made the whole format invalid.
    #[test]
    fn variables_of_the_reference_s_modules_keep_the_format() {
        let names = "connections_active connections_reading connections_writing connections_waiting secure_link \
                     secure_link_expires invalid_referer msie ancient_browser modern_browser uid_got uid_set \
                     uid_reset memcached_key fastcgi_script_name fastcgi_path_info brotli_ratio \
                     balancer_ewma_score loggable";
        for name in names.split_whitespace() {
            let format = parse(&format!("${name}$status")).unwrap_or_else(|error| panic!("{error}"));
            let expected = [Variable::Unserved, Variable::Status].map(TemplatePiece::Variable);
            assert_eq!(*format, expected, "{name}");
            let warning = template::without_value(&format!("${name}"), Moment::End);
            assert!(warning.is_some_and(|warning| warning.contains(name)), "{name}");
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
