//! Which responses a purge removes.

use crate::cache::key::CachedUrl;

/// The responses to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purge {
    /// All.
    All,
    /// Those of this URL, with any query.
    Url(CachedUrl),
    /// Those of a host, and of paths that begin so; `None` is any.
    Of {
        /// The host in lower case, without a port.
        host: Option<Box<str>>,
        /// The path.
        path: Option<PurgedPath>,
    },
}

/// The paths of responses to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PurgedPath {
    /// This path.
    Exact(Box<str>),
    /// Paths that begin with this text.
    Prefix(Box<str>),
}

impl Purge {
    /// Returns whether responses of this URL are removed.
    pub(super) fn names(&self, url: &CachedUrl) -> bool {
        match self {
            Self::All => true,
            Self::Url(named) => url == named,
            Self::Of { host, path } => {
                host.as_ref().is_none_or(|host| *host == url.host)
                    && path.as_ref().is_none_or(|path| path.names(&url.path))
            }
        }
    }
}

impl PurgedPath {
    fn names(&self, path: &str) -> bool {
        match self {
            Self::Exact(named) => **named == *path,
            Self::Prefix(prefix) => path.starts_with(&**prefix),
        }
    }
}
