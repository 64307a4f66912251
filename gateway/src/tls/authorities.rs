//! Certificate authorities as webpki reads them.

use rustls_pki_types::{CertificateDer, TrustAnchor};
use sluice_config::CaBundle;

use super::error::TlsError;

/// Checks authorities.
///
/// # Errors
/// One cannot be used.
pub(super) fn anchors(bundle: &CaBundle) -> Result<Box<[TrustAnchor<'static>]>, TlsError> {
    let anchor = |der: &Vec<u8>| {
        let der = CertificateDer::from(der.as_slice());
        Ok(webpki::anchor_from_trusted_cert(&der).map_err(TlsError::Authority)?.to_owned())
    };
    bundle.certificates.iter().map(anchor).collect()
}
