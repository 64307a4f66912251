//! Certificates that webpki does not verify, and OpenSSL does: those of version 1, which have no
//! extensions (`openssl x509 -req` before OpenSSL 3.2 makes such), and certificates of authorities.
//!
//! They are accepted from an authority itself only, never through intermediate certificates, so
//! that there is no path to build.

use rustls_pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;

use super::{Authorities, Verification, name, rules, unknown_issuer};
use crate::tls::chain_failure::ChainFailure;

impl Authorities {
    /// Verifies a chain that webpki does not read: that of a peer with a certificate of version 1,
    /// or of an authority.
    ///
    /// # Errors
    /// No authority has issued the certificate, or a rule forbids it.
    pub(super) fn verify_direct(
        &self,
        own: &CertificateDer<'_>,
        certificate: &X509Certificate<'_>,
        intermediates: &[CertificateDer<'_>],
        verification: &Verification<'_>,
    ) -> Result<(), ChainFailure> {
        if self.issuers(certificate).next().is_none() {
            return Err(unknown_issuer::failure(certificate, intermediates, verification.purpose));
        }
        let mut result = Err(ChainFailure::Signature);
        for issuer in self.issuers(certificate).filter(|issuer| rules::is_signed_by(certificate, issuer)) {
            result = check(own, certificate, &issuer, verification);
            if result.is_ok() {
                break;
            }
        }
        result
    }
}

fn check(
    own: &CertificateDer<'_>,
    certificate: &X509Certificate<'_>,
    issuer: &X509Certificate<'_>,
    verification: &Verification<'_>,
) -> Result<(), ChainFailure> {
    rules::check_authority(issuer, 0, verification.purpose, verification.now)?;
    // Only webpki compares names with them.
    if !matches!(issuer.name_constraints(), Ok(None)) {
        return Err(ChainFailure::NameConstraint);
    }
    rules::check_presented(certificate, verification.purpose)?;
    verification.revocations.check(certificate, issuer, verification.now)?;
    name::check(own, certificate, false, verification.purpose)
}
