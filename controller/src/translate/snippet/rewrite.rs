//! `rewrite EXPRESSION REPLACEMENT [FLAG]`.

use sluice_config::directives::{AfterRewrite, Instruction};
use sluice_config::{Moment, Rewrite, RewritePart, RewriteQuery, RewriteTemplate, TemplatePiece, Variable};

use super::condition::read_expression;
use super::context::{DirectiveContext, SnippetContext};
use super::fault::Fault;
use super::variables::Declared;
use crate::translate::expression::Expression;
use crate::translate::template;

/// Reads the directive. Returns the translation in words, too.
pub(super) fn read(
    arguments: &[String],
    declared: &Declared,
    context: DirectiveContext,
) -> Result<(Instruction, String), Fault> {
    let (pattern, replacement, flag) = match arguments {
        [pattern, replacement] => (pattern, replacement, None),
        [pattern, replacement, flag] => (pattern, replacement, Some(&**flag)),
        _ => return Err("takes an expression, a replacement and, if wanted, a flag".into()),
    };
    let is_url = ["http://", "https://", "$scheme"].iter().any(|start| replacement.starts_with(start));
    let then = match flag {
        Some("permanent") => AfterRewrite::Redirect(301),
        Some("redirect") => AfterRewrite::Redirect(302),
        Some("break" | "last") | None if is_url => AfterRewrite::Redirect(302),
        // A server has not chosen a location yet.
        Some("break") if context.place != SnippetContext::Server => AfterRewrite::Stay,
        Some("break" | "last") => AfterRewrite::Last,
        None => AfterRewrite::Continue,
        Some(flag) => {
            return Err(format!("{flag:?} is not one of last, break, redirect and permanent").into());
        }
    };
    let read = read_expression(pattern, declared)?;
    let (text, keeps_query) = match replacement.strip_suffix('?') {
        Some(text) => (text, false),
        None => (&**replacement, true),
    };
    let (path, query) = match text.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (text, None),
    };
    if path.is_empty() || text.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err("the replacement is not a path or URL".into());
    }
    let parts = |text: &str| parts(text, &read, declared);
    let rewrite = Rewrite {
        pattern: Some(read.in_form(pattern)),
        path: parts(path)?,
        query: match (query, keeps_query) {
            (None, true) => RewriteQuery::Keep,
            (query, append) => RewriteQuery::Replace { query: parts(query.unwrap_or_default())?, append },
        },
        redirects: matches!(then, AfterRewrite::Redirect(_)),
        forwarded_prefix: None,
    };
    let words = match then {
        AfterRewrite::Stay => format!("sends {pattern} to the endpoint as {replacement}"),
        AfterRewrite::Last | AfterRewrite::Continue => {
            format!("chooses the location anew for {pattern} as {replacement}, in the same namespace")
        }
        AfterRewrite::Redirect(status) => format!("redirects ({status}) {pattern} to {replacement}"),
    };
    Ok((Instruction::Rewrite { rewrite, then }, words))
}

/// A text with groups of the expression and variables.
fn parts(text: &str, expression: &Expression, declared: &Declared) -> Result<RewriteTemplate, Fault> {
    let group_of = |name: &str| match name.parse::<usize>() {
        Ok(number) => (1..expression.groups).contains(&number).then_some(number),
        Err(_) => expression.names.get(name).copied(),
    };
    let template = template::parse_with(text, |name| match group_of(name) {
        Some(_) => Ok(Variable::Group(name.into())),
        None => declared.known(name, Moment::Request),
    })?;
    let part = |piece: TemplatePiece| match piece {
        TemplatePiece::Text(text) => RewritePart::Text(text),
        TemplatePiece::Variable(Variable::Group(name)) if group_of(&name).is_some() => {
            RewritePart::Group(group_of(&name).unwrap_or_default())
        }
        TemplatePiece::Variable(variable) => RewritePart::Variable(variable),
    };
    Ok(template.pieces.into_iter().map(part).collect())
}
