//! Whether the certificate of an endpoint is for the name that is required.

use rustls_pki_types::CertificateDer;
use webpki::EndEntityCert;

use super::Purpose;
use crate::tls::chain_failure::ChainFailure;

/// Checks the name.
pub(super) fn check(own: &CertificateDer<'_>, purpose: Purpose<'_>) -> Result<(), ChainFailure> {
    let Purpose::Server(name) = purpose else { return Ok(()) };
    let version_3 = EndEntityCert::try_from(own);
    match version_3.is_ok_and(|own| own.verify_is_valid_for_subject_name(name).is_ok()) {
        true => Ok(()),
        false => Err(ChainFailure::Name),
    }
}
