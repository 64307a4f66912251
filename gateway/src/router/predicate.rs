//! Conditions besides the path: method, header fields and query parameters. All of them must hold.

use std::borrow::Cow;
use std::sync::Arc;

use http::HeaderName;
use sluice_config::{FieldMatch, Match, TextMatch};

use super::error::RouterError;
use super::query;
use super::request_view::RequestView;
use crate::expression::bounded_bytes_regex;
use crate::message::fields::Fields;

/// The conditions of a match besides its path.
pub(super) struct Predicates {
    method: Option<Arc<str>>,
    headers: Box<[(HeaderName, Text)]>,
    query: Box<[(Arc<str>, Text)]>,
}

/// A compiled condition on a value. It matches bytes, because header values need not be UTF-8.
enum Text {
    Exact(Arc<str>),
    Regex(regex::bytes::Regex),
}

/// The first condition that does not hold.
pub(super) enum Missing<'p> {
    Method,
    Header(&'p HeaderName),
    Query(&'p str),
}

impl Predicates {
    /// Compiles the conditions; `None` if the match has only a path. Of several conditions with the
    /// same name only the first one counts (Gateway API, `HTTPHeaderMatch.name`).
    pub(super) fn compile(matches: &Match) -> Result<Option<Box<Self>>, RouterError> {
        let Match { path: _, method, headers, query } = matches;
        if method.is_none() && headers.is_empty() && query.is_empty() {
            return Ok(None);
        }
        let header_name = |name: &str| {
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| RouterError::HeaderName(name.to_owned()))
        };
        Ok(Some(Box::new(Self {
            method: method.clone(),
            headers: compile_fields(headers, |name| header_name(name))?,
            query: compile_fields(query, |name| Ok(name.clone()))?,
        })))
    }

    pub(super) fn hold(&self, request: &RequestView<'_, impl Fields>) -> bool {
        self.missing(request).is_none()
    }

    /// Returns the first condition that does not hold.
    pub(super) fn missing(&self, request: &RequestView<'_, impl Fields>) -> Option<Missing<'_>> {
        if self.method.as_deref().is_some_and(|method| method != request.method) {
            return Some(Missing::Method);
        }
        let header = self.headers.iter().find(|(name, text)| {
            !header_value(request.headers, name).is_some_and(|value| text.holds(&value))
        });
        if let Some((name, _)) = header {
            return Some(Missing::Header(name));
        }
        let parameter = self.query.iter().find(|(name, text)| {
            let value = request.query.and_then(|query| query::first_value(query, name));
            !value.is_some_and(|value| text.holds(&value))
        });
        parameter.map(|(name, _)| Missing::Query(name))
    }
}

fn compile_fields<N: PartialEq>(
    fields: &[FieldMatch],
    name: impl Fn(&Arc<str>) -> Result<N, RouterError>,
) -> Result<Box<[(N, Text)]>, RouterError> {
    let mut compiled: Vec<(N, Text)> = Vec::with_capacity(fields.len());
    for field in fields {
        let name = name(&field.name)?;
        if !compiled.iter().any(|(earlier, _)| *earlier == name) {
            compiled.push((name, Text::compile(&field.value)?));
        }
    }
    Ok(compiled.into())
}

/// Returns the value of a field. Several lines with one name are joined by commas (RFC 9110 section
/// 5.3), so that a client cannot satisfy a condition by adding a second line.
fn header_value<'h>(headers: &'h impl Fields, name: &'h HeaderName) -> Option<Cow<'h, [u8]>> {
    let mut lines = headers.lines(name);
    let first = lines.next()?;
    Some(lines.fold(Cow::Borrowed(first), |mut joined, line| {
        joined.to_mut().push(b',');
        joined.to_mut().extend_from_slice(line);
        joined
    }))
}

impl Text {
    fn compile(text: &TextMatch) -> Result<Self, RouterError> {
        match text {
            TextMatch::Exact(value) => Ok(Self::Exact(value.clone())),
            TextMatch::Regex(pattern) => bounded_bytes_regex(pattern)
                .map(Self::Regex)
                .map_err(|error| RouterError::regex(pattern, &error)),
        }
    }

    fn holds(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(text) => text.as_bytes() == value,
            Self::Regex(regex) => regex.is_match(value),
        }
    }
}
