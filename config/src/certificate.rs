//! Certificates: the decoded contents of TLS Secrets.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::name::NamespacedName;

/// Identity of a certificate: the name of its Secret.
pub type CertificateId = NamespacedName;

/// A certificate chain with its private key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// The Secret it comes from.
    pub id: CertificateId,
    /// The chain in DER, the leaf certificate first.
    pub chain: Vec<Vec<u8>>,
    /// Private key of the leaf certificate.
    pub key: PrivateKey,
    /// Fields of the leaf certificate, for SNI, metrics and introspection.
    pub facts: CertificateFacts,
}

/// Fields of a leaf certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertificateFacts {
    /// DNS names of the subject alternative name, as written; wildcards start with `*.`.
    pub names: Vec<String>,
    /// Common name of the subject.
    pub common_name: Option<String>,
    /// Common name of the issuer.
    pub issuer_common_name: Option<String>,
    /// Organisation of the issuer.
    pub issuer_organization: Option<String>,
    /// Serial number, decimal.
    pub serial_number: String,
    /// `RSA`, `ECDSA` or `Ed25519`.
    pub public_key_algorithm: String,
    /// End of validity, Unix seconds.
    pub not_after: i64,
}

/// A private key in DER. Never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PrivateKey {
    /// PKCS #8 (RFC 5958).
    Pkcs8(Vec<u8>),
    /// PKCS #1 (RFC 8017), RSA.
    Pkcs1(Vec<u8>),
    /// SEC 1 (RFC 5915), elliptic curve.
    Sec1(Vec<u8>),
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}
