//! `rewrite-target`: replaces the path and query for the endpoint; groups of the expression insert
//! parts of the client's path.
//!
//! The rules are those of nginx, because they are visible to each backend of a rewriting route. The
//! expression is searched in the normalised, decoded path; the result replaces the whole path and
//! is escaped again. `%20` thus arrives as `%20`, and `%2F` as the slash that the expression
//! matched. The client's query is kept, and follows the query of the template, if there is one.

use std::borrow::Cow;
use std::ops::Range;

use http::header::HeaderValue;
use regex::bytes::{Captures, Regex};
use sluice_config::{Expression, RewritePart, RewriteQuery, TemplatePiece};
use sluice_expression::{SimpleExpression, SimpleMatch};

use super::error::PolicyError;
use super::outgoing::Outgoing;
use super::template::Template;
use crate::expression::{ExtendedMatcher, GroupRanges, bounded_bytes_regex};
use crate::message::edit::RequestTarget;
use crate::message::target;
use crate::router::normal_bytes;

/// A compiled rewrite.
#[derive(Debug)]
pub struct Rewrite {
    pattern: Option<PathExpression>,
    path: Box<[Part]>,
    query: Option<OwnQuery>,
    redirects: bool,
    forwarded_prefix: Option<Box<[Part]>>,
}

/// The query of a template.
#[derive(Debug)]
struct OwnQuery {
    parts: Box<[Part]>,
    /// Whether the client's query is appended.
    appends: bool,
}

/// A part of a template.
#[derive(Debug)]
enum Part {
    Text(Box<str>),
    Group(usize),
    Variable(Template),
}

/// The expression that is searched in the path.
#[derive(Debug)]
enum PathExpression {
    Simple(SimpleExpression),
    Other(Regex),
    Extended(ExtendedMatcher),
}

/// Result of a rewrite.
#[derive(Debug, PartialEq, Eq)]
pub enum Rewritten {
    /// The request is forwarded with these changes.
    Outgoing(Outgoing),
    /// The client is redirected to this Location.
    Location(String),
}

impl PathExpression {
    fn compile(expression: &Expression) -> Result<Self, PolicyError> {
        let pattern = match expression {
            Expression::Plain(pattern) => pattern,
            Expression::Extended(regex) => {
                let bad = |error| PolicyError::Rewrite(format!("expression `{}`: {error}", regex.text));
                return ExtendedMatcher::compile(regex).map(Self::Extended).map_err(bad);
            }
        };
        if let Some(simple) = SimpleExpression::of(pattern) {
            return Ok(Self::Simple(simple));
        }
        let bad = |error| PolicyError::Rewrite(format!("expression `{pattern}`: {error}"));
        bounded_bytes_regex(pattern).map(Self::Other).map_err(bad)
    }

    /// Returns the number of groups, including the whole match.
    fn groups(&self) -> usize {
        match self {
            Self::Simple(expression) => expression.groups(),
            Self::Other(regex) => regex.captures_len(),
            Self::Extended(regex) => regex.group_count(),
        }
    }

    /// Returns the name of each group; the first is the whole match.
    fn group_names(&self) -> Vec<Option<&str>> {
        match self {
            Self::Simple(_) => Vec::new(),
            Self::Other(regex) => regex.capture_names().collect(),
            Self::Extended(regex) => regex.group_names(),
        }
    }
}

impl Rewrite {
    /// Compiles a rewrite.
    ///
    /// # Errors
    /// The expression is malformed or too large, a template refers to a group that it does not
    /// have, or a query contains invalid characters.
    pub fn compile(rewrite: &sluice_config::Rewrite) -> Result<Self, PolicyError> {
        let sluice_config::Rewrite { pattern, path, query, redirects, forwarded_prefix } = rewrite;
        let pattern = pattern.as_ref().map(PathExpression::compile).transpose()?;
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

    /// Returns the match; `None` if the expression does not match.
    fn search<'p>(&self, path: &'p str) -> Option<Found<'p>> {
        match &self.pattern {
            None => Some(Found::Nowhere),
            Some(PathExpression::Simple(expression)) => expression.find(path).map(Found::Simple),
            Some(PathExpression::Other(regex)) => regex.captures(path.as_bytes()).map(Found::Captures),
            Some(PathExpression::Extended(regex)) => regex.groups(path.as_bytes()).map(Found::Ranges),
        }
    }

    /// Rewrites a request. `target` is the target as received, `path` its normalised path, and
    /// `fill` evaluates a variable. Returns `None` if the expression does not match; the request is
    /// not changed then.
    ///
    /// # Errors
    /// The result is not a valid request target.
    pub fn apply(
        &self,
        target: &str,
        path: &str,
        fill: &dyn Fn(&Template) -> Vec<u8>,
    ) -> Result<Option<Rewritten>, NoTarget> {
        match self.find(target, path)? {
            Some(found) => self.expand(target, &found, fill).map(Some),
            None => Ok(None),
        }
    }

    /// Searches the expression in the normalised path of a target.
    ///
    /// # Errors
    /// The target is not valid.
    pub(crate) fn find<'p>(
        &self,
        target: &'p str,
        path: &'p str,
    ) -> Result<Option<RewriteMatch<'p>>, NoTarget> {
        let Some(found) = self.search(path) else { return Ok(None) };
        // If the path is not UTF-8, the expression searched a lossy copy. The result uses the
        // original bytes.
        let bytes = match path.contains(char::REPLACEMENT_CHARACTER) {
            true => Some(normal_bytes(target::split(target).0).map_err(|_| NoTarget)?),
            false => None,
        };
        let count = self.pattern.as_ref().map_or(0, PathExpression::groups);
        Ok(Some(RewriteMatch { found, count, path, bytes }))
    }

    /// Returns the name of each group of the expression; the first is the whole match.
    pub(super) fn group_names(&self) -> Vec<Option<&str>> {
        self.pattern.as_ref().map(PathExpression::group_names).unwrap_or_default()
    }

    /// Rewrites a request whose path has a match.
    ///
    /// # Errors
    /// The result is not a valid request target.
    pub(crate) fn expand(
        &self,
        target: &str,
        found: &RewriteMatch<'_>,
        fill: &dyn Fn(&Template) -> Vec<u8>,
    ) -> Result<Rewritten, NoTarget> {
        let (raw_path, query) = target::split(target);
        let groups = Groups { found, fill };
        let mut text = String::with_capacity(target.len() + 16);
        match self.redirects {
            // Delimiters such as `&` stay in a Location as they are, as in nginx. A decoded `?` is
            // escaped, because it would begin the query.
            true => groups.expand(&self.path, &mut text, |part, out| escape(part, out, is_plain_in_path)),
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
            let (start, coded) = (text.len(), raw_path.contains(['%', '+']));
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
        // As in nginx, an empty query is left out.
        if let Some(query) = query.filter(|query| appends && !query.is_empty()) {
            text.push(separator);
            text.push_str(query);
        }
        if self.redirects {
            return Ok(Rewritten::Location(text));
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
        Ok(Rewritten::Outgoing(Outgoing { target, forwarded_prefix }))
    }
}

/// The result of a rewrite is not a valid request target. The status is 400, because only the
/// client's input can cause this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoTarget;

/// A match of the expression, with its groups.
enum Found<'a> {
    /// No expression, and therefore no groups.
    Nowhere,
    Captures(Captures<'a>),
    Simple(SimpleMatch),
    Ranges(GroupRanges),
}

impl Found<'_> {
    fn place(&self, group: usize) -> Option<Range<usize>> {
        match self {
            Found::Nowhere => None,
            Found::Captures(captures) => captures.get(group).map(|found| found.range()),
            Found::Simple(ranges) => ranges.get(group).cloned().flatten(),
            Found::Ranges(ranges) => ranges.get(group).cloned().flatten(),
        }
    }
}

/// A match of the expression of a rewrite.
pub(crate) struct RewriteMatch<'p> {
    found: Found<'p>,
    /// Number of groups, including the whole match.
    count: usize,
    path: &'p str,
    /// The path as bytes, if it is not UTF-8.
    bytes: Option<Cow<'p, [u8]>>,
}

impl RewriteMatch<'_> {
    /// Returns the texts of the groups, without the whole match.
    pub(crate) fn groups(&self) -> Vec<Vec<u8>> {
        (1..self.count).map(|group| self.get(group).to_vec()).collect()
    }

    fn get(&self, group: usize) -> &[u8] {
        let Some(place) = self.found.place(group) else { return &[] };
        match &self.bytes {
            Some(bytes) => original(bytes, place.start, place.end),
            None => self.path.as_bytes().get(place).unwrap_or_default(),
        }
    }
}

/// The groups of a match and the variables of the request.
struct Groups<'a> {
    found: &'a RewriteMatch<'a>,
    /// Evaluates a variable.
    fill: &'a dyn Fn(&Template) -> Vec<u8>,
}

impl Groups<'_> {
    fn expand_bytes(&self, template: &[Part], out: &mut Vec<u8>) {
        for part in template {
            match part {
                Part::Text(text) => out.extend_from_slice(text.as_bytes()),
                Part::Group(group) => out.extend_from_slice(self.found.get(*group)),
                Part::Variable(variable) => out.extend_from_slice(&(self.fill)(variable)),
            }
        }
    }

    /// Appends a template. As in nginx, groups are escaped by `escape_group`, and variables are
    /// inserted unchanged, except for characters that a query cannot contain.
    fn expand(&self, template: &[Part], out: &mut String, escape_group: impl Fn(&[u8], &mut String)) {
        for part in template {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Group(group) => escape_group(self.found.get(*group), out),
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
                let pieces = vec![TemplatePiece::Variable(variable.clone())];
                Self::Variable(Template::compile(&sluice_config::Template { pieces })?)
            }
        })
    }
}

/// Returns the bytes for the range `start..end` of the lossy decoding of `bytes`.
fn original(bytes: &[u8], start: usize, end: usize) -> &[u8] {
    let place = |wanted: usize| {
        let (mut lossy, mut real) = (0, 0);
        for chunk in bytes.utf8_chunks() {
            if wanted <= lossy + chunk.valid().len() {
                // A group may end within a replacement character.
                return real + wanted.saturating_sub(lossy);
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

/// Escapes a path as nginx does (`NGX_ESCAPE_URI`).
pub(super) fn escape_path(path: &str, out: &mut String) {
    escape(path.as_bytes(), out, is_plain_in_path);
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

/// Characters that nginx does not escape in a rewritten path.
fn is_plain_in_path(byte: u8) -> bool {
    matches!(byte, b'!' | b'$' | b'&'..=b';' | b'=' | b'@'..=b'[' | b']' | b'_' | b'a'..=b'z' | b'~')
}

/// Characters that nginx does not escape if a part of a path is inserted into a query.
fn is_plain_in_query(byte: u8) -> bool {
    is_plain_in_path(byte) && !matches!(byte, b'&' | b'+' | b';')
}

/// Characters that a query may contain.
fn is_of_query(byte: u8) -> bool {
    is_plain_in_path(byte) || matches!(byte, b'%' | b'?')
}

#[cfg(test)]
#[path = "rewrite/tests.rs"]
mod tests;
