//! Revocation lists of authorities (`ca.crl`), as nginx's `ssl_crl`: each certificate of a chain
//! needs a current list of its issuer. Without any list nothing is checked.

use rustls_pki_types::UnixTime;
use webpki::{
    CertRevocationList, ExpirationPolicy, OwnedCertRevocationList, RevocationOptions,
    RevocationOptionsBuilder,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use super::chain_failure::ChainFailure;
use super::error::TlsError;
use super::signature;

/// Revocation lists, checked.
#[derive(Debug, Default)]
pub(super) struct Revocations {
    lists: Box<[CertRevocationList<'static>]>,
    /// The same as they came.
    raw: Box<[Vec<u8>]>,
}

impl Revocations {
    /// Checks revocation lists in DER.
    ///
    /// # Errors
    /// One cannot be used.
    pub(super) fn compile(raw: &[Vec<u8>]) -> Result<Self, TlsError> {
        let list = |der: &Vec<u8>| match OwnedCertRevocationList::from_der(der) {
            Ok(list) => Ok(CertRevocationList::Owned(list)),
            Err(error) => Err(TlsError::Revocation(error)),
        };
        Ok(Self { lists: raw.iter().map(list).collect::<Result<_, _>>()?, raw: raw.into() })
    }

    /// Returns the lists for [`Self::options`].
    pub(super) fn lists(&self) -> Vec<&CertRevocationList<'static>> {
        self.lists.iter().collect()
    }

    /// Returns what webpki checks by lists.
    pub(super) fn options<'l>(lists: &'l [&'l CertRevocationList<'l>]) -> Option<RevocationOptions<'l>> {
        let builder = RevocationOptionsBuilder::new(lists).ok()?;
        Some(builder.with_expiration_policy(ExpirationPolicy::Enforce).build())
    }

    /// Checks a certificate that webpki does not read.
    pub(super) fn check(
        &self,
        certificate: &X509Certificate<'_>,
        issuer: &X509Certificate<'_>,
        now: UnixTime,
    ) -> Result<(), ChainFailure> {
        if self.raw.is_empty() {
            return Ok(());
        }
        let list = self
            .raw
            .iter()
            .filter_map(|der| CertificateRevocationList::from_der(der).ok())
            .map(|(_, list)| list)
            .find(|list| list.issuer().as_raw() == issuer.subject().as_raw())
            .ok_or(ChainFailure::NoRevocationList)?;
        let is_signed = signature::is_valid(
            issuer.public_key().raw,
            list.signature_algorithm.algorithm.as_bytes(),
            list.tbs_cert_list.as_ref(),
            &list.signature_value.data,
        );
        if !is_signed {
            return Err(ChainFailure::Signature);
        }
        let now = i64::try_from(now.as_secs()).map_err(|_| ChainFailure::Expired)?;
        if list.next_update().is_none_or(|until| until.timestamp() < now) {
            return Err(ChainFailure::RevocationListExpired);
        }
        let serial = certificate.raw_serial();
        match list.iter_revoked_certificates().any(|revoked| revoked.raw_serial() == serial) {
            true => Err(ChainFailure::Revoked),
            false => Ok(()),
        }
    }
}
