//! Directives of nginx's configuration, typed: the result of translating snippets.
//!
//! nginx runs the directives of its rewrite module (`set`, `if`, `rewrite`, `return`, `break`) as a
//! small program, and reads all others from the block that is in effect when the program ends. The
//! control plane resolves the inheritance of blocks, so each [`Scope`] lists all changes that apply
//! in it.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::access::Network;
use crate::expression::Expression;
use crate::rewrite::Rewrite;
use crate::template::Template;

/// The directives that apply to the requests of one rule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Directives {
    /// The server. Its program runs before a location is chosen, and its changes apply to the
    /// answers of that program.
    pub server: Location,
    /// `location` blocks of the server. One that takes a request replaces the rule.
    pub blocks: Vec<LocationBlock>,
    /// The location of the rule.
    pub location: Location,
    /// Whether nginx has this location as an expression, as all of a host with one (`use-regex`).
    /// It precedes blocks with a prefix then, also if the rule matches a prefix.
    pub is_expression: bool,
}

/// Directives of one location, or of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Location {
    /// Program of the location.
    pub program: Vec<Instruction>,
    /// Changes that apply. The first scope is that of the location itself; an `if` whose condition
    /// holds selects another one. Never empty, except in a location without changes of heads.
    pub scopes: Vec<Scope>,
    /// Fields of the request for the endpoint (`proxy_set_header`, `grpc_set_header`).
    pub request: Vec<FieldChange>,
    /// `allow` and `deny`, in order; the first network that contains the client decides.
    pub access: Vec<AccessRule>,
    /// `limit_req` and `limit_conn`.
    pub limits: ZoneLimits,
    /// `sub_filter`
    pub substitution: Option<Substitution>,
}

/// Texts that are replaced in responses of endpoints, whatever the case of their ASCII letters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Substitution {
    /// The texts with their replacements.
    pub texts: Vec<(Arc<str>, Template)>,
    /// Each text is replaced once per response.
    pub once: bool,
    /// Media types besides `text/html`; `*` is all.
    pub types: Vec<Arc<str>>,
    /// Keeps `Last-Modified`, and `ETag` as a weak one.
    pub keeps_last_modified: bool,
}

/// Limits by zone: their keys and rates are those of the zones of `http-snippet`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ZoneLimits {
    /// `limit_req`; a request that exceeds one counts for none.
    pub rates: Vec<RateLimit>,
    /// `limit_conn`.
    pub concurrency: Vec<ConcurrencyLimit>,
    /// Status of requests that exceed a rate; `None` is that of the global settings.
    pub rate_status: Option<u16>,
    /// Status of requests that exceed a number; `None` is that of the global settings.
    pub concurrency_status: Option<u16>,
    /// Requests that exceed a rate are neither counted nor refused (`limit_req_dry_run`).
    pub rate_dry_run: bool,
    /// The same for the number of requests (`limit_conn_dry_run`).
    pub concurrency_dry_run: bool,
}

/// A limit on the rate of requests with the same key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RateLimit {
    /// Name of the zone, whose requests are counted together.
    pub zone: Arc<str>,
    /// Requests with an empty key are not limited.
    pub key: Template,
    /// Time between two requests.
    pub interval: Duration,
    /// Requests that may come early.
    pub burst: u32,
    /// Of those, the requests that are not delayed; `None` for all.
    pub undelayed: Option<u32>,
}

/// A limit on the number of concurrent requests with the same key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ConcurrencyLimit {
    /// Name of the zone, whose requests are counted together.
    pub zone: Arc<str>,
    /// Requests with an empty key are not limited.
    pub key: Template,
    /// The maximum number.
    pub most: u32,
}

/// Changes of heads that apply in a location or an `if` block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Scope {
    /// Changes of the client's fields before the gateway adds its own (`more_set_input_headers`,
    /// `more_clear_input_headers`).
    pub input: Vec<FieldChange>,
    /// Fields removed from responses of endpoints, in lower case (`proxy_hide_header`).
    pub hidden: Vec<Arc<str>>,
    /// Fields of endpoints that the global settings hide, and clients see (`proxy_pass_header`).
    pub passed: Vec<Arc<str>>,
    /// Changes of the response, in order.
    pub response: Vec<ResponseChange>,
    /// How many of them, the first, apply before the fields of `custom-headers` and CORS, which
    /// ingress-nginx's template writes behind the snippets of a location.
    pub of_location: usize,
    /// Content type of responses with the text of `return` (`default_type`); `None` is `text/html`.
    pub default_type: Option<Arc<str>>,
}

/// A change of one field.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FieldChange {
    /// Name in lower case; not one of [`OWN_FIELDS`](crate::OWN_FIELDS).
    pub name: Arc<str>,
    /// The change.
    pub operation: FieldOperation,
}

/// What happens to a field.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FieldOperation {
    /// Replaces all values. An empty value removes the field.
    Set(Template),
    /// Replaces all values if the field is present (`-r` of headers-more).
    Replace(Template),
    /// Adds a value. An empty value adds nothing.
    Append(Template),
    /// Sets a time so many seconds from now, as an HTTP date (`expires`).
    SetDate(i64),
    /// Removes the field.
    Remove,
    /// Removes all fields whose names start with this name.
    RemovePrefix,
}

/// A change of the response and its conditions.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResponseChange {
    /// The change.
    pub change: FieldChange,
    /// Whether it is of the same directive as the change before it. A directive tests its
    /// conditions once, so an earlier change of its own does not affect them.
    pub is_continuation: bool,
    /// Statuses of the responses that it applies to.
    pub statuses: Statuses,
    /// Content types of the responses that it applies to, without parameters; empty for all.
    pub content_types: Vec<Arc<str>>,
}

/// Statuses of responses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Statuses {
    /// All.
    All,
    /// 200, 201, 204, 206, 301, 302, 303, 304, 307 and 308: those of `add_header` without `always`.
    Usual,
    /// These.
    These(Vec<u16>),
}

/// One directive of the rewrite module.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Instruction {
    /// `set`
    Set {
        /// Name of the variable, without `$`, in lower case. A group of an expression with this
        /// name assigns it, too.
        variable: Arc<str>,
        /// Its value.
        value: Template,
    },
    /// `if`
    If {
        /// The condition.
        condition: Condition,
        /// The scope that it selects, by position; `None` in a server.
        scope: Option<u16>,
        /// The program of the block.
        then: Vec<Instruction>,
    },
    /// `rewrite`
    Rewrite {
        /// The expression, and the new path or URL.
        rewrite: Rewrite,
        /// What follows if the expression matches.
        then: AfterRewrite,
    },
    /// `return`
    Return(Return),
    /// `break`
    Break,
}

/// What follows a `rewrite` whose expression matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AfterRewrite {
    /// `break`: the program ends, and the endpoint gets the new path.
    Stay,
    /// `last`: the program ends, and the location is chosen anew for the new path.
    Last,
    /// No flag: the program continues with the new path. If its end is reached, the location is
    /// chosen anew.
    Continue,
    /// `redirect` (302), `permanent` (301), or a URL as the replacement (302).
    Redirect(u16),
}

/// The condition of an `if`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Condition {
    /// The value is neither empty nor `0`.
    Truth(Template),
    /// `=` and, negated, `!=`.
    Equal {
        /// Left side.
        value: Template,
        /// Right side.
        other: Template,
        /// Whether the condition is negated.
        negated: bool,
    },
    /// `~`, `~*` and, negated, `!~`, `!~*`.
    Match {
        /// Value in which the expression is searched.
        value: Template,
        /// The expression. Flags are part of its text.
        expression: Expression,
        /// Whether the condition is negated.
        negated: bool,
    },
}

/// `return`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Return {
    /// A status from 400 on with its standard page.
    Page(u16),
    /// No response: the connection closes, or the stream is reset (444).
    Close,
    /// A status with this text, which may be empty.
    Text {
        /// The status.
        status: u16,
        /// The body.
        body: Template,
    },
    /// A redirect to this URL, or path of the same host.
    Redirect {
        /// 301, 302, 303, 307 or 308.
        status: u16,
        /// Value of `Location`.
        location: Template,
    },
}

/// `allow` or `deny`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AccessRule {
    /// The clients; `None` is `all`.
    pub network: Option<Network>,
    /// Whether they are admitted.
    pub allows: bool,
}

/// A `location` block of a server. A request that it takes gets an answer of the gateway: that of
/// `return`, 403 or, without a handler as here, 404.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LocationBlock {
    /// The paths that it takes.
    pub matches: LocationMatch,
    /// Its directives.
    pub location: Location,
}

/// The paths that a `location` block takes, with nginx's precedence.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LocationMatch {
    /// `=`: this path.
    Exact(Arc<str>),
    /// Paths that start with this text; the longest wins, unless an expression matches.
    Prefix(Arc<str>),
    /// `^~`: the same, and expressions are not searched if it is the longest.
    FinalPrefix(Arc<str>),
    /// `~` and `~*`: the first in order wins.
    Expression(Expression),
}

impl Directives {
    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.server.is_empty() && self.blocks.is_empty() && self.location.is_empty()
    }
}

impl Location {
    /// Returns whether it has no directives.
    pub fn is_empty(&self) -> bool {
        self.program.is_empty()
            && self.request.is_empty()
            && self.access.is_empty()
            && self.substitution.is_none()
            && self.limits.rates.is_empty()
            && self.limits.concurrency.is_empty()
            && self.scopes.iter().all(|scope| *scope == Scope::default())
    }
}

impl Statuses {
    /// Returns whether `status` is one of them.
    pub fn contain(&self, status: u16) -> bool {
        match self {
            Self::All => true,
            Self::Usual => matches!(status, 200 | 201 | 204 | 206 | 301..=304 | 307 | 308),
            Self::These(statuses) => statuses.contains(&status),
        }
    }
}
