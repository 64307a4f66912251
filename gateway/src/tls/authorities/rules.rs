//! What a certificate may be used for (RFC 5280 §4.2), as OpenSSL reads it.

use rustls_pki_types::UnixTime;
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Version;

use super::Purpose;
use crate::tls::chain_failure::ChainFailure;
use crate::tls::signature;

/// Reads a certificate.
pub(super) fn parse(der: &[u8]) -> Result<X509Certificate<'_>, ChainFailure> {
    let parsed = X509Certificate::from_der(der).ok().filter(|(rest, _)| rest.is_empty());
    parsed.map(|(_, certificate)| certificate).ok_or(ChainFailure::Unspecified)
}

/// Returns whether the issuer has the name of the subject.
pub(super) fn is_self_issued(certificate: &X509Certificate<'_>) -> bool {
    is_issued_by(certificate, certificate)
}

/// Returns whether a certificate names this issuer.
pub(super) fn is_issued_by(certificate: &X509Certificate<'_>, issuer: &X509Certificate<'_>) -> bool {
    certificate.issuer().as_raw() == issuer.subject().as_raw()
}

/// Returns whether the key of an issuer has signed a certificate.
pub(super) fn is_signed_by(certificate: &X509Certificate<'_>, issuer: &X509Certificate<'_>) -> bool {
    signature::is_valid(
        issuer.public_key().raw,
        certificate.signature_algorithm.algorithm.as_bytes(),
        certificate.tbs_certificate.as_ref(),
        &certificate.signature_value.data,
    )
}

/// Checks the time.
pub(super) fn check_validity(certificate: &X509Certificate<'_>, now: UnixTime) -> Result<(), ChainFailure> {
    let now = i64::try_from(now.as_secs()).map_err(|_| ChainFailure::Expired)?;
    if now < certificate.validity().not_before.timestamp() {
        return Err(ChainFailure::NotYetValid);
    }
    match now > certificate.validity().not_after.timestamp() {
        true => Err(ChainFailure::Expired),
        false => Ok(()),
    }
}

/// Checks that an authority may issue certificates for a purpose now. `below` is the number of
/// intermediates between it and the certificate of the peer that are not self-issued.
pub(super) fn check_authority(
    authority: &X509Certificate<'_>,
    below: u32,
    purpose: Purpose<'_>,
    now: UnixTime,
) -> Result<(), ChainFailure> {
    check_validity(authority, now)?;
    check_certificate_signing(authority)?;
    let constraints = authority.basic_constraints().map_err(|_| ChainFailure::Unspecified)?;
    let is_authority = match &constraints {
        Some(constraints) => constraints.value.ca,
        // Without the extension, OpenSSL accepts a root of version 1, or one whose KeyUsage says
        // so.
        None => {
            (authority.version() == X509Version::V1 && is_self_issued(authority))
                || authority.key_usage().is_ok_and(|usage| usage.is_some())
        }
    };
    if !is_authority {
        return Err(ChainFailure::Purpose);
    }
    let limit = constraints.and_then(|constraints| constraints.value.path_len_constraint);
    if limit.is_some_and(|limit| below > limit) {
        return Err(ChainFailure::PathLength);
    }
    check_extensions(authority, purpose)
}

/// Checks that KeyUsage allows an authority to sign certificates.
pub(super) fn check_certificate_signing(authority: &X509Certificate<'_>) -> Result<(), ChainFailure> {
    let usage = authority.key_usage().map_err(|_| ChainFailure::Unspecified)?;
    match usage.is_none_or(|usage| usage.value.key_cert_sign()) {
        true => Ok(()),
        false => Err(ChainFailure::CertificateSigning),
    }
}

/// Checks that the certificate of a peer may be presented for a purpose.
pub(super) fn check_presented(
    certificate: &X509Certificate<'_>,
    purpose: Purpose<'_>,
) -> Result<(), ChainFailure> {
    let usage = certificate.key_usage().map_err(|_| ChainFailure::Unspecified)?;
    match usage.is_none_or(|usage| purpose.is_allowed_by(usage.value)) {
        true => check_extensions(certificate, purpose),
        false => Err(ChainFailure::Purpose),
    }
}

/// Checks what applies to authorities and to peers.
fn check_extensions(certificate: &X509Certificate<'_>, purpose: Purpose<'_>) -> Result<(), ChainFailure> {
    for extension in certificate.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::ExtendedKeyUsage(usage) if !purpose.is_in(usage) => {
                return Err(ChainFailure::Purpose);
            }
            ParsedExtension::ExtendedKeyUsage(_)
            | ParsedExtension::KeyUsage(_)
            | ParsedExtension::BasicConstraints(_)
            | ParsedExtension::SubjectAlternativeName(_)
            | ParsedExtension::NameConstraints(_)
            | ParsedExtension::CertificatePolicies(_)
            | ParsedExtension::PolicyMappings(_)
            | ParsedExtension::PolicyConstraints(_)
            | ParsedExtension::InhibitAnyPolicy(_)
            | ParsedExtension::CRLDistributionPoints(_)
            | ParsedExtension::NSCertType(_) => {}
            _ if extension.critical => return Err(ChainFailure::CriticalExtension),
            _ => {}
        }
    }
    Ok(())
}
