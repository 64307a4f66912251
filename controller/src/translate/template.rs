//! Reads texts with nginx's variables in them, once, at the edge: the only parser of `$name` and
//! `${name}`.
//!
//! A text is evaluated at one [`Moment`]. A variable whose value is known later is empty there, as
//! in nginx; a problem names it ([`without_value`]). A name that nginx does not have either makes
//! the text invalid.

use std::sync::Arc;

use sluice_config::variable::unserved_reason;
use sluice_config::{Moment, Template, TemplatePiece, Variable};

use super::declarations::HttpDeclarations;
use super::value::{self, Author, Type};

/// How to fix a text with a variable that has no value.
pub(crate) const REMEDY: &str =
    "use another variable, or another setting (docs/variables.md lists when values are known)";

/// A part of a text: literal text, or the name of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment<'t> {
    Text(&'t str),
    Name(&'t str),
}

/// Splits a text into literal text and names of variables, as nginx does
/// (`ngx_http_script_compile`): a number has one digit, and the text continues behind it. The error
/// completes "the value ...".
pub(crate) fn segments(text: &str) -> Result<Vec<Segment<'_>>, String> {
    let mut segments = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        if !before.is_empty() {
            segments.push(Segment::Text(before));
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, left) = match behind.strip_prefix('{') {
            Some(braced) => braced.split_once('}').ok_or("has a ${ without its }")?,
            None if behind.starts_with(|c: char| c.is_ascii_digit()) => behind.split_at(1),
            None => behind.split_at(behind.find(|c| !is_name(c)).unwrap_or(behind.len())),
        };
        if name.is_empty() || !name.chars().all(is_name) {
            return Err("has a $ without the name of a variable behind it".to_owned());
        }
        segments.push(Segment::Name(name));
        rest = left;
    }
    if !rest.is_empty() {
        segments.push(Segment::Text(rest));
    }
    Ok(segments)
}

/// Reads a text that is evaluated at this moment. The error completes "the value ...".
pub(crate) fn parse(text: &str, moment: Moment) -> Result<Template, String> {
    parse_with(text, |name| variable(name, moment))
}

/// The same for a text of this author, which may have variables of `map` and `geo`.
pub(crate) fn parse_for(text: &str, moment: Moment, author: &Author<'_>) -> Result<Template, String> {
    parse_with(text, |name| variable_for(name, moment, author))
}

/// The same for a text that may also name groups of an expression: `$1`, `$name`.
pub(crate) fn parse_with_groups(
    text: &str,
    moment: Moment,
    is_group: impl Fn(&str) -> bool,
) -> Result<Template, String> {
    parse_with(text, |name| match is_group(name) {
        true => Ok(Variable::Group(name.into())),
        false => variable(name, moment),
    })
}

/// The same for a text whose variables `resolve` gives by their names.
pub(crate) fn parse_with(
    text: &str,
    resolve: impl Fn(&str) -> Result<Variable, String>,
) -> Result<Template, String> {
    let pieces = segments(text)?.into_iter().map(|segment| match segment {
        Segment::Text(text) => Ok(TemplatePiece::Text(text.into())),
        Segment::Name(name) => resolve(name).map(TemplatePiece::Variable),
    });
    Ok(Template { pieces: pieces.collect::<Result<_, String>>()? })
}

/// The variable of this name in a text that is evaluated at this moment. The error completes "the
/// value ...".
pub(crate) fn variable(name: &str, moment: Moment) -> Result<Variable, String> {
    match Variable::named(name) {
        Some(variable) if variable.known() <= moment => Ok(variable),
        Some(_) => Ok(Variable::Unserved),
        None => Err(format!("has ${name}, which is not a variable; docs/variables.md lists all")),
    }
}

/// The same for a text of this author.
pub(crate) fn variable_for(name: &str, moment: Moment, author: &Author<'_>) -> Result<Variable, String> {
    match computed(name, author.http) {
        Some(variable) if variable.known() <= moment => Ok(variable),
        Some(variable) => Err(format!("has ${name}, whose value is known {}", variable.known().as_str())),
        None => variable(name, moment),
    }
}

/// The variable of this name among those of `map` and `geo`.
pub(crate) fn computed(name: &str, http: &HttpDeclarations) -> Option<Variable> {
    let (name, known) = http.variables.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(Variable::Computed { name: name.clone(), known: *known })
}

/// Why a variable has no value in a text that is evaluated at this moment; `None` if it has one, or
/// does not exist.
pub(crate) fn missing_value(name: &str, moment: Moment) -> Option<String> {
    let known = Variable::named(name)?.known();
    let reason = match unserved_reason(&name.to_ascii_lowercase()) {
        Some(reason) => format!("is always empty, because {reason}"),
        None => format!("is empty, because its value is known {}", known.as_str()),
    };
    (known > moment).then(|| format!("${name} {reason}"))
}

/// The variables of a text that have no value when it is evaluated, in words; `None` if all have
/// one.
pub(crate) fn without_value(text: &str, moment: Moment) -> Option<String> {
    let mut reasons: Vec<String> = segments(text)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|segment| match segment {
            Segment::Name(name) => missing_value(name, moment),
            Segment::Text(_) => None,
        })
        .collect();
    reasons.sort_unstable();
    reasons.dedup();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

/// A template for a header field, or another text of one line.
pub(crate) fn field(moment: Moment) -> Type<Template> {
    let read = move |text: Arc<str>, author: &Author<'_>| parse_for(&text, moment, author);
    value::field().called("text with variables").and_then_for(read).evaluated_at(moment)
}

/// A template that tells requests apart for a limit: all its variables must have values.
pub(crate) fn key() -> Type<Template> {
    field(Moment::Request).and_then(|template| match has_unserved(&template) {
        true => Err("has a variable that is always empty here"),
        false => Ok(template),
    })
}

/// A template for a `Host` field. Each request checks that its value is a host.
pub(crate) fn host() -> Type<Template> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    let read = move |text: Arc<str>| {
        let template = parse(&text, Moment::Request)?;
        if let Some(reasons) = without_value(&text, Moment::Request) {
            return Err(format!("has a variable without a value: {reasons}"));
        }
        let is_host = |piece: &TemplatePiece| match piece {
            TemplatePiece::Text(text) => text.bytes().all(fits),
            TemplatePiece::Variable(_) => true,
        };
        match template.pieces.iter().all(is_host) {
            true => Ok(template),
            false => Err("has a character that no host can have".to_owned()),
        }
    };
    value::field().called("host, with variables").and_then(read).evaluated_at(Moment::Request)
}

/// Whether a template has a variable that is always empty here and not in nginx.
pub(crate) fn has_unserved(template: &Template) -> bool {
    template.pieces.contains(&TemplatePiece::Variable(Variable::Unserved))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_told_from_text() {
        let text = |text: &str| TemplatePiece::Text(text.into());
        assert_eq!(
            parse("a$host-${arg_x}b$http_x_user", Moment::Request).unwrap().pieces,
            [
                text("a"),
                TemplatePiece::Variable(Variable::Host),
                text("-"),
                TemplatePiece::Variable(Variable::Argument("x".into())),
                text("b"),
                TemplatePiece::Variable(Variable::Field("x-user".into())),
            ]
        );
        assert_eq!(parse("plain", Moment::Request).unwrap().pieces, [text("plain")]);
        assert!(key().parse("$host", &value::Author::OPERATOR).is_ok());
        assert!(key().parse("$request_body", &value::Author::OPERATOR).is_err());
        for bad in ["$", "a$-", "${host", "$nothing", "$http_", "${}", "${a b}"] {
            assert!(parse(bad, Moment::End).is_err(), "{bad}");
        }
        assert!(field(Moment::Request).parse("a\r\nb", &value::Author::OPERATOR).is_err());
    }

    #[test]
    fn a_variable_that_is_known_later_is_empty_and_named() {
        let at = |moment| parse("$status", moment).unwrap().pieces;
        assert_eq!(at(Moment::Request), [TemplatePiece::Variable(Variable::Unserved)]);
        assert_eq!(at(Moment::Response), [TemplatePiece::Variable(Variable::Status)]);
        let words = without_value("$host-$status-$status-$geoip_city", Moment::Request).unwrap();
        assert!(words.contains("$status is empty, because its value is known with the response head"));
        assert!(words.contains("$geoip_city is always empty, because the older databases"), "{words}");
        assert_eq!(words.matches("$status").count(), 1);
        assert_eq!(without_value("$host-$status-$1", Moment::End), None);
    }
}
