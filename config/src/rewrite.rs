//! What a request's path becomes on its way to the endpoint (ingress-nginx `rewrite-target`).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::template::Variable;

/// A new path, with parts of the old one in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rewrite {
    /// A linear-time regular expression that is searched in the normalised path and whose groups the templates name;
    /// flags are part of the text. `None` where they name none.
    pub pattern: Option<Arc<str>>,
    /// The new path, not escaped. The data plane escapes it and puts a slash before it where there is none.
    pub path: RewriteTemplate,
    /// The new query.
    pub query: RewriteQuery,
    /// The client is redirected (302) to the result, which is a URL, in place of the request being sent on.
    pub redirects: bool,
    /// The field `X-Forwarded-Prefix` of the request; empty removes it.
    pub forwarded_prefix: Option<RewriteTemplate>,
}

/// What becomes of the query.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RewriteQuery {
    /// Stays.
    Keep,
    /// Is this, and what the client sent after it where `append` says so.
    Replace {
        /// The query, its own text escaped.
        query: RewriteTemplate,
        /// Whether the client's comes behind it.
        append: bool,
    },
}

/// A text with groups of a regular expression and variables in it.
pub type RewriteTemplate = Vec<RewritePart>;

/// A part of a [`RewriteTemplate`].
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RewritePart {
    /// As it stands.
    Text(Arc<str>),
    /// What the group of this number has matched; nothing where it took no part.
    Group(usize),
    /// What a request makes of a variable.
    Variable(Variable),
}
