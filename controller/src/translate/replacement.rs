//! Parses replacements in cookies and redirects, in nginx's syntax: a text or, after `~` (or `~*`
//! for any case), a regular expression, and the replacement.

use std::sync::Arc;

use sluice_config::{Moment, Override, Pattern, Replacement, Template};

use super::expression;
use super::template;
use super::value::{self, Type};

/// Two words: the pattern for the domain of cookies, and its replacement. Expressions are
/// case-insensitive here, and a leading dot of either has no effect.
pub(crate) fn cookie_domain() -> Type<Override<Replacement>> {
    pair(|text| {
        let [from, to] = words(text)?;
        let dotless = |text: &str| text.strip_prefix('.').unwrap_or(text).to_owned();
        match from.strip_prefix('~') {
            Some(_) => replacement(&from, &to, true),
            None => replacement(&dotless(&from), &dotless(&to), true),
        }
    })
}

/// Two words: the pattern for the path of cookies, and its replacement.
pub(crate) fn cookie_path() -> Type<Override<Replacement>> {
    pair(|text| {
        let [from, to] = words(text)?;
        replacement(&from, &to, false)
    })
}

/// The replaced part of a redirect.
pub(crate) fn redirect_from() -> Type<Override<Pattern>> {
    value::field()
        .called("off, default, a text with variables, or an expression after ~")
        .and_then(|text| match &*text {
            "off" | "default" => Ok(Override::Off),
            text => pattern(text, false).map(|(pattern, _)| Override::To(pattern)),
        })
        .evaluated_at(Moment::Request)
}

/// Its replacement.
pub(crate) fn redirect_to() -> Type<Override<Template>> {
    value::field()
        .called("off, or text with variables")
        .and_then(|text| match &*text {
            "off" => Ok(Override::Off),
            text => template::parse_with_groups(text, Moment::Request, |name| name.parse::<u8>().is_ok())
                .map(Override::To),
        })
        .evaluated_at(Moment::Request)
}

fn pair(read: fn(&str) -> Result<Replacement, String>) -> Type<Override<Replacement>> {
    value::field()
        .called("off, or the text to replace and its replacement")
        .and_then(move |text| match &*text {
            "off" => Ok(Override::Off),
            text => read(text).map(Override::To),
        })
        .evaluated_at(Moment::Request)
}

fn replacement(from: &str, to: &str, any_case: bool) -> Result<Replacement, String> {
    let (from, groups) = pattern(from, any_case)?;
    let to = template::parse_with_groups(to, Moment::Request, |name| match name.parse::<usize>() {
        Ok(number) => number < groups.count,
        Err(_) => groups.names.iter().any(|known| known == name),
    })?;
    Ok(Replacement { from, to })
}

#[derive(Default)]
struct Groups {
    count: usize,
    names: Vec<String>,
}

fn pattern(text: &str, any_case: bool) -> Result<(Pattern, Groups), String> {
    let Some(expression) = text.strip_prefix('~') else {
        return Ok((Pattern::Text(template::parse(text, Moment::Request)?), Groups::default()));
    };
    let expression = match expression.strip_prefix('*') {
        Some(expression) => format!("(?i){expression}"),
        None if any_case => format!("(?i){expression}"),
        None => expression.to_owned(),
    };
    let compiled = expression::compile(&expression)
        .map_err(|reason| format!("has an expression that cannot be read ({reason})"))?;
    let names = compiled.capture_names().flatten().map(str::to_owned).collect();
    let groups = Groups { count: compiled.captures_len(), names };
    Ok((Pattern::Regex(Arc::from(expression)), groups))
}

/// Splits a text into two words separated by blanks, optionally quoted.
fn words(text: &str) -> Result<[String; 2], String> {
    let mut words = Vec::new();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        let (word, left) = match first {
            quote @ ('"' | '\'') => rest[1..].split_once(quote).ok_or("has a quote that does not end")?,
            _ => rest.split_at(rest.find(char::is_whitespace).unwrap_or(rest.len())),
        };
        words.push(word.to_owned());
        rest = left.trim_start();
    }
    words.try_into().map_err(|_| "must be off, or two words: what is replaced and by what".to_owned())
}

#[cfg(test)]
mod tests {
    use sluice_config::{TemplatePiece, Variable};

    use super::*;
    use crate::translate::value::{Author, Wrong};

    fn read<T: 'static>(value: &Type<T>, text: &str) -> Result<T, String> {
        value.parse(text, &Author::OPERATOR).map_err(|wrong| match wrong {
            Wrong::Invalid(reason) => reason,
            other => format!("{other:?}"),
        })
    }

    fn plain(from: &str, to: &str) -> Override<Replacement> {
        Override::To(Replacement { from: Pattern::Text(Template::plain(from)), to: Template::plain(to) })
    }

    #[test]
    fn texts_and_expressions_are_distinguished() {
        assert_eq!(read(&cookie_path(), "off").unwrap(), Override::Off);
        assert_eq!(read(&cookie_path(), " /app  / ").unwrap(), plain("/app", "/"));
        let quoted = read(&cookie_path(), "/ \"/; SameSite=None\"").unwrap();
        assert_eq!(quoted, plain("/", "/; SameSite=None"));
        assert_eq!(read(&cookie_domain(), ".a.example b.example").unwrap(), plain("a.example", "b.example"));
        let group = |name: &str| TemplatePiece::Variable(Variable::Group(name.into()));
        let expected = |text: &str| {
            Override::To(Replacement {
                from: Pattern::Regex(text.into()),
                to: Template { pieces: vec![TemplatePiece::Text("/".into()), group("1")] },
            })
        };
        assert_eq!(read(&cookie_path(), "~^/([a-z]+) /$1").unwrap(), expected("^/([a-z]+)"));
        assert_eq!(read(&cookie_path(), "~*^/([a-z]+) /$1").unwrap(), expected("(?i)^/([a-z]+)"));
        assert_eq!(read(&cookie_domain(), "~^/([a-z]+) /$1").unwrap(), expected("(?i)^/([a-z]+)"));
    }

    #[test]
    fn invalid_replacements_are_reported() {
        for (text, said) in [
            ("/app", "two words"),
            ("/a /b /c", "two words"),
            ("/a \"/b", "quote"),
            ("~( /", "cannot be read"),
            ("~^/(a) /$2", "$2"),
            ("~^/(?<x>a) /$y", "$y"),
            ("/a /$1", "$1"),
            ("/a /$none", "$none"),
        ] {
            let reason = read(&cookie_path(), text).unwrap_err();
            assert!(reason.contains(said), "{text}: {reason}");
        }
        assert!(read(&cookie_path(), "~^/(?<x>a) /$x").is_ok());
    }

    #[test]
    fn redirects_have_two_halves() {
        for off in ["off", "default"] {
            assert_eq!(read(&redirect_from(), off).unwrap(), Override::Off);
        }
        let from = read(&redirect_from(), "http://$host/").unwrap();
        assert!(matches!(from, Override::To(Pattern::Text(text)) if text.pieces.len() == 3));
        assert_eq!(read(&redirect_to(), "off").unwrap(), Override::Off);
        assert!(
            matches!(read(&redirect_to(), "https://$host/$1x").unwrap(), Override::To(to) if to.pieces.len() == 5)
        );
        assert!(read(&redirect_to(), "$name").is_err());
    }
}
