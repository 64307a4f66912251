//! Sticky sessions by cookie, whose path is that of each rule.

use std::sync::Arc;

use sluice_config::{AffinityMode, CookieAffinity};

/// How the sessions of an object stick.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Affinity {
    /// `affinity: cookie`.
    pub(crate) enabled: bool,
    /// `session-cookie-path`; without it, each rule's own path.
    pub(crate) path: Option<Arc<str>>,
    /// The rest, whose own `path` is filled in per rule.
    pub(crate) cookie: CookieAffinity,
}

impl Default for Affinity {
    fn default() -> Self {
        let cookie = CookieAffinity {
            mode: AffinityMode::Balanced,
            name: "INGRESSCOOKIE".into(),
            path: "/".into(),
            domain: None,
            secure: false,
            same_site: None,
            conditional_same_site_none: false,
            expires: None,
            max_age: None,
            change_on_failure: false,
        };
        Self { enabled: false, path: None, cookie }
    }
}

impl Affinity {
    /// Whether the policy differs from path to path.
    pub(crate) fn depends_on_path(&self) -> bool {
        self.enabled && self.path.is_none()
    }

    /// The policy of a rule with this path.
    pub(crate) fn for_path(&self, path: &str) -> Option<CookieAffinity> {
        // A path that no cookie can have must not cost the object its sessions, nor its host its routes.
        let path =
            self.path.clone().unwrap_or_else(|| if can_be_attribute(path) { path } else { "/" }.into());
        self.enabled.then(|| CookieAffinity { path, ..self.cookie.clone() })
    }
}

/// Whether a text cannot end the attribute of a cookie (RFC 6265 §4.1.1, `av-byte`).
pub(crate) fn can_be_attribute(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_graphic() && b != b';' && b != b',')
}
