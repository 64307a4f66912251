//! Certificates that webpki does not verify, and OpenSSL does: those of version 1, which have no
//! extensions (`openssl x509 -req` before OpenSSL 3.2 makes such), and certificates of authorities,
//! such as a self-signed one that is its own authority.
//!
//! They are accepted from an authority itself only, never through intermediate certificates, so that
//! there is no path to build.

use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;
use x509_parser::x509::AlgorithmIdentifier;

use super::{ClientAuthorities, ClientFailure};
use crate::tls::signature;

/// Tag of DER (X.690).
const SEQUENCE: u8 = 0x30;

impl ClientAuthorities {
    pub(super) fn verify_direct(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), ClientFailure> {
        let parsed = X509Certificate::from_der(own).ok().filter(|(rest, _)| rest.is_empty());
        let (_, certificate) = parsed.ok_or(ClientFailure::Unspecified)?;
        let issuers = || {
            let is_issuer = |anchor: &&TrustAnchor<'_>| names(anchor) == certificate.issuer().as_raw();
            self.anchors.iter().filter(is_issuer)
        };
        if issuers().next().is_none() {
            return Err(ClientFailure::of_unknown_issuer(own, intermediates));
        }
        let signed = |anchor: &&TrustAnchor<'_>| {
            is_signed(
                anchor,
                &certificate.signature_algorithm,
                certificate.tbs_certificate.as_ref(),
                &certificate.signature_value.data,
            )
        };
        let issuer = issuers().find(signed).ok_or(ClientFailure::Signature)?;
        let now = i64::try_from(now.as_secs()).map_err(|_| ClientFailure::Expired)?;
        if now < certificate.validity().not_before.timestamp() {
            return Err(ClientFailure::NotYetValid);
        }
        if now > certificate.validity().not_after.timestamp() {
            return Err(ClientFailure::Expired);
        }
        check_extensions(&certificate)?;
        self.check_revocation(&certificate, issuer, now)
    }

    fn check_revocation(
        &self,
        certificate: &X509Certificate<'_>,
        issuer: &TrustAnchor<'_>,
        now: i64,
    ) -> Result<(), ClientFailure> {
        if self.raw_revocations.is_empty() {
            return Ok(());
        }
        let list = self
            .raw_revocations
            .iter()
            .filter_map(|der| CertificateRevocationList::from_der(der).ok())
            .map(|(_, list)| list)
            .find(|list| list.issuer().as_raw() == names(issuer))
            .ok_or(ClientFailure::NoRevocationList)?;
        let (signed, signature) = (list.tbs_cert_list.as_ref(), &list.signature_value.data);
        if !is_signed(issuer, &list.signature_algorithm, signed, signature) {
            return Err(ClientFailure::Signature);
        }
        if list.next_update().is_none_or(|until| until.timestamp() < now) {
            return Err(ClientFailure::RevocationListExpired);
        }
        let serial = certificate.raw_serial();
        match list.iter_revoked_certificates().any(|revoked| revoked.raw_serial() == serial) {
            true => Err(ClientFailure::Revoked),
            false => Ok(()),
        }
    }
}

/// The subject of an authority as it is encoded.
fn names(anchor: &TrustAnchor<'_>) -> Vec<u8> {
    sequence(&anchor.subject)
}

/// Whether the key of an authority has made a signature.
fn is_signed(
    anchor: &TrustAnchor<'_>,
    algorithm: &AlgorithmIdentifier<'_>,
    signed: &[u8],
    signature: &[u8],
) -> bool {
    let key = sequence(&anchor.subject_public_key_info);
    signature::is_valid(&key, algorithm.algorithm.as_bytes(), signed, signature)
}

/// What a certificate may be used for (RFC 5280 §4.2).
fn check_extensions(certificate: &X509Certificate<'_>) -> Result<(), ClientFailure> {
    for extension in certificate.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::ExtendedKeyUsage(usage) if !usage.any && !usage.client_auth => {
                return Err(ClientFailure::Purpose);
            }
            ParsedExtension::KeyUsage(usage) if !usage.digital_signature() && !usage.key_agreement() => {
                return Err(ClientFailure::Purpose);
            }
            ParsedExtension::ExtendedKeyUsage(_)
            | ParsedExtension::KeyUsage(_)
            | ParsedExtension::BasicConstraints(_)
            | ParsedExtension::SubjectAlternativeName(_) => {}
            _ if extension.critical => return Err(ClientFailure::Unspecified),
            _ => {}
        }
    }
    Ok(())
}

/// DER of a sequence with this content.
fn sequence(content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let mut der = vec![SEQUENCE];
    match u8::try_from(content.len()) {
        Ok(short) if short < 0x80 => der.push(short),
        _ => {
            let zeros = length.iter().take_while(|byte| **byte == 0).count();
            let bytes = &length[zeros..];
            // Of at most eight bytes.
            der.push(0x80 | u8::try_from(bytes.len()).unwrap_or_default());
            der.extend_from_slice(bytes);
        }
    }
    der.extend_from_slice(content);
    der
}
