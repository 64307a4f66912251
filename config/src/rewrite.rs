//! Rewriting of request paths (ingress-nginx `rewrite-target`).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::expression::Expression;
use crate::variable::Variable;

/// A rewrite of the request path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rewrite {
    /// A regular expression for the normalised path. The templates refer to its groups. Flags are
    /// part of the text. `None` if no template refers to a group.
    pub pattern: Option<Expression>,
    /// New path, unescaped. The data plane escapes it and adds a missing leading slash.
    pub path: RewriteTemplate,
    /// New query.
    pub query: RewriteQuery,
    /// Whether the result is a URL to which the client is redirected (302) instead.
    pub redirects: bool,
    /// Value of `X-Forwarded-Prefix` in the request; an empty value removes the field.
    pub forwarded_prefix: Option<RewriteTemplate>,
}

/// The new query of a rewritten request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RewriteQuery {
    /// Keeps the client's query.
    Keep,
    /// Replaces the query.
    Replace {
        /// The new query, with its literal text escaped.
        query: RewriteTemplate,
        /// Whether the client's query is appended.
        append: bool,
    },
}

/// A template with regular expression groups and variables.
pub type RewriteTemplate = Vec<RewritePart>;

/// A part of a [`RewriteTemplate`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RewritePart {
    /// Literal text.
    Text(Arc<str>),
    /// Text of the group with this number; empty if the group did not participate in the match.
    Group(usize),
    /// Value of a variable.
    Variable(Variable),
}
