//! Canaries: backends that receive a part of a rule's requests (ingress-nginx `canary-*`).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::expression::ExtendedRegex;
use crate::name::{ObjectRef, ServiceRef};
use crate::pool::{HashBy, PoolKey};

/// A canary of a rule. The header decides first, then the cookie, then the weight.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Canary {
    /// The object that defines the canary.
    pub object: ObjectRef,
    /// Pool of the canary's endpoints.
    pub pool: PoolKey,
    /// Service of the canary, for logs and messages.
    pub service: ServiceRef,
    /// Header field that selects the canary.
    pub header: Option<CanaryHeader>,
    /// Name of the cookie: `always` selects the canary, `never` the rule's own backend.
    pub cookie: Option<Arc<str>>,
    /// Number of requests out of `total` for the canary, if neither header nor cookie decides.
    pub weight: u32,
    /// Sum of all weights, at least 1.
    pub total: u32,
    /// Key for consistent hashing over the canary's endpoints, for requests without a session.
    pub hash_by: Option<Arc<HashBy>>,
    /// Whether a session stays on the backend on which it began. If not, the canary has no
    /// sessions.
    pub sticky: bool,
}

/// A request header field that selects the canary.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CanaryHeader {
    /// Field name.
    pub name: Arc<str>,
    /// Condition on the field's value.
    pub value: CanaryValue,
}

/// A condition on the value of the canary header.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CanaryValue {
    /// `always` chooses the canary, `never` the rule's own backend.
    AlwaysOrNever,
    /// This value selects the canary.
    Exact(Arc<str>),
    /// A linear-time regular expression that selects the canary if it matches anywhere in the
    /// value.
    Regex(Arc<str>),
    /// The same, for an expression with extended syntax.
    Extended(Arc<ExtendedRegex>),
    /// The expression is invalid. Requests with the field go to the rule's own backend, as in
    /// ingress-nginx.
    Unreadable,
}
