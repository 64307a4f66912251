//! A canary: a backend that takes some requests of a rule (ingress-nginx `canary-*`).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::name::ServiceRef;
use crate::pool::PoolKey;
use crate::rule::LookAheadRegex;

/// Another backend of a rule, and which requests it takes: the header decides first, then the cookie, then the weight.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Canary {
    /// Its endpoints.
    pub pool: PoolKey,
    /// Its Service, for people.
    pub service: ServiceRef,
    /// A field of the request.
    pub header: Option<CanaryHeader>,
    /// The name of a cookie: `always` chooses the canary, `never` the rule's own backend.
    pub cookie: Option<Arc<str>>,
    /// Of `total` requests that neither decides, so many go to the canary.
    pub weight: u32,
    /// At least 1.
    pub total: u32,
    /// Whether sessions of the rule stay with the side on which they began. If not, the canary knows no sessions.
    pub sticky: bool,
}

/// A field of the request that chooses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CanaryHeader {
    /// Its name.
    pub name: Arc<str>,
    /// What its value says.
    pub value: CanaryValue,
}

/// What the value of a field says.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CanaryValue {
    /// `always` chooses the canary, `never` the rule's own backend.
    AlwaysOrNever,
    /// This one chooses the canary.
    Exact(Arc<str>),
    /// One in which this linear-time regular expression is found chooses the canary.
    Regex(Arc<str>),
    /// The same with look-ahead.
    LookAhead(Arc<LookAheadRegex>),
    /// The expression cannot be read: requests with the field go to the rule's own backend, as in
    /// ingress-nginx.
    Unreadable,
}
