//! Directives of nginx's rewrite module: `set`, `rewrite`, `return` and `break`; and the names that
//! a text declares.

use std::sync::Arc;

use sluice_config::directives::{Instruction, LocationMatch, Return};
use sluice_config::{Moment, Template};

use super::block::Block;
use super::condition;
use super::context::{DirectiveContext, SnippetContext};
use super::fault::Fault;
use super::grammar::Directive;
use super::rewrite;
use super::variables::Declared;
use crate::translate::declarations::HttpDeclarations;
use crate::translate::expression::Expression;
use crate::translate::value;

/// Statuses that `return` answers with a `Location`.
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

/// The status of `return` that sends no response.
const NO_RESPONSE: u16 = 444;

/// Collects the variables that a text sets and the groups of its expressions.
pub(super) fn declared(directives: &[Directive], http: &HttpDeclarations) -> Declared {
    let mut declared = Declared { http: http.clone(), ..Declared::default() };
    collect(directives, &mut declared);
    declared
}

fn collect(directives: &[Directive], declared: &mut Declared) {
    for directive in directives {
        match (&*directive.name, &directive.arguments[..]) {
            ("auth_request_set", [name, field]) => {
                if let (Ok(name), Some(field)) = (variable_name(name), authorised_field(field)) {
                    declared.authorised.insert(name, field);
                }
            }
            ("set", [name, _]) => declared.assigned.extend(variable_name(name).ok()),
            ("if", arguments) => {
                let words = condition::operands(arguments).unwrap_or_default();
                let pattern = condition::pattern(&words);
                add_groups(pattern.as_deref(), declared);
            }
            ("rewrite", [pattern, ..]) => add_groups(Some(pattern), declared),
            ("location", arguments) => add_groups(location_pattern(arguments).as_deref(), declared),
            _ => {}
        }
        collect(directive.block.as_deref().unwrap_or_default(), declared);
    }
}

fn add_groups(pattern: Option<&str>, declared: &mut Declared) {
    if let Some(read) = pattern.and_then(|pattern| Expression::read(pattern).ok()) {
        declared.add_groups(&read);
    }
}

/// Reads a directive without a block. Returns the translation in words.
pub(super) fn read(
    name: &str,
    arguments: &[String],
    declared: &Declared,
    context: DirectiveContext,
    block: &mut Block,
) -> Result<String, Fault> {
    let (instruction, text) = match name {
        "rewrite" => rewrite::read(arguments, declared, context)?,
        "set" => set(arguments, declared)?,
        "return" => answer(arguments, declared)?,
        _ if arguments.is_empty() => (Instruction::Break, "ends the program of the block".to_owned()),
        _ => return Err("takes no argument".into()),
    };
    block.program.push(instruction);
    Ok(text)
}

fn set(arguments: &[String], declared: &Declared) -> Result<(Instruction, String), Fault> {
    let [name, value] = arguments else { return Err("takes a variable and a value".into()) };
    let variable = variable_name(name)?;
    declared.check_assignable(&variable)?;
    let text = format!("assigns {name}");
    Ok((Instruction::Set { variable, value: declared.template(value, Moment::Request)? }, text))
}

/// The field of `$upstream_http_NAME`.
fn authorised_field(text: &str) -> Option<Arc<str>> {
    let name = text.strip_prefix("$upstream_http_")?.to_ascii_lowercase().replace('_', "-");
    value::is_token(&name).then(|| name.into())
}

/// `auth_request_set` declares a variable for a field of the reply. Returns the translation in
/// words.
pub(super) fn authorised(
    arguments: &[String],
    context: DirectiveContext,
    block: &mut Block,
) -> Result<String, Fault> {
    let [name, text] = arguments else { return Err("takes a variable and a value".into()) };
    variable_name(name)?;
    let field = authorised_field(text).ok_or("the value must be $upstream_http_NAME")?;
    match (context.place, context.in_if) {
        (SnippetContext::Location, false) => {
            let text = format!("{name} is the field {field} of the authorisation service");
            block.kept.push(field);
            Ok(text)
        }
        (SnippetContext::Authorisation, false) => {
            Ok(format!("{name} is empty, as in nginx: the authorisation request asks no service itself"))
        }
        _ => Err(context.not_translated()),
    }
}

pub(super) fn variable_name(text: &str) -> Result<Arc<str>, Fault> {
    let is_name = |name: &&str| {
        !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    match text.strip_prefix('$').filter(is_name) {
        Some(name) => Ok(name.to_ascii_lowercase().into()),
        None => Err(format!("{text:?} is not the name of a variable").into()),
    }
}

/// `return` (`ngx_http_rewrite_return`).
fn answer(arguments: &[String], declared: &Declared) -> Result<(Instruction, String), Fault> {
    let is_url = |text: &str| ["http://", "https://", "$scheme"].iter().any(|start| text.starts_with(start));
    let (status, text) = match arguments {
        [url] if is_url(url) => (302, Some(url)),
        [status] => (status_of(status)?, None),
        [status, text] => (status_of(status)?, Some(text)),
        _ => return Err("takes a status, a URL, or a status and a text".into()),
    };
    let (answer, words) = match (REDIRECTS.contains(&status), text) {
        (false, _) if status == NO_RESPONSE => {
            (Return::Close, "closes the connection without a response".to_owned())
        }
        (true, Some(text)) => (
            Return::Redirect { status, location: location(text, declared)? },
            format!("redirects ({status}) to {text}"),
        ),
        (true, None) => return Err(format!("{status} needs a URL").into()),
        (false, None) if status >= 400 => {
            (Return::Page(status), format!("answers {status} with its standard page"))
        }
        (false, text) => {
            let body = declared.template(text.map_or("", String::as_str), Moment::Request)?;
            (Return::Text { status, body }, format!("answers {status} with a text"))
        }
    };
    Ok((Instruction::Return(answer), words))
}

fn location(text: &str, declared: &Declared) -> Result<Template, Fault> {
    match text.chars().any(char::is_control) {
        true => Err("the URL has a line break or control character".into()),
        false => Ok(declared.template(text, Moment::Request)?),
    }
}

fn status_of(text: &str) -> Result<u16, Fault> {
    match text.parse() {
        Ok(status @ 200..=599) => Ok(status),
        _ => Err(format!("{text:?} is not a status from 200 to 599").into()),
    }
}

/// The modifier and the path of a `location`.
fn location_parts(arguments: &[String]) -> Option<(&str, &str)> {
    match arguments {
        [modifier, text] => Some((modifier.as_str(), text.as_str())),
        [text] => {
            // nginx permits a modifier without a blank behind it.
            let glued = ["^~", "~*", "=", "~"].into_iter().find(|modifier| text.starts_with(modifier));
            let modifier = glued.unwrap_or("");
            Some((modifier, &text[modifier.len()..]))
        }
        _ => None,
    }
}

/// The expression of a `location`, with the flag of a modifier that ignores case in its text.
fn location_pattern(arguments: &[String]) -> Option<String> {
    match location_parts(arguments)? {
        ("~", text) => Some(text.to_owned()),
        ("~*", text) => Some(format!("(?i){text}")),
        _ => None,
    }
}

/// Reads the modifier and the path of a `location`.
pub(super) fn location_match(arguments: &[String], declared: &Declared) -> Result<LocationMatch, Fault> {
    let (modifier, text) = location_parts(arguments).ok_or("takes a modifier, if wanted, and a path")?;
    if text.starts_with('@') && modifier.is_empty() {
        return Err("named locations are not translated".into());
    }
    let path = || match text.starts_with('/') {
        true => Ok(Arc::from(text)),
        false => Err(Fault::from(format!("no path starts with {text:?}"))),
    };
    if let Some(pattern) = location_pattern(arguments) {
        return Ok(LocationMatch::Expression(condition::expression(&pattern, declared)?));
    }
    Ok(match modifier {
        "=" => LocationMatch::Exact(path()?),
        "" => LocationMatch::Prefix(path()?),
        "^~" => LocationMatch::FinalPrefix(path()?),
        _ => return Err(format!("{modifier:?} is not one of =, ^~, ~ and ~*").into()),
    })
}
