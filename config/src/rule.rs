//! Rules: matches on requests and their actions.
//!
//! There is one entry per *match*: an object's rule with three matches becomes three entries that
//! share one action. Translation determines the order; see [`Host::rules`](crate::Host::rules).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::expression::ExtendedRegex;
use crate::name::{HostName, Origin, ServiceRef};
use crate::policy::Policies;
use crate::pool::PoolKey;
use crate::template::Template;

/// One match and its action.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rule {
    /// Conditions, all of which must hold.
    pub matches: Match,
    /// Action for matching requests.
    pub action: Action,
    /// Policies for the request and the response.
    pub policies: Arc<Policies>,
    /// Origin of the rule.
    pub origin: Arc<Origin>,
}

/// Conditions on a request head, combined with AND. A request that fails one is matched against the
/// next rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Match {
    /// Condition on the normalised path (percent-decoded, dot segments removed, slashes merged).
    pub path: PathMatch,
    /// Method in upper case; `None` matches all.
    pub method: Option<Arc<str>>,
    /// Conditions on header fields. Names are case-insensitive.
    pub headers: Vec<FieldMatch>,
    /// Conditions on query parameters. Names and values are case-sensitive; the first value of a
    /// name applies.
    pub query: Vec<FieldMatch>,
}

impl Match {
    /// Creates a match on the path only.
    pub fn path(path: PathMatch) -> Self {
        Self { path, method: None, headers: Vec::new(), query: Vec::new() }
    }
}

/// A condition on the path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PathMatch {
    /// The whole path, case-sensitive.
    Exact(Arc<str>),
    /// Whole path elements, case-sensitive: `/foo` matches `/foo` and `/foo/x` but not `/foobar`;
    /// `/` matches all. `/foo/` does not match `/foo`; a trailing slash is otherwise insignificant.
    Prefix(Arc<str>),
    /// A linear-time regular expression, searched in the path; anchors and flags are part of the
    /// text.
    Regex(Arc<str>),
    /// A regular expression with extended syntax.
    Extended(Arc<ExtendedRegex>),
}

/// A condition on a header field or query parameter.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FieldMatch {
    /// Name.
    pub name: Arc<str>,
    /// Condition on the value.
    pub value: TextMatch,
}

/// A condition on a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TextMatch {
    /// Equal.
    Exact(Arc<str>),
    /// A linear-time regular expression, searched in the text.
    Regex(Arc<str>),
}

/// The action for requests that match a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Action {
    /// Forwards to one of these backends, in proportion to their weights. Without a backend, or if
    /// all weights are 0, the response is 500.
    Forward(Vec<WeightedBackend>),
    /// Redirects the client.
    Redirect(Redirect),
    /// Redirects to the same target on this host, without a trailing slash, with the status code of
    /// redirects to https and the port of the socket (`from-to-www-redirect`).
    RedirectToHost(HostName),
    /// Responds with this status and its standard page.
    Answer(u16),
}

/// A backend and its weight.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WeightedBackend {
    /// Weight. A backend with weight 0 gets no new sessions but keeps existing ones.
    pub weight: u32,
    /// Backend.
    pub backend: Backend,
}

/// The destination of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Backend {
    /// An endpoint of a pool.
    Pool {
        /// Pool.
        pool: PoolKey,
        /// Service of the pool, for logs and messages.
        service: ServiceRef,
    },
    /// The program's default backend
    /// ([`GlobalSettings::default_backend`](crate::GlobalSettings::default_backend)), or the
    /// built-in 404.
    Default,
    /// An invalid backend. It keeps its weight, and its requests get this status.
    Invalid {
        /// 503 for an Ingress (missing Service), 500 for Gateway API.
        status: u16,
        /// The Service that the object refers to.
        service: Option<ServiceRef>,
        /// Reason, for messages.
        reason: Arc<str>,
    },
}

/// A redirect that depends on the request only.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Redirect {
    /// 300, 301, 302, 303, 307 or 308.
    pub status: u16,
    /// `None` keeps the request's.
    pub scheme: Option<Arc<str>>,
    /// `None` keeps the request's.
    pub host: Option<Arc<str>>,
    /// `None` derives the port from the scheme and the listener.
    pub port: Option<u16>,
    /// New path. The query is kept.
    pub path: RedirectPath,
}

/// The path of a redirect.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RedirectPath {
    /// Keeps the path.
    Keep,
    /// The path of the rule with a slash (nginx's response to `/foo` if only `/foo/` exists). Keeps
    /// the query. Not for expressions.
    AppendSlash,
    /// Replaces the path.
    Replace(Arc<str>),
    /// Replaces the path and drops the query; host and port stay as the client sent them
    /// (ingress-nginx `app-root`).
    ReplaceAll(Arc<str>),
    /// Replaces the path and drops the query (nginx's `return` with a path).
    Root(Arc<str>),
    /// This URL, independent of the request (ingress-nginx `permanent-redirect`,
    /// `temporal-redirect`).
    Url(Arc<str>),
    /// The same with variables of the request.
    UrlTemplate(Template),
}
