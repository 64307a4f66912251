//! Conditions of `if`.

use sluice_config::Expression;
use sluice_config::directives::Condition;
use sluice_config::{Moment, Template};

use super::fault::Fault;
use super::variables::Declared;
use crate::translate::expression;

/// The words between the parentheses of an `if` (`ngx_http_rewrite_if_condition`).
///
/// # Errors
/// The parentheses are missing.
pub(super) fn operands(arguments: &[String]) -> Result<Vec<&str>, Fault> {
    let form = || Fault::from("takes a condition in parentheses");
    let (mut first, mut last) = (0, arguments.len());
    let mut words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let opening = words.first_mut().ok_or_else(form)?;
    *opening = opening.strip_prefix('(').ok_or_else(form)?;
    first += usize::from(opening.is_empty());
    let closing = words.last_mut().ok_or_else(form)?;
    *closing = closing.strip_suffix(')').ok_or_else(form)?;
    last -= usize::from(closing.is_empty());
    words.get(first..last).filter(|words| !words.is_empty()).map(<[_]>::to_vec).ok_or_else(form)
}

/// The expression of a condition, with the flag of an operator that ignores case in its text.
pub(super) fn pattern(words: &[&str]) -> Option<String> {
    let [_, operator, text] = words else { return None };
    match *operator {
        "~" | "!~" => Some((*text).to_owned()),
        "~*" | "!~*" => Some(format!("(?i){text}")),
        _ => None,
    }
}

/// Reads a condition.
///
/// # Errors
/// Its form, a variable or its expression.
pub(super) fn read(arguments: &[String], declared: &Declared) -> Result<Condition, Fault> {
    let words = operands(arguments)?;
    let variable = |text: &str| -> Result<Template, Fault> {
        let name = text.strip_prefix('$').filter(|name| !name.is_empty());
        let is_name = |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        match name.filter(|name| is_name(name)) {
            Some(_) => Ok(declared.template(text, Moment::Request)?),
            None => Err("the left side must be a variable".into()),
        }
    };
    match words[..] {
        [test, ..] if test.starts_with('-') || test.starts_with("!-") => {
            Err("tests of files are not translated".into())
        }
        [value] => Ok(Condition::Truth(variable(value)?)),
        [value, operator @ ("=" | "!="), other] => Ok(Condition::Equal {
            value: variable(value)?,
            other: declared.template(other, Moment::Request)?,
            negated: operator == "!=",
        }),
        [value, operator, _] => {
            let text = pattern(&words)
                .ok_or_else(|| format!("{operator:?} is not one of =, !=, ~, ~*, !~ and !~*"))?;
            Ok(Condition::Match {
                value: variable(value)?,
                expression: expression(&text, declared)?,
                negated: operator.starts_with('!'),
            })
        }
        _ => Err("takes a variable, or a variable, an operator and a value".into()),
    }
}

/// Reads an expression, whose groups with a name are variables.
///
/// # Errors
/// It is malformed or too large, or a group has the name of another variable.
pub(super) fn expression(text: &str, declared: &Declared) -> Result<Expression, Fault> {
    Ok(read_expression(text, declared)?.in_form(text))
}

/// The same; returns the properties of the expression.
pub(super) fn read_expression(text: &str, declared: &Declared) -> Result<expression::Expression, Fault> {
    let read = expression::Expression::read(text)
        .map_err(|reason| format!("the expression {text:?} cannot be read ({reason})"))?;
    read.names.keys().try_for_each(|name| declared.check_assignable(&name.to_ascii_lowercase()))?;
    Ok(read)
}
