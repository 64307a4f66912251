//! Rules: what a request is matched against, and what happens to it.
//!
//! One entry per *match*: an object's rule with three matches becomes three entries that share one action.
//! Order is data, made by translation; see [`Host::rules`](crate::Host::rules).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::name::{HostName, Origin, ServiceRef};
use crate::policy::Policies;
use crate::pool::PoolKey;

/// One match and its action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The conditions, all of which must hold.
    pub matches: Match,
    /// What then happens.
    pub action: Action,
    /// What is done to the request and the response on the way.
    pub policies: Arc<Policies>,
    /// Filters of Gateway API, in list order.
    pub filters: Vec<Filter>,
    /// Where this came from.
    pub origin: Arc<Origin>,
}

/// Conditions on a request head, ANDed. A request that fails one goes on to the next rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    /// On the normalised path (percent-decoded, dot segments removed, slashes merged).
    pub path: PathMatch,
    /// The method, upper case; `None` takes all.
    pub method: Option<Arc<str>>,
    /// Header fields; names are compared case-insensitively.
    pub headers: Vec<FieldMatch>,
    /// Query parameters; names and values are case-sensitive and the first value of a name counts.
    pub query: Vec<FieldMatch>,
}

impl Match {
    /// A match on the path alone.
    pub fn path(path: PathMatch) -> Self {
        Self { path, method: None, headers: Vec::new(), query: Vec::new() }
    }
}

/// A condition on the path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum PathMatch {
    /// The whole path, case-sensitive.
    Exact(Arc<str>),
    /// Whole path elements, case-sensitive: `/foo` takes `/foo` and `/foo/x`, not `/foobar`; `/` takes all.
    /// A trailing slash is significant only in that `/foo/` does not take `/foo`.
    Prefix(Arc<str>),
    /// A linear-time regular expression, searched in the path; anchors and flags are part of the text.
    Regex(Arc<str>),
    /// The same with look-ahead.
    LookAhead(Arc<LookAheadRegex>),
}

/// A regular expression with look-ahead, taken apart so that each part is searched in linear time: it matches a text
/// that its pattern matches and that all its conditions hold for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LookAheadRegex {
    /// As it was written, for people.
    pub text: Arc<str>,
    /// Without look-ahead. Its groups have the numbers that they have in the text.
    pub pattern: Arc<str>,
    /// What was ahead.
    pub conditions: Vec<LookAhead>,
}

/// What must be found in a text, or must not be.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LookAhead {
    /// A linear-time regular expression.
    pub pattern: Arc<str>,
    /// Whether it must not be found.
    pub negative: bool,
}

/// A condition on a header field or query parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldMatch {
    /// Name of the field.
    pub name: Arc<str>,
    /// What its value must be.
    pub value: TextMatch,
}

/// A condition on a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TextMatch {
    /// Equal.
    Exact(Arc<str>),
    /// A linear-time regular expression, searched in the text.
    Regex(Arc<str>),
}

/// What happens to a request that matched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Goes to one of these, each with a share of its weight over the sum. No entry, or all weights 0: 500.
    Forward(Vec<WeightedBackend>),
    /// Is answered with a redirect.
    Redirect(Redirect),
    /// Is answered with a redirect to the same target on this host, less a final slash, by the code of redirects to
    /// https and with the port of the socket (`from-to-www-redirect`).
    RedirectToHost(HostName),
    /// Is answered with this status and the standard page for it.
    Answer(u16),
}

/// A backend and its share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeightedBackend {
    /// Share of the requests; 0 takes none, but keeps sessions that it has.
    pub weight: u32,
    /// Where to.
    pub backend: Backend,
    /// Filters of this backend alone, after those of the rule.
    pub filters: Vec<Filter>,
}

/// Where a request goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Backend {
    /// To an endpoint of a pool.
    Pool {
        /// Which pool.
        pool: PoolKey,
        /// Its Service, for people.
        service: ServiceRef,
    },
    /// To the program's default backend ([`Tuning::default_backend`](crate::Tuning::default_backend)), else
    /// the built-in 404.
    Default,
    /// Nowhere, but it keeps its share: its requests get this status.
    Invalid {
        /// 503 for an Ingress (a Service that is missing), 500 for Gateway API.
        status: u16,
        /// What was asked for.
        service: Option<ServiceRef>,
        /// Why, for people.
        reason: Arc<str>,
    },
}

/// A redirect that needs nothing but the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redirect {
    /// 300, 301, 302, 303, 307 or 308.
    pub status: u16,
    /// `None` keeps the request's.
    pub scheme: Option<Arc<str>>,
    /// `None` keeps the request's.
    pub host: Option<Arc<str>>,
    /// `None` leaves the port to the scheme and the listener.
    pub port: Option<u16>,
    /// The new path. The query stays.
    pub path: RedirectPath,
}

/// What becomes of the path in a redirect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RedirectPath {
    /// Stays.
    Keep,
    /// Gets a final slash (nginx's answer to `/foo` where only `/foo/` is there).
    AppendSlash,
    /// Becomes this.
    Replace(Arc<str>),
    /// Becomes this, the query goes, and host and port stay as the client wrote them (ingress-nginx `app-root`).
    ReplaceAll(Arc<str>),
    /// Becomes this, and the query goes (nginx's `return` with a path).
    Root(Arc<str>),
    /// The Location is this URL, whatever was asked for (ingress-nginx `permanent-redirect`, `temporal-redirect`).
    Url(Arc<str>),
}

/// An ordered step of Gateway API on a rule or backend. Each knows its side: request, response or answer.
///
/// The data plane refuses a host that holds a filter it does not know how to carry out, so that a filter is
/// never skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Filter {
    /// Header changes on the request.
    RequestHeaders(HeaderChanges),
    /// Header changes on the response.
    ResponseHeaders(HeaderChanges),
}

/// Changes to header fields: first set, then add, then remove. The data plane refuses names that belong to it: those
/// of framing, of the connection and of routing (`Content-Length`, `Connection`, `Host` and the like).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderChanges {
    /// Replaces all values of a name.
    pub set: Vec<(Arc<str>, Arc<str>)>,
    /// Adds a value.
    pub add: Vec<(Arc<str>, Arc<str>)>,
    /// Removes all values of a name.
    pub remove: Vec<Arc<str>>,
}
