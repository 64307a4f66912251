//! Which of OpenSSL's reports applies to a certificate that no authority vouches for depends on how
//! far its chain goes.

use rustls_pki_types::CertificateDer;
use x509_parser::certificate::X509Certificate;

use super::{Purpose, rules};
use crate::tls::chain_failure::ChainFailure;

/// Returns why a certificate without a known authority is refused. It is not self-signed.
pub(super) fn failure(
    certificate: &X509Certificate<'_>,
    intermediates: &[CertificateDer<'_>],
    purpose: Purpose<'_>,
) -> ChainFailure {
    let others: Vec<X509Certificate<'_>> = read(intermediates).collect();
    let issuer = |of: &X509Certificate<'_>| others.iter().find(|other| rules::is_issued_by(of, other));
    let Some(mut last) = issuer(certificate) else {
        return ChainFailure::FirstUnverified;
    };
    if let Err(failure) = rules::check_presented(certificate, purpose) {
        return failure;
    }
    // A chain has each certificate once.
    for _ in &others {
        if rules::is_self_issued(last) {
            return ChainFailure::SelfSignedInChain;
        }
        match issuer(last) {
            Some(issuer) => last = issuer,
            None => break,
        }
    }
    ChainFailure::NoLocalIssuer
}

/// Reads those of the certificates that can be read.
pub(super) fn read<'c>(certificates: &'c [CertificateDer<'_>]) -> impl Iterator<Item = X509Certificate<'c>> {
    certificates.iter().filter_map(|der| rules::parse(der).ok())
}
