//! Paths that webpki does not verify, and OpenSSL does: of certificates of version 1, which have no
//! extensions (`openssl x509 -req` before OpenSSL 3.2 makes such), of those of authorities, and
//! with critical extensions about policies. OpenSSL knows these extensions, and nginx has it not
//! enforce them; webpki refuses each critical one that it does not evaluate.

use rustls_pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;

use super::{Authorities, Verification, name, rules, unknown_issuer};
use crate::tls::chain_failure::ChainFailure;

/// Signatures that are checked for one certificate, at most. A client determines the
/// intermediates, and could make many that issue each other. The same number as webpki's.
const MOST_SIGNATURES: u32 = 100;

/// The search for a path from the certificate of a peer to an authority.
struct PathSearch<'s> {
    authorities: &'s Authorities,
    intermediates: &'s [X509Certificate<'s>],
    verification: &'s Verification<'s>,
    signatures: u32,
    /// Why the last issuer that was found is not one of a path.
    failure: Option<ChainFailure>,
}

/// The certificates between the peer and the end of an incomplete path.
#[derive(Clone, Copy, Default)]
struct Below {
    count: u32,
    not_self_issued: u32,
}

impl Authorities {
    /// Verifies a certificate without webpki.
    pub(super) fn verify_by_own_path(
        &self,
        own: &CertificateDer<'_>,
        certificate: &X509Certificate<'_>,
        intermediates: &[CertificateDer<'_>],
        verification: &Verification<'_>,
    ) -> Result<(), ChainFailure> {
        let read: Vec<X509Certificate<'_>> = unknown_issuer::read(intermediates).collect();
        let mut search = PathSearch {
            authorities: self,
            intermediates: &read,
            verification,
            signatures: 0,
            failure: None,
        };
        match (search.reaches_authority(certificate, Below::default()), search.failure) {
            (true, _) => {
                rules::check_presented(certificate, verification.purpose)?;
                name::check(own, certificate, false, verification.purpose)
            }
            (false, Some(failure)) => Err(failure),
            (false, None) => Err(unknown_issuer::failure(certificate, intermediates, verification.purpose)),
        }
    }
}

impl PathSearch<'_> {
    /// Returns whether an authority has issued a certificate, directly or through intermediates.
    fn reaches_authority(&mut self, certificate: &X509Certificate<'_>, below: Below) -> bool {
        let authorities = self.authorities;
        let is_issued =
            authorities.issuers(certificate).any(|issuer| self.admits(certificate, &issuer, below));
        is_issued || below.count < self.verification.depth && self.continues(certificate, below)
    }

    /// Returns whether a path leads on through an intermediate.
    fn continues(&mut self, certificate: &X509Certificate<'_>, below: Below) -> bool {
        let intermediates = self.intermediates;
        for issuer in intermediates.iter().filter(|issuer| rules::is_issued_by(certificate, issuer)) {
            // OpenSSL accepts an authority without BasicConstraints only as the end of a path.
            let is_authority = issuer.basic_constraints().is_ok_and(|constraints| constraints.is_some());
            if !is_authority {
                self.failure = Some(ChainFailure::Purpose);
                continue;
            }
            let next = Below {
                count: below.count + 1,
                not_self_issued: below.not_self_issued + u32::from(!rules::is_self_issued(issuer)),
            };
            if self.admits(certificate, issuer, below) && self.reaches_authority(issuer, next) {
                return true;
            }
        }
        false
    }

    /// Returns whether an issuer by name is one by what it has signed and may issue.
    fn admits(
        &mut self,
        certificate: &X509Certificate<'_>,
        issuer: &X509Certificate<'_>,
        below: Below,
    ) -> bool {
        self.signatures += 1;
        let checked = match self.signatures > MOST_SIGNATURES {
            true => Err(ChainFailure::Unspecified),
            false => check(certificate, issuer, below, self.verification),
        };
        self.failure = checked.err().or(self.failure);
        checked.is_ok()
    }
}

fn check(
    certificate: &X509Certificate<'_>,
    issuer: &X509Certificate<'_>,
    below: Below,
    verification: &Verification<'_>,
) -> Result<(), ChainFailure> {
    if !rules::is_signed_by(certificate, issuer) {
        return Err(ChainFailure::Signature);
    }
    rules::check_authority(issuer, below.not_self_issued, verification.purpose, verification.now)?;
    // Only webpki compares names with them.
    if !matches!(issuer.name_constraints(), Ok(None)) {
        return Err(ChainFailure::NameConstraint);
    }
    verification.revocations.check(certificate, issuer, verification.now)
}
