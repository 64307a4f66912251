//! The authorities that verify endpoints, and the certificate that they receive, from the Secret
//! that a rule names (`proxy-ssl-secret`).

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::sign::CertifiedKey;
use sluice_config::PrivateKey;

use super::authorities::Authorities;
use super::certified_key;
use super::error::TlsError;

/// The verified content of the Secret of a rule.
#[derive(Debug, Default)]
pub struct Identity {
    /// The authorities that verify endpoints.
    pub(crate) authorities: Arc<Authorities>,
    /// The certificate presented to endpoints.
    pub(crate) certificate: Option<Arc<CertifiedKey>>,
    /// A digest of the private key, for values that only its holders can compute.
    pub(crate) secret: Option<[u8; 32]>,
}

impl Identity {
    /// Checks what a Secret holds.
    ///
    /// # Errors
    /// A certificate or key cannot be used.
    pub fn compile(identity: &sluice_config::EndpointIdentity) -> Result<Self, TlsError> {
        let certificate = identity.certificate.as_deref().map(certified_key).transpose()?;
        Ok(Self {
            authorities: Arc::new(Authorities::compile(&identity.authorities)?),
            certificate: certificate.map(Arc::new),
            secret: identity.certificate.as_ref().and_then(|certificate| digest_of(&certificate.key)),
        })
    }
}

/// Returns whether both are the same object, or there are none.
pub(crate) fn are_same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}

fn digest_of(key: &PrivateKey) -> Option<[u8; 32]> {
    let (PrivateKey::Pkcs8(der) | PrivateKey::Pkcs1(der) | PrivateKey::Sec1(der)) = key;
    digest(&SHA256, der).as_ref().try_into().ok()
}
