//! Users of digest authentication. The stored value is not a password but a digest of name, realm
//! and password (`HA1` of RFC 7616 §3.4.2). It is sufficient for a login, so it is never printed.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Users by realm.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestCredentials {
    /// Each realm once, sorted by name.
    pub realms: Vec<DigestRealm>,
}

/// The users of one realm. A user with several digests may use any of them.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestRealm {
    /// Realm that the digests include.
    pub name: Arc<str>,
    /// Users with an MD5 digest, each once, sorted by name.
    pub md5: Vec<(Arc<str>, [u8; 16])>,
    /// Users with a SHA-256 digest, each once, sorted by name.
    pub sha256: Vec<(Arc<str>, [u8; 32])>,
}

impl DigestCredentials {
    /// Returns the users of the realm `name`.
    pub fn realm(&self, name: &str) -> Option<&DigestRealm> {
        let at = self.realms.binary_search_by(|realm| (*realm.name).cmp(name)).ok()?;
        self.realms.get(at)
    }
}

impl fmt::Debug for DigestRealm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestRealm").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn realms_are_found_by_name_and_no_digest_is_printed() {
        let realm = |name: &str| DigestRealm {
            name: name.into(),
            md5: vec![("ann".into(), [0xab; 16])],
            sha256: Vec::new(),
        };
        let users = DigestCredentials { realms: vec![realm(""), realm("shop")] };
        assert_eq!(users.realm("shop").map(|realm| realm.md5.len()), Some(1));
        assert!(users.realm("").is_some() && users.realm("other").is_none());
        assert!(!format!("{users:?}").contains("171"), "{users:?}");
    }
}
