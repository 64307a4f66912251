//! What endpoints are trusted by and shown, from the Secret that a rule names (`proxy-ssl-secret`).

use std::sync::Arc;

use rustls::sign::CertifiedKey;
use rustls_pki_types::{CertificateDer, TrustAnchor};

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
        let anchor = |der: &Vec<u8>| {
            let der = CertificateDer::from(der.as_slice());
            Ok(webpki::anchor_from_trusted_cert(&der).map_err(TlsError::Authority)?.to_owned())
        };
        let certificate = identity.certificate.as_deref().map(certified_key).transpose()?;
        Ok(Self {
            anchors: identity.authorities.certificates.iter().map(anchor).collect::<Result<_, TlsError>>()?,
            certificate: certificate.map(Arc::new),
        })
    }
}
