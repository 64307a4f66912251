//! The authorities that verify client certificates, and their revocation lists (`auth-tls-secret`).
//!
//! A handshake succeeds with any certificate ([`client_verifier`](super::client_verifier)); whether
//! it is acceptable is decided per request, so that the refusal is an HTTP response and so that a
//! changed authority or revocation list applies to open connections.

use rustls_pki_types::{CertificateDer, UnixTime};

use super::authorities::{Authorities, Purpose, Verification};
use super::chain_failure::ChainFailure;
use super::error::TlsError;
use super::revocations::Revocations;

/// Authorities and revocation lists, checked.
#[derive(Debug)]
pub struct ClientAuthorities {
    authorities: Authorities,
    revocations: Revocations,
}

impl ClientAuthorities {
    /// Checks the content of a Secret.
    ///
    /// # Errors
    /// A certificate cannot be an authority, or a revocation list cannot be used.
    pub fn compile(contract: &sluice_config::ClientAuthorities) -> Result<Self, TlsError> {
        Ok(Self {
            authorities: Authorities::compile(&contract.authorities)?,
            revocations: Revocations::compile(&contract.revocations)?,
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
    ) -> Result<(), ChainFailure> {
        let (own, intermediates) = chain.split_first().ok_or(ChainFailure::Unspecified)?;
        let verification =
            Verification { purpose: Purpose::Client, depth, revocations: &self.revocations, now };
        self.authorities.verify(own, intermediates, &verification)
    }
}

#[cfg(test)]
mod tests;
