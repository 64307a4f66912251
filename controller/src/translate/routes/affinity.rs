//! Sticky sessions by cookie, whose path is that of each rule.

use std::sync::Arc;

use sluice_config::CookieAffinity;

/// Sticky sessions of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Affinity {
    /// `affinity: cookie`.
    pub(crate) enabled: bool,
    /// `session-cookie-path`; without it, each rule's own path.
    pub(crate) path: Option<Arc<str>>,
    /// The other attributes; their `path` is set for each rule.
    pub(crate) cookie: CookieAffinity,
}

impl Affinity {
    /// Returns whether the policy differs between paths.
    pub(crate) fn depends_on_path(&self) -> bool {
        self.enabled && self.path.is_none()
    }

    /// Returns the policy of a rule with this path.
    pub(crate) fn for_path(&self, path: &str) -> Option<CookieAffinity> {
        // A path that is invalid in a cookie must disable neither the sessions nor the routes.
        let path =
            self.path.clone().unwrap_or_else(|| if can_be_attribute(path) { path } else { "/" }.into());
        self.enabled.then(|| CookieAffinity { path, ..self.cookie.clone() })
    }
}

/// Returns whether a text is valid as an attribute of a cookie (RFC 6265 §4.1.1, `av-byte`).
pub(crate) fn can_be_attribute(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_graphic() && b != b';' && b != b',')
}
