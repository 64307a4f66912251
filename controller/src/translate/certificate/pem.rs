//! Converts the PEM texts of a Secret to DER, with the properties of the first certificate.
//!
//! A key that clearly belongs to another certificate is detected here, so that the message names
//! the Secret. If the key contains no public part, the data plane detects a mismatch when it loads
//! the pair.

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use sluice_config::certificate::CertificateFacts;
use sluice_config::{Certificate, NamespacedName, PrivateKey};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::X509Name;

use crate::store::Secret;

const CHAIN: &str = "tls.crt";
const KEY: &str = "tls.key";

/// The keys of a TLS Secret that are read.
pub(crate) const FIELDS: &[&str] = &[CHAIN, KEY];

/// Why a Secret contains no usable certificate.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PemError {
    /// A key of the Secret is absent.
    #[error("has no key {0}")]
    Absent(&'static str),
    /// The certificates cannot be parsed.
    #[error("tls.crt cannot be read: {0}")]
    Chain(String),
    /// The private key cannot be parsed.
    #[error("tls.key cannot be read: {0}")]
    Key(String),
    /// Certificate and private key do not match.
    #[error("tls.key belongs to another certificate than the first one of tls.crt")]
    Mismatch,
}

impl PemError {
    /// Returns the field that causes the error.
    pub(crate) fn field(&self) -> String {
        match self {
            Self::Absent(key) => format!("data[{key}]"),
            Self::Chain(_) => "data[tls.crt]".into(),
            Self::Key(_) | Self::Mismatch => "data[tls.key]".into(),
        }
    }

    /// Returns the remedy.
    pub(crate) fn remedy(&self) -> &'static str {
        match self {
            Self::Absent(_) => {
                "create the Secret with kubectl create secret tls, or have the certificate reissued"
            }
            Self::Chain(_) => "put the certificate in PEM there, then its intermediates",
            Self::Key(_) => "put the private key in PEM there, without a passphrase",
            Self::Mismatch => "put certificate and key of one pair there",
        }
    }
}

/// Parses a TLS Secret.
pub(crate) fn read(id: &NamespacedName, secret: &Secret) -> Result<Certificate, PemError> {
    let chain = secret.get(CHAIN).ok_or(PemError::Absent("tls.crt"))?;
    let key = secret.get(KEY).ok_or(PemError::Absent("tls.key"))?;
    let chain: Vec<Vec<u8>> = CertificateDer::pem_slice_iter(chain)
        .map(|der| der.map(|der| der.as_ref().to_vec()))
        .collect::<Result<_, _>>()
        .map_err(|reason| PemError::Chain(reason.to_string()))?;
    let first = chain.first().ok_or_else(|| PemError::Chain("no PEM certificate is in it".into()))?;
    let (_, parsed) = X509Certificate::from_der(first)
        .map_err(|reason| PemError::Chain(format!("the first certificate is malformed ({reason})")))?;
    let key = match PrivateKeyDer::from_pem_slice(key).map_err(|reason| PemError::Key(reason.to_string()))? {
        PrivateKeyDer::Pkcs8(der) => PrivateKey::Pkcs8(der.secret_pkcs8_der().to_vec()),
        PrivateKeyDer::Pkcs1(der) => PrivateKey::Pkcs1(der.secret_pkcs1_der().to_vec()),
        PrivateKeyDer::Sec1(der) => PrivateKey::Sec1(der.secret_sec1_der().to_vec()),
        _ => return Err(PemError::Key("its format is unknown".into())),
    };
    if !may_belong(&parsed, &key) {
        return Err(PemError::Mismatch);
    }
    let facts = facts(&parsed);
    Ok(Certificate { id: id.clone(), chain, key, facts })
}

fn facts(certificate: &X509Certificate<'_>) -> CertificateFacts {
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let names = alternative.iter().flat_map(|extension| &extension.value.general_names);
    CertificateFacts {
        names: names
            .filter_map(|name| match name {
                GeneralName::DNSName(name) => Some((*name).to_owned()),
                _ => None,
            })
            .collect(),
        common_name: common_name(certificate.subject()),
        issuer_common_name: common_name(certificate.issuer()),
        issuer_organization: certificate
            .issuer()
            .iter_organization()
            .find_map(|name| name.as_str().ok().map(str::to_owned)),
        serial_number: certificate.serial.to_str_radix(10),
        public_key_algorithm: algorithm(certificate).to_owned(),
        not_after: certificate.validity().not_after.timestamp(),
    }
}

fn common_name(name: &X509Name<'_>) -> Option<String> {
    name.iter_common_name().find_map(|name| name.as_str().ok().map(str::to_owned))
}

/// OID 1.3.101.112 (RFC 8410) in DER.
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

fn algorithm(certificate: &X509Certificate<'_>) -> &'static str {
    match certificate.public_key().parsed() {
        Ok(PublicKey::RSA(_)) => "RSA",
        Ok(PublicKey::EC(_)) => "ECDSA",
        _ if certificate.public_key().algorithm.algorithm.as_bytes() == ED25519 => "Ed25519",
        _ => "unknown",
    }
}

/// Returns false if the key clearly belongs to another certificate: an RSA key contains its
/// modulus, and most EC keys contain their public point (RFC 5915 §3) as a bit string.
fn may_belong(certificate: &X509Certificate<'_>, key: &PrivateKey) -> bool {
    let (PrivateKey::Pkcs8(key) | PrivateKey::Pkcs1(key) | PrivateKey::Sec1(key)) = key;
    match certificate.public_key().parsed() {
        Ok(PublicKey::RSA(public)) => contains(key, public.modulus),
        Ok(PublicKey::EC(point)) => {
            let point = point.data();
            let Ok(length) = u8::try_from(point.len() + 1) else { return true };
            let mut header = vec![0x03];
            if length >= 0x80 {
                header.push(0x81);
            }
            header.extend([length, 0x00, 0x04]);
            !contains(key, &header) || contains(key, point)
        }
        _ => true,
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    !part.is_empty() && text.windows(part.len()).any(|window| window == part)
}
