//! What endpoints are trusted by and shown, from the Secret that a rule names (`proxy-ssl-secret`).

use std::sync::Arc;

use rustls::sign::CertifiedKey;
use rustls_pki_types::TrustAnchor;

use super::authorities::anchors;
use super::certified_key;
use super::error::TlsError;

/// What the Secret of a rule holds, checked.
#[derive(Debug, Default)]
pub struct Identity {
    /// Who vouches for endpoints.
    pub(crate) anchors: Arc<[TrustAnchor<'static>]>,
    /// What they are shown.
    pub(crate) certificate: Option<Arc<CertifiedKey>>,
}

impl Identity {
    /// Checks what a Secret holds.
    ///
    /// # Errors
    /// A certificate or key cannot be used.
    pub fn compile(identity: &sluice_config::EndpointIdentity) -> Result<Self, TlsError> {
        let certificate = identity.certificate.as_deref().map(certified_key).transpose()?;
        Ok(Self { anchors: anchors(&identity.authorities)?.into(), certificate: certificate.map(Arc::new) })
    }
}
