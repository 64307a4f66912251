//! `rewrite-target`: another path and query for the endpoint, with parts of the client's path in it.
//!
//! As in nginx, whose rules are visible to every backend behind a rewriting route: the expression is searched in the
//! normalised path, which is decoded; the result replaces the whole path, and is escaped again on its way out. So
//! `%20` arrives as `%20`, and `%2F` as the slash that it was matched as. The client's query stays, behind that of
//! the template where it has one.

use std::ops::Range;

use http::header::HeaderValue;
use regex::{Captures, Regex};
use sluice_config::{Piece, Places, RewritePart, RewriteQuery, SimpleExpression};

use super::error::PolicyError;
use super::template::Template;
use crate::message::edit::{Edit, EditableName, RequestMut, RequestTarget};
use crate::router::{bounded_regex, normal_bytes};

static X_FORWARDED_PREFIX: EditableName = EditableName::from_static("x-forwarded-prefix");

/// A rewriting, compiled.
#[derive(Debug)]
pub struct Rewrite {
    pattern: Option<PathExpression>,
    path: Box<[Part]>,
    query: Option<OwnQuery>,
    redirects: bool,
    forwarded_prefix: Option<Box<[Part]>>,
}

/// The query of a target.
#[derive(Debug)]
struct OwnQuery {
    parts: Box<[Part]>,
    /// The client's query comes behind it.
    appends: bool,
}

/// A part of a template.
#[derive(Debug)]
enum Part {
    Text(Box<str>),
    Group(usize),
    Variable(Template),
}

/// How the path is searched.
#[derive(Debug)]
enum PathExpression {
    Simple(SimpleExpression),
    Other(Regex),
}

/// What a request becomes.
#[derive(Debug, PartialEq, Eq)]
pub enum Rewritten {
    /// It goes to its endpoint like this.
    Outgoing(Outgoing),
    /// Its client is sent here.
    Location(String),
}

/// What changes in a head that goes to an endpoint.
#[derive(Debug, PartialEq, Eq)]
pub struct Outgoing {
    target: RequestTarget,
    /// The field of that name; an empty value removes it.
    forwarded_prefix: Option<HeaderValue>,
}

impl Outgoing {
    /// Path and query as the endpoint gets them.
    pub(crate) fn target(&self) -> &str {
        self.target.as_str()
    }

    /// Changes the head of an attempt.
    pub fn apply(&self, head: &mut Edit<'_, impl RequestMut>) {
        head.set_target(&self.target);
        match &self.forwarded_prefix {
            Some(prefix) if prefix.is_empty() => head.remove(&X_FORWARDED_PREFIX),
            Some(prefix) => head.set(&X_FORWARDED_PREFIX, prefix),
            None => {}
        }
    }
}

impl PathExpression {
    fn compile(pattern: &str) -> Result<Self, PolicyError> {
        if let Some(simple) = SimpleExpression::of(pattern) {
            return Ok(Self::Simple(simple));
        }
        bounded_regex(pattern)
            .map(Self::Other)
            .map_err(|error| PolicyError::Rewrite(format!("expression `{pattern}`: {error}")))
    }

    /// How many groups it has, with the whole as the first.
    fn groups(&self) -> usize {
        match self {
            Self::Simple(expression) => expression.groups(),
            Self::Other(regex) => regex.captures_len(),
        }
    }
}

impl Rewrite {
    /// Compiles the expression. Fails on one that is malformed or too large, and on a template that names a group
    /// which it does not have.
    pub fn compile(rewrite: &sluice_config::Rewrite) -> Result<Self, PolicyError> {
        let sluice_config::Rewrite { pattern, path, query, redirects, forwarded_prefix } = rewrite;
        let pattern = pattern.as_deref().map(PathExpression::compile).transpose()?;
        let groups = pattern.as_ref().map_or(0, PathExpression::groups);
        let parts = |template: &[RewritePart]| -> Result<Box<[Part]>, PolicyError> {
            template.iter().map(|part| Part::compile(part, groups)).collect()
        };
        let query = match query {
            RewriteQuery::Keep => None,
            RewriteQuery::Replace { query, append } => {
                let is_bad = |part: &RewritePart| matches!(part, RewritePart::Text(text) if !text.bytes().all(is_of_query));
                if query.iter().any(is_bad) {
                    return Err(PolicyError::Rewrite("a query with characters that none can have".into()));
                }
                Some(OwnQuery { parts: parts(query)?, appends: *append })
            }
        };
        Ok(Self {
            path: parts(path)?,
            query,
            redirects: *redirects,
            forwarded_prefix: forwarded_prefix.as_deref().map(parts).transpose()?,
            pattern,
        })
    }

    /// `None` where the expression does not match.
    fn search<'p>(&self, path: &'p str) -> Option<Found<'p>> {
        match &self.pattern {
            None => Some(Found::Nowhere),
            Some(PathExpression::Simple(expression)) => expression.find(path).map(Found::Places),
            Some(PathExpression::Other(regex)) => regex.captures(path).map(Found::Captures),
        }
    }

    /// What becomes of a request. `target` is what the client sent, `path` its path, normalised;
    /// `fill` fills in a variable. `None` where the expression does not match: then nothing
    /// changes. An error where the result is nothing that can be sent.
    pub fn apply(
        &self,
        target: &str,
        path: &str,
        fill: &dyn Fn(&Template) -> Vec<u8>,
    ) -> Result<Option<Rewritten>, NoTarget> {
        let (raw_path, query) = match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        };
        let Some(found) = self.search(path) else { return Ok(None) };
        // A path that is no UTF-8 was matched with a stand-in for what cannot be read; what goes on is what came.
        let bytes = match path.contains(char::REPLACEMENT_CHARACTER) {
            true => Some(normal_bytes(raw_path).map_err(|_| NoTarget)?),
            false => None,
        };
        let groups = Groups { found, path, bytes: bytes.as_deref(), fill };
        let mut text = String::with_capacity(target.len() + 16);
        let coded = raw_path.contains(['%', '+']);
        match self.redirects {
            // As nginx quotes a Location.
            true => groups.expand(&self.path, &mut text, |part, out| match coded {
                true => escape(part, out, is_plain_in_query),
                false => escape(part, out, is_of_query),
            }),
            false => {
                let mut path = Vec::with_capacity(target.len());
                groups.expand_bytes(&self.path, &mut path);
                if path.first() != Some(&b'/') {
                    text.push('/');
                }
                escape(&path, &mut text, is_plain_in_path);
            }
        }
        let mut separator = '?';
        if let Some(own) = &self.query {
            let start = text.len();
            text.push(separator);
            groups.expand(&own.parts, &mut text, |part, out| match coded {
                true => escape(part, out, is_plain_in_query),
                false => escape(part, out, is_of_query),
            });
            match text.len() == start + 1 {
                true => text.truncate(start),
                false => separator = '&',
            }
        }
        let appends = self.query.as_ref().is_none_or(|own| own.appends);
        if let Some(query) = query.filter(|_| appends) {
            text.push(separator);
            text.push_str(query);
        }
        if self.redirects {
            return Ok(Some(Rewritten::Location(text)));
        }
        let forwarded_prefix = match &self.forwarded_prefix {
            Some(template) => {
                let mut prefix = Vec::new();
                groups.expand_bytes(template, &mut prefix);
                Some(HeaderValue::try_from(prefix).map_err(|_| NoTarget)?)
            }
            None => None,
        };
        let target = RequestTarget::new(text).ok_or(NoTarget)?;
        Ok(Some(Rewritten::Outgoing(Outgoing { target, forwarded_prefix })))
    }
}

/// A rewritten request that no head can carry. It gets 400, because only what the client sent can have made it so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoTarget;

/// The match of the expression in a path, with its groups.
enum Found<'a> {
    /// No match.
    Nowhere,
    Captures(Captures<'a>),
    Places(Places),
}

impl Found<'_> {
    fn place(&self, group: usize) -> Option<Range<usize>> {
        match self {
            Found::Nowhere => None,
            Found::Captures(captures) => captures.get(group).map(|found| found.range()),
            Found::Places(places) => places.get(group).cloned().flatten(),
        }
    }
}

/// What the expression has found.
struct Groups<'a> {
    found: Found<'a>,
    path: &'a str,
    /// The path as bytes, where it is no UTF-8.
    bytes: Option<&'a [u8]>,
    /// Fills in a variable.
    fill: &'a dyn Fn(&Template) -> Vec<u8>,
}

impl Groups<'_> {
    fn get(&self, group: usize) -> &[u8] {
        let Some(place) = self.found.place(group) else { return &[] };
        match self.bytes {
            Some(bytes) => original(bytes, place.start, place.end),
            None => self.path.as_bytes().get(place).unwrap_or_default(),
        }
    }

    fn expand_bytes(&self, template: &[Part], out: &mut Vec<u8>) {
        for part in template {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Group(group) => out.extend_from_slice(self.get(*group)),
                Part::Variable(variable) => out.extend_from_slice(&(self.fill)(variable)),
            }
        }
    }

    /// As nginx does it, groups are escaped by `escape_group`, and variables are taken as they are,
    /// except for what no query can have.
    fn expand(&self, template: &[Part], out: &mut String, escape_group: impl Fn(&[u8], &mut String)) {
        for part in template {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Group(group) => escape_group(self.get(*group), out),
                Part::Variable(variable) => escape(&(self.fill)(variable), out, is_of_query),
            }
        }
    }
}

impl Part {
    fn compile(part: &RewritePart, groups: usize) -> Result<Self, PolicyError> {
        Ok(match part {
            RewritePart::Text(text) => Self::Text((**text).into()),
            RewritePart::Group(group) if *group >= groups => {
                return Err(PolicyError::Rewrite(format!("group {group} of {groups}")));
            }
            RewritePart::Group(group) => Self::Group(*group),
            RewritePart::Variable(variable) => {
                let pieces = vec![Piece::Variable(variable.clone())];
                Self::Variable(Template::compile(&sluice_config::Template { pieces })?)
            }
        })
    }
}

/// The bytes that two places in their lossy reading stand for.
fn original(bytes: &[u8], start: usize, end: usize) -> &[u8] {
    let place = |wanted: usize| {
        let (mut lossy, mut real) = (0, 0);
        for chunk in bytes.utf8_chunks() {
            if wanted <= lossy + chunk.valid().len() {
                return real + (wanted - lossy);
            }
            lossy += chunk.valid().len();
            real += chunk.valid().len();
            if !chunk.invalid().is_empty() {
                lossy += char::REPLACEMENT_CHARACTER.len_utf8();
                real += chunk.invalid().len();
            }
        }
        real
    };
    bytes.get(place(start)..place(end)).unwrap_or_default()
}

fn escape(bytes: &[u8], out: &mut String, is_plain: impl Fn(u8) -> bool) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.reserve(bytes.len());
    for byte in bytes {
        match is_plain(*byte) {
            true => out.push(char::from(*byte)),
            false => {
                out.push('%');
                out.push(char::from(HEX[usize::from(byte >> 4)]));
                out.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
}

/// What nginx does not escape in a path that it has changed.
fn is_plain_in_path(byte: u8) -> bool {
    matches!(byte, b'!' | b'$' | b'&'..=b';' | b'=' | b'@'..=b'[' | b']' | b'_' | b'a'..=b'z' | b'~')
}

/// What nginx does not escape of a path that becomes part of a query.
fn is_plain_in_query(byte: u8) -> bool {
    is_plain_in_path(byte) && !matches!(byte, b'&' | b'+' | b';')
}

/// What can stand in a query at all.
fn is_of_query(byte: u8) -> bool {
    is_plain_in_path(byte) || matches!(byte, b'%' | b'?')
}

#[cfg(test)]
#[path = "rewrite/tests.rs"]
mod tests;
