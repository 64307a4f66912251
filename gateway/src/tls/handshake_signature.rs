//! Signatures by which peers prove in the handshake that they have the key of their certificate.
//! rustls' own functions read version 3 of X.509 only, which would refuse peers that OpenSSL
//! accepts.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, PeerMisbehaved, ProtocolVersion, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer};
use webpki::RawPublicKeyEntity;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::provider::provider;

/// Verifies a signature of TLS 1.2.
///
/// # Errors
/// It is not valid, or the certificate cannot be read.
pub fn verify_1_2(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    verify(message, certificate, signed, ProtocolVersion::TLSv1_2)
}

/// Verifies a signature of TLS 1.3.
///
/// # Errors
/// It is not valid, its scheme is of TLS 1.2, or the certificate cannot be read.
pub fn verify_1_3(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    // RFC 8446 §4.2.3.
    let is_of_1_2 = matches!(
        signed.scheme,
        SignatureScheme::RSA_PKCS1_SHA1
            | SignatureScheme::RSA_PKCS1_SHA256
            | SignatureScheme::RSA_PKCS1_SHA384
            | SignatureScheme::RSA_PKCS1_SHA512
            | SignatureScheme::ECDSA_SHA1_Legacy
    );
    if is_of_1_2 {
        return Err(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme.into());
    }
    verify(message, certificate, signed, ProtocolVersion::TLSv1_3)
}

fn verify(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    version: ProtocolVersion,
) -> Result<HandshakeSignatureValid, Error> {
    let known = provider().signature_verification_algorithms.mapping;
    let known = known.iter().find(|(scheme, _)| *scheme == signed.scheme);
    let (_, algorithms) = known.ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
    // A scheme of TLS 1.3 names the curve, too: that of the first one (RFC 8446 §4.2.3).
    let count = if version == ProtocolVersion::TLSv1_3 { 1 } else { algorithms.len() };
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| CertificateError::BadEncoding)?;
    let key = SubjectPublicKeyInfoDer::from(parsed.public_key().raw);
    let key = RawPublicKeyEntity::try_from(&key).map_err(|_| CertificateError::BadEncoding)?;
    let is_valid = |algorithm: &&dyn SignatureVerificationAlgorithm| {
        key.verify_signature(*algorithm, message, signed.signature()).is_ok()
    };
    match algorithms.iter().take(count).any(is_valid) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(CertificateError::BadSignature.into()),
    }
}
