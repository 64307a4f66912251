//! Certificate authorities of a Secret (`ca.crt`), and the verification of chains by them.
//!
//! webpki finds the path and verifies signatures, revocation and constraints of intermediates. It
//! ignores KeyUsage, and of an authority it reads only name, key and name constraints; [`rules`]
//! checks the rest, as OpenSSL does. It accepts only version 3 of X.509, no certificate of an
//! authority as that of a peer, and no critical extensions about policies. OpenSSL accepts all
//! three; [`own_path`] verifies those.

mod name;
mod own_path;
mod purpose;
mod rules;
mod unknown_issuer;

use std::cell::Cell;

use rustls::DistinguishedName;
use rustls_pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use sluice_config::CaBundle;
use webpki::{EndEntityCert, VerifiedPath};
use x509_parser::certificate::X509Certificate;

pub(super) use purpose::Purpose;

use super::chain_failure::ChainFailure;
use super::error::TlsError;
use super::provider::provider;
use super::revocations::Revocations;

/// Authorities, checked.
#[derive(Debug, Default)]
pub(crate) struct Authorities {
    anchors: Box<[TrustAnchor<'static>]>,
    /// The name of each anchor.
    subjects: Box<[DistinguishedName]>,
    /// The certificate of each anchor.
    certificates: Box<[CertificateDer<'static>]>,
}

/// The purpose and the limits of a verification.
pub(super) struct Verification<'v> {
    pub(super) purpose: Purpose<'v>,
    /// Maximum number of certificates between that of the peer and an authority.
    pub(super) depth: u32,
    pub(super) revocations: &'v Revocations,
    pub(super) now: UnixTime,
}

impl Authorities {
    /// Checks authorities.
    ///
    /// # Errors
    /// One cannot be used.
    pub(super) fn compile(bundle: &CaBundle) -> Result<Self, TlsError> {
        let certificates: Box<[_]> = bundle.certificates.iter().cloned().map(CertificateDer::from).collect();
        let anchor = |der| match webpki::anchor_from_trusted_cert(der) {
            Ok(anchor) => Ok(anchor.to_owned()),
            Err(error) => Err(TlsError::Authority(error)),
        };
        let anchors: Box<[_]> = certificates.iter().map(anchor).collect::<Result<_, _>>()?;
        let subjects = anchors.iter().map(|anchor| DistinguishedName::in_sequence(&anchor.subject)).collect();
        Ok(Self { anchors, subjects, certificates })
    }

    /// Returns names and keys, without what the certificates allow.
    pub(crate) fn anchors(&self) -> &[TrustAnchor<'static>] {
        &self.anchors
    }

    /// Returns the names.
    pub(super) fn subjects(&self) -> &[DistinguishedName] {
        &self.subjects
    }

    /// Verifies the certificate of a peer and those that it has sent with it.
    ///
    /// # Errors
    /// Why the certificate is not acceptable.
    pub(super) fn verify(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        verification: &Verification<'_>,
    ) -> Result<(), ChainFailure> {
        let certificate = rules::parse(own)?;
        // First, because it is what OpenSSL reports, whatever else is wrong.
        rules::check_validity(&certificate, verification.now)?;
        if rules::is_self_issued(&certificate) {
            if self.certificates.contains(own) {
                rules::check_presented(&certificate, verification.purpose)?;
                verification.revocations.check(&certificate, &certificate, verification.now)?;
                return name::check(own, &certificate, false, verification.purpose);
            }
            if rules::is_signed_by(&certificate, &certificate) {
                rules::check_presented(&certificate, verification.purpose)?;
                return Err(ChainFailure::SelfSigned);
            }
        }
        let refusal = Cell::new(None);
        let Err(error) = self.find_path(own, &certificate, intermediates, verification, &refusal) else {
            return Ok(());
        };
        if let Some(refusal) = refusal.take() {
            return Err(refusal);
        }
        match error {
            webpki::Error::UnsupportedCertVersion
            | webpki::Error::CaUsedAsEndEntity
            | webpki::Error::UnsupportedCriticalExtension => {
                self.verify_by_own_path(own, &certificate, intermediates, verification)
            }
            _ if !self.has_issuer(&certificate, intermediates) => Err(ChainFailure::FirstUnverified),
            webpki::Error::UnknownIssuer => {
                Err(unknown_issuer::failure(&certificate, intermediates, verification.purpose))
            }
            error => Err(ChainFailure::of(&error)),
        }
    }

    /// Verifies the certificate of an endpoint for a name, with at most `depth` certificates
    /// between it and an authority.
    ///
    /// # Errors
    /// Why the certificate is not acceptable.
    pub(crate) fn verify_endpoint(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        depth: u32,
        now: UnixTime,
    ) -> Result<(), ChainFailure> {
        let revocations = &Revocations::default();
        let verification = Verification { purpose: Purpose::Server(name), depth, revocations, now };
        self.verify(own, intermediates, &verification)
    }

    /// Finds a path with webpki. `refusal` is why the last complete one was refused.
    fn find_path(
        &self,
        own: &CertificateDer<'_>,
        certificate: &X509Certificate<'_>,
        intermediates: &[CertificateDer<'_>],
        verification: &Verification<'_>,
        refusal: &Cell<Option<ChainFailure>>,
    ) -> Result<(), webpki::Error> {
        let check = |path: &VerifiedPath<'_>| {
            self.check_path(path, own, certificate, verification).map_err(|failure| {
                refusal.set(Some(failure));
                webpki::Error::UnknownIssuer
            })
        };
        let lists = verification.revocations.lists();
        EndEntityCert::try_from(own)?
            .verify_for_usage(
                provider().signature_verification_algorithms.all,
                &self.anchors,
                intermediates,
                verification.now,
                verification.purpose.extended_key_usage(),
                Revocations::options(&lists),
                Some(&check),
            )
            .map(drop)
    }

    /// Checks what webpki does not.
    fn check_path(
        &self,
        path: &VerifiedPath<'_>,
        own: &CertificateDer<'_>,
        certificate: &X509Certificate<'_>,
        verification: &Verification<'_>,
    ) -> Result<(), ChainFailure> {
        let count = path.intermediate_certificates().count();
        if !u32::try_from(count).is_ok_and(|count| count <= verification.depth) {
            // OpenSSL does not search for an authority then.
            return Err(ChainFailure::NoLocalIssuer);
        }
        let mut below = 0;
        let mut is_constrained = path.anchor().name_constraints.is_some();
        for intermediate in path.intermediate_certificates() {
            let der = intermediate.der();
            let intermediate = rules::parse(&der)?;
            rules::check_certificate_signing(&intermediate)?;
            is_constrained |= !matches!(intermediate.name_constraints(), Ok(None));
            below += u32::from(!rules::is_self_issued(&intermediate));
        }
        let anchors = self.anchors.iter().zip(&self.certificates);
        let mut of_path = anchors.filter(|(anchor, _)| std::ptr::eq(*anchor, path.anchor()));
        let (_, authority) = of_path.next().ok_or(ChainFailure::Unspecified)?;
        rules::check_authority(&rules::parse(authority)?, below, verification.purpose, verification.now)?;
        rules::check_presented(certificate, verification.purpose)?;
        name::check(own, certificate, is_constrained, verification.purpose)
    }

    /// Returns whether there is a certificate with the name of the issuer.
    fn has_issuer(&self, certificate: &X509Certificate<'_>, intermediates: &[CertificateDer<'_>]) -> bool {
        self.issuers(certificate).next().is_some()
            || unknown_issuer::read(intermediates).any(|other| rules::is_issued_by(certificate, &other))
    }

    /// Returns the authorities with the name of the issuer.
    fn issuers<'s>(&'s self, certificate: &X509Certificate<'_>) -> impl Iterator<Item = X509Certificate<'s>> {
        self.subjects
            .iter()
            .zip(&self.certificates)
            .filter(|(subject, _)| subject.as_ref() == certificate.issuer().as_raw())
            .filter_map(|(_, der)| rules::parse(der).ok())
    }
}
