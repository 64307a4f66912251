//! Resources: data of Secrets and ConfigMaps that rules refer to by key, such as users. Each is a
//! separate entry of a [`Delta`](crate::Delta), so a changed Secret causes one entry and changes no
//! host.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::certificate::Certificate;
use crate::digest::DigestCredentials;
use crate::fastcgi_params::FastCgiParams;
use crate::name::NamespacedName;
use crate::template::Template;

/// Identity of a resource: its kind and its source object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ResourceKey {
    /// Kind of the resource.
    pub kind: ResourceKind,
    /// The Secret or ConfigMap.
    pub name: NamespacedName,
}

/// The kind of a resource. It determines how the source object is parsed.
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
    /// A [`HeaderSet`] for the requests of one rule, from a ConfigMap with one key per field. One
    /// invalid field invalidates all.
    Headers,
    /// A [`HeaderSet`] for the requests of all rules. Invalid fields are skipped.
    GlobalHeaders,
    /// A [`HeaderSet`] for all responses. Invalid fields are skipped.
    GlobalResponseHeaders,
    /// A [`HeaderSet`] for the responses of one rule, from a ConfigMap with one key per field. One
    /// invalid field, or one that the operator does not allow, invalidates all.
    ResponseHeaders,
    /// [`FastCgiParams`] for the requests of one rule, from a ConfigMap with one key per parameter.
    /// One invalid parameter invalidates all.
    FastCgiParams,
    /// A [`CaBundle`] from the key `ca.crt` of a Secret.
    CertificateAuthorities,
    /// An [`EndpointIdentity`] from a Secret with `ca.crt`, or with `tls.crt` and `tls.key`.
    EndpointIdentity,
    /// An [`EndpointIdentity`] from a Secret that must have `ca.crt`.
    EndpointTrust,
    /// [`ClientAuthorities`] from a Secret with `ca.crt` and, optionally, `ca.crl`.
    ClientAuthorities,
}

impl ResourceKind {
    /// Returns the Kubernetes kind of the source object.
    pub fn object(self) -> &'static str {
        match self {
            Self::PasswordFile
            | Self::PasswordMap
            | Self::DigestFile
            | Self::DigestMap
            | Self::CertificateAuthorities
            | Self::EndpointIdentity
            | Self::EndpointTrust
            | Self::ClientAuthorities => "Secret",
            Self::Headers
            | Self::GlobalHeaders
            | Self::GlobalResponseHeaders
            | Self::ResponseHeaders
            | Self::FastCgiParams => "ConfigMap",
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
            ResourceKind::GlobalResponseHeaders => "response headers for all rules",
            ResourceKind::ResponseHeaders => "response headers",
            ResourceKind::FastCgiParams => "FastCGI parameters",
            ResourceKind::CertificateAuthorities => "certificate authorities",
            ResourceKind::EndpointIdentity => "identity towards endpoints",
            ResourceKind::EndpointTrust => "authorities of endpoints",
            ResourceKind::ClientAuthorities => "authorities of clients",
        };
        write!(f, "{what} of {} {}", self.kind.object(), self.name)
    }
}

/// A resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Resource {
    /// Users with password hashes.
    Credentials(Credentials),
    /// Users with digests.
    Digests(DigestCredentials),
    /// Header fields.
    Headers(HeaderSet),
    /// Parameters of FastCGI requests.
    FastCgiParams(FastCgiParams),
    /// Certificate authorities.
    CertificateAuthorities(CaBundle),
    /// Authorities and client certificate for TLS to endpoints.
    EndpointIdentity(EndpointIdentity),
    /// Authorities and revocation lists for client certificates.
    ClientAuthorities(ClientAuthorities),
}

/// Users with password hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credentials {
    /// Each user once, sorted by name.
    pub users: Vec<(Arc<str>, PasswordHash)>,
}

/// A stored password. Never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PasswordHash {
    /// bcrypt (`$2a$`, `$2b$`, `$2y$`).
    Bcrypt {
        /// Binary logarithm of the number of rounds.
        cost: u8,
        /// The salt.
        salt: [u8; 16],
        /// Stored bytes of the digest.
        digest: [u8; 23],
    },
    /// crypt(3) with SHA-256 (`$5$`) or SHA-512 (`$6$`).
    ShaCrypt {
        /// Number of rounds.
        rounds: u32,
        /// Salt of at most 16 bytes.
        salt: Arc<str>,
        /// 32 bytes for SHA-256, 64 for SHA-512.
        digest: Vec<u8>,
    },
    /// crypt(3) with MD5 (`$1$`), or Apache's variant of it (`$apr1$`).
    Md5Crypt {
        /// Whether it is Apache's variant.
        apache: bool,
        /// Salt of at most eight bytes.
        salt: Arc<str>,
        /// The digest.
        digest: [u8; 16],
    },
    /// SHA-1 of the password, followed by the salt, if any (`{SHA}`, `{SSHA}`).
    Sha1 {
        /// The digest.
        digest: [u8; 20],
        /// Salt; empty for `{SHA}`.
        salt: Vec<u8>,
    },
    /// The password in plain text (`{PLAIN}`).
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
    /// Names and values, sorted by name. Both are valid, and no name is one of the gateway's own
    /// fields. An empty value, before or after substitution of variables, removes the field.
    pub fields: Vec<(Arc<str>, Template)>,
}

/// Hides values, because some are credentials.
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

/// Authorities and revocation lists for client certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientAuthorities {
    /// The authorities, at least one.
    pub authorities: CaBundle,
    /// Certificate revocation lists (RFC 5280 §5) in DER. If there are any, every certificate of a
    /// chain needs a current one of its issuer.
    pub revocations: Vec<Vec<u8>>,
}

/// Authorities and client certificate for TLS to endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointIdentity {
    /// Authorities for endpoint certificates; may be empty if nothing is verified.
    pub authorities: CaBundle,
    /// Client certificate of the gateway.
    pub certificate: Option<Arc<Certificate>>,
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
