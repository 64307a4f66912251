//! The outcome of the cache for a request.

/// The outcome of the cache for a request, as nginx's `$upstream_cache_status` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheStatus {
    /// A stored response was sent.
    Hit,
    /// The response of an endpoint was sent, because none was stored.
    Miss,
    /// The cache was not consulted.
    Bypass,
    /// The response of an endpoint was sent, because the stored one was stale.
    Expired,
    /// A stale response was sent, because the endpoint failed.
    Stale,
    /// A stale response was sent while it is fetched again.
    Updating,
    /// A stale response was sent after the endpoint confirmed it.
    Revalidated,
}

impl CacheStatus {
    /// All outcomes.
    pub const ALL: [Self; 7] =
        [Self::Hit, Self::Miss, Self::Bypass, Self::Expired, Self::Stale, Self::Updating, Self::Revalidated];

    /// Returns nginx's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "HIT",
            Self::Miss => "MISS",
            Self::Bypass => "BYPASS",
            Self::Expired => "EXPIRED",
            Self::Stale => "STALE",
            Self::Updating => "UPDATING",
            Self::Revalidated => "REVALIDATED",
        }
    }
}
