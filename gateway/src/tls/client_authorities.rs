//! The authorities that verify client certificates, and their revocation lists (`auth-tls-secret`).
//!
//! A handshake succeeds with any certificate ([`client_verifier`](super::client_verifier)); whether
//! it is acceptable is decided per request, so that the refusal is an HTTP response and so that a
//! changed authority or revocation list applies to open connections. webpki verifies chains. It
//! knows version 3 of X.509 alone, and no CA certificate as that of a client; OpenSSL accepts both,
//! and they are common among certificates made by hand: [`direct`] verifies these.

mod direct;
mod failure;

use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use webpki::{
    CertRevocationList, EndEntityCert, ExpirationPolicy, KeyUsage, OwnedCertRevocationList,
    RevocationOptions, RevocationOptionsBuilder, VerifiedPath,
};

pub(crate) use failure::ClientFailure;

use super::authorities::anchors;
use super::error::TlsError;
use super::provider::provider;

/// Authorities and revocation lists, checked.
#[derive(Debug)]
pub struct ClientAuthorities {
    anchors: Box<[TrustAnchor<'static>]>,
    revocations: Box<[CertRevocationList<'static>]>,
    /// The same revocation lists as they came.
    raw_revocations: Box<[Vec<u8>]>,
}

impl ClientAuthorities {
    /// Checks the content of a Secret.
    ///
    /// # Errors
    /// A certificate cannot be an authority, or a revocation list cannot be used.
    pub fn compile(contract: &sluice_config::ClientAuthorities) -> Result<Self, TlsError> {
        let revocation = |der: &Vec<u8>| match OwnedCertRevocationList::from_der(der) {
            Ok(list) => Ok(CertRevocationList::Owned(list)),
            Err(error) => Err(TlsError::Revocation(error)),
        };
        Ok(Self {
            anchors: anchors(&contract.authorities)?,
            revocations: contract.revocations.iter().map(revocation).collect::<Result<_, _>>()?,
            raw_revocations: contract.revocations.iter().cloned().collect(),
        })
    }

    /// Verifies a chain, the client's own certificate first, with at most `depth` certificates
    /// between that and an authority.
    ///
    /// # Errors
    /// Why the certificate is not acceptable.
    pub(crate) fn verify(
        &self,
        chain: &[CertificateDer<'_>],
        depth: u32,
        now: UnixTime,
    ) -> Result<(), ClientFailure> {
        let (own, intermediates) = chain.split_first().ok_or(ClientFailure::Unspecified)?;
        match self.verify_path(own, intermediates, depth, now) {
            Ok(()) => Ok(()),
            Err(webpki::Error::UnsupportedCertVersion | webpki::Error::CaUsedAsEndEntity) => {
                self.verify_direct(own, intermediates, now)
            }
            Err(error) => Err(ClientFailure::of(&error, own, intermediates)),
        }
    }

    fn verify_path(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        depth: u32,
        now: UnixTime,
    ) -> Result<(), webpki::Error> {
        let is_short = |path: &VerifiedPath<'_>| {
            let count = path.intermediate_certificates().count();
            match u32::try_from(count).is_ok_and(|count| count <= depth) {
                true => Ok(()),
                false => Err(webpki::Error::MaximumPathDepthExceeded),
            }
        };
        let lists: Vec<&CertRevocationList<'_>> = self.revocations.iter().collect();
        EndEntityCert::try_from(own)?
            .verify_for_usage(
                provider().signature_verification_algorithms.all,
                &self.anchors,
                intermediates,
                now,
                KeyUsage::client_auth(),
                revocation_options(&lists),
                Some(&is_short),
            )
            .map(drop)
    }
}

/// As nginx's `ssl_crl`: each certificate of a chain needs a current list of its issuer. Without any
/// list nothing is checked.
fn revocation_options<'l>(lists: &'l [&'l CertRevocationList<'l>]) -> Option<RevocationOptions<'l>> {
    let builder = RevocationOptionsBuilder::new(lists).ok()?;
    Some(builder.with_expiration_policy(ExpirationPolicy::Enforce).build())
}

#[cfg(test)]
mod tests;
