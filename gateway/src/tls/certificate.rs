//! One certificate as it is served.

use std::sync::Arc;

use rustls::CertificateError;
use rustls::server::ResolvesServerCert;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls_pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};
use sluice_config::{Certificate, CertificateId, PrivateKey};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::error::TlsError;
use super::provider::provider;

/// A certificate that is served, for introspection.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct ServedCertificate {
    /// The Secret; `None` for the self-signed fallback.
    pub id: Option<CertificateId>,
    /// DNS names in it.
    pub names: Vec<String>,
    /// Hosts that are configured to be served with it.
    pub hosts: Vec<String>,
    /// Whether it is the one for names without their own.
    pub default: bool,
    /// End of validity, Unix seconds.
    pub not_after: i64,
}

/// Checks a certificate and its key.
///
/// # Errors
/// They cannot be used, or are no pair.
pub(crate) fn certified_key(certificate: &Certificate) -> Result<CertifiedKey, TlsError> {
    let id = || certificate.id.clone();
    if certificate.chain.is_empty() {
        return Err(TlsError::Empty(id()));
    }
    let chain = certificate.chain.iter().map(|der| CertificateDer::from(der.clone())).collect();
    let key = match certificate.key.clone() {
        PrivateKey::Pkcs8(der) => PrivateKeyDer::from(PrivatePkcs8KeyDer::from(der)),
        PrivateKey::Pkcs1(der) => PrivateKeyDer::from(PrivatePkcs1KeyDer::from(der)),
        PrivateKey::Sec1(der) => PrivateKeyDer::from(PrivateSec1KeyDer::from(der)),
    };
    let unusable = |reason| TlsError::Unusable { id: id(), reason };
    let key = provider().key_provider.load_private_key(key).map_err(unusable)?;
    // rustls' own comparison reads version 3 of X.509 only.
    let (_, parsed) = X509Certificate::from_der(&certificate.chain[0])
        .map_err(|_| unusable(CertificateError::BadEncoding.into()))?;
    if key.public_key().is_some_and(|public| *public != *parsed.public_key().raw) {
        return Err(TlsError::Mismatch(id()));
    }
    Ok(CertifiedKey::new(chain, key))
}

/// A certificate with everything that a handshake needs of it.
#[derive(Debug)]
pub(super) struct LoadedCertificate {
    pub(super) names: Vec<String>,
    pub(super) not_after: i64,
    /// Chain and key as they were loaded: the identity of this version.
    pub(super) key: Arc<CertifiedKey>,
    /// The same with the stapled OCSP response, if there is one.
    pub(super) served: Arc<CertifiedKey>,
    pub(super) resolver: Arc<dyn ResolvesServerCert>,
}

impl LoadedCertificate {
    /// Checks a certificate and its key.
    pub(super) fn new(certificate: &Certificate) -> Result<Self, TlsError> {
        let key = certified_key(certificate)?;
        let facts = &certificate.facts;
        Ok(Self::with_key(Arc::new(key), facts.names.clone(), facts.not_after))
    }

    pub(super) fn with_key(key: Arc<CertifiedKey>, names: Vec<String>, not_after: i64) -> Self {
        Self {
            names,
            not_after,
            served: key.clone(),
            resolver: Arc::new(SingleCertAndKey::from(key.clone())),
            key,
        }
    }

    /// The same certificate with an OCSP response, or without one.
    pub(super) fn with_staple(&self, ocsp: Option<Vec<u8>>) -> Self {
        let served = Arc::new(CertifiedKey { ocsp, ..CertifiedKey::clone(&self.key) });
        Self {
            names: self.names.clone(),
            not_after: self.not_after,
            key: self.key.clone(),
            resolver: Arc::new(SingleCertAndKey::from(served.clone())),
            served,
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::certificate::CertificateFacts;
    use sluice_testing::certificate::TestCertificate;

    use super::*;

    #[test]
    fn a_version_1_certificate_is_served() {
        let (own, other) = (TestCertificate::of_version_1(), TestCertificate::new(&["old.example"]));
        let load = |certificate: &TestCertificate, key: &TestCertificate| {
            let certificate = Certificate {
                id: CertificateId::new("shop", "old"),
                chain: vec![certificate.der.clone()],
                key: PrivateKey::Pkcs8(key.key_der.clone()),
                facts: CertificateFacts::default(),
            };
            certified_key(&certificate)
        };
        assert!(load(&own, &own).is_ok());
        assert!(matches!(load(&own, &other), Err(TlsError::Mismatch(_))));
        assert!(matches!(load(&other, &own), Err(TlsError::Mismatch(_))));
    }
}
