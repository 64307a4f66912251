//! Resources: what rules name by a key and what other objects hold, such as the users of a Secret. Each is an entry of
//! its own in a [`Delta`](crate::Delta), so that an edited Secret costs one entry and none of the hosts that name it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::DigestCredentials;
use crate::name::NamespacedName;
use crate::template::Template;
use crate::upstream_tls::EndpointIdentity;

/// Identity of a resource: what is made of an object, and that object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ResourceKey {
    /// What is made of it.
    pub kind: ResourceKind,
    /// The Secret or ConfigMap.
    pub name: NamespacedName,
}

/// What is made of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ResourceKind {
    /// [`Credentials`] from an htpasswd text in the key `auth` of a Secret.
    PasswordFile,
    /// [`Credentials`] from a Secret with one key for each user.
    PasswordMap,
    /// [`DigestCredentials`] from an htdigest text in the key `auth` of a Secret.
    DigestFile,
    /// [`DigestCredentials`] from a Secret with one key for each user.
    DigestMap,
    /// A [`HeaderSet`] from a ConfigMap with one key for each field of a request, for one rule: all of it or nothing.
    Headers,
    /// The same for all rules, without the fields that cannot be used.
    GlobalHeaders,
    /// A [`HeaderSet`] from a ConfigMap with one key for each field of the responses of one rule: all of it or nothing,
    /// and only fields that the operator allows.
    ResponseHeaders,
    /// A [`CaBundle`] from the key `ca.crt` of a Secret.
    CertificateAuthorities,
    /// An [`EndpointIdentity`] from the keys `ca.crt`, `tls.crt` and `tls.key` of a Secret, which has the first or the
    /// other two.
    EndpointIdentity,
    /// The same from one that has `ca.crt`.
    EndpointTrust,
}

impl ResourceKind {
    /// The kind of the object that it is made of.
    pub fn object(self) -> &'static str {
        match self {
            Self::PasswordFile
            | Self::PasswordMap
            | Self::DigestFile
            | Self::DigestMap
            | Self::CertificateAuthorities
            | Self::EndpointIdentity
            | Self::EndpointTrust => "Secret",
            Self::Headers | Self::GlobalHeaders | Self::ResponseHeaders => "ConfigMap",
        }
    }
}

impl fmt::Display for ResourceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            ResourceKind::PasswordFile => "password file",
            ResourceKind::PasswordMap => "password map",
            ResourceKind::DigestFile => "digest file",
            ResourceKind::DigestMap => "digest map",
            ResourceKind::Headers => "headers",
            ResourceKind::GlobalHeaders => "headers for all rules",
            ResourceKind::ResponseHeaders => "response headers",
            ResourceKind::CertificateAuthorities => "certificate authorities",
            ResourceKind::EndpointIdentity => "identity towards endpoints",
            ResourceKind::EndpointTrust => "authorities of endpoints",
        };
        write!(f, "{what} of {} {}", self.kind.object(), self.name)
    }
}

/// A resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resource {
    /// Users and their passwords.
    Credentials(Credentials),
    /// Users and the digests of their passwords.
    Digests(DigestCredentials),
    /// Header fields.
    Headers(HeaderSet),
    /// Certificate authorities.
    CertificateAuthorities(CaBundle),
    /// What endpoints are trusted by, and what they are shown.
    EndpointIdentity(EndpointIdentity),
}

/// Users and their passwords.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// Each user once, in the order of their names.
    pub users: Vec<(Arc<str>, PasswordHash)>,
}

/// How a password is checked. Never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PasswordHash {
    /// bcrypt (`$2a$`, `$2b$`, `$2y$`).
    Bcrypt {
        /// Binary logarithm of its rounds.
        cost: u8,
        /// The salt.
        salt: [u8; 16],
        /// As much of the digest as is stored.
        digest: [u8; 23],
    },
    /// crypt(3) with SHA-256 (`$5$`) or SHA-512 (`$6$`).
    ShaCrypt {
        /// How often it is repeated.
        rounds: u32,
        /// At most 16 bytes.
        salt: Arc<str>,
        /// 32 bytes for SHA-256, 64 for SHA-512.
        digest: Vec<u8>,
    },
    /// crypt(3) with MD5 (`$1$`), or Apache's variant of it (`$apr1$`).
    Md5Crypt {
        /// Whether it is Apache's.
        apache: bool,
        /// At most eight bytes.
        salt: Arc<str>,
        /// The digest.
        digest: [u8; 16],
    },
    /// SHA-1 of the password, and of a salt after it where there is one (`{SHA}`, `{SSHA}`).
    Sha1 {
        /// The digest.
        digest: [u8; 20],
        /// Empty for `{SHA}`.
        salt: Vec<u8>,
    },
    /// The password itself (`{PLAIN}`).
    Plain(Arc<str>),
}

impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash(..)")
    }
}

/// Header fields.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeaderSet {
    /// Names and values, in the order of their names. Both are well formed, and no name is the gateway's own. A field
    /// whose value is empty, as it stands or once its variables are filled in, is taken out of the head.
    pub fields: Vec<(Arc<str>, Template)>,
}

/// Values are not shown: some of them let their bearer in.
impl fmt::Debug for HeaderSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.fields.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("HeaderSet").field("names", &names).finish()
    }
}

/// Certificate authorities.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaBundle {
    /// The certificates in DER.
    pub certificates: Vec<Vec<u8>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_and_no_header_value_is_printed() {
        let credentials = Resource::Credentials(Credentials {
            users: vec![("ann".into(), PasswordHash::Plain("guess me".into()))],
        });
        let headers =
            Resource::Headers(HeaderSet { fields: vec![("x-token".into(), Template::plain("guess me"))] });
        for resource in [credentials, headers] {
            let text = format!("{resource:?}");
            assert!(!text.contains("guess"), "{text}");
        }
    }
}
