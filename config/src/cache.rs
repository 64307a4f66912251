//! Caching of responses (RFC 9111): `sluice.dev/cache` and `sluice.dev/cache-*`.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The cache settings of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cache {
    /// How long a response is fresh that does not specify it; `None` does not store it.
    pub ttl: Option<Duration>,
    /// The parts of a request that select a stored response, besides the rule and its backend.
    pub key: Arc<[CacheKeyPart]>,
    /// Whether HEAD requests are answered from stored responses.
    pub head: bool,
    /// Statuses of responses that may be stored.
    pub statuses: Arc<[u16]>,
    /// How long a stale response is sent while it is fetched again, unless it specifies it.
    pub stale_while_revalidate: Duration,
    /// How long a stale response is sent when fetching fails, unless it specifies it.
    pub stale_if_error: Duration,
}

/// A part of a request that selects a stored response.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CacheKeyPart {
    /// Host and port.
    Host,
    /// The path.
    Path,
    /// The whole query.
    Query,
    /// All values of a parameter of the query.
    Parameter(Arc<str>),
    /// All values of a field, by its name in lower case.
    Field(Arc<str>),
    /// The value of a cookie.
    Cookie(Arc<str>),
}

/// Statuses that are stored by default, as with nginx's `proxy_cache_valid`.
pub const STORED_STATUSES: [u16; 3] = [200, 301, 302];

impl Default for Cache {
    fn default() -> Self {
        Self {
            ttl: None,
            key: [CacheKeyPart::Host, CacheKeyPart::Path, CacheKeyPart::Query].into(),
            head: true,
            statuses: STORED_STATUSES.into(),
            stale_while_revalidate: Duration::ZERO,
            stale_if_error: Duration::ZERO,
        }
    }
}
