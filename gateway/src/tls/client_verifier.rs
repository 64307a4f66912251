//! Accepts every client certificate in the handshake whose key the client holds.
//!
//! As in nginx, the handshake succeeds and the refusal is an HTTP response. So the signature of the
//! handshake is verified here, and the chain when a request comes
//! ([`ClientAuthorities`](super::client_authorities::ClientAuthorities)).

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, PeerMisbehaved, ProtocolVersion,
    SignatureScheme,
};
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, UnixTime};
use webpki::RawPublicKeyEntity;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::provider::provider;

/// Requests a certificate, and requires none.
#[derive(Debug)]
pub(super) struct ClientVerifier {
    /// Names of authorities, by which clients choose among their certificates.
    authorities: Box<[DistinguishedName]>,
}

impl ClientVerifier {
    pub(super) fn new(authorities: impl IntoIterator<Item = DistinguishedName>) -> Arc<Self> {
        Arc::new(Self { authorities: authorities.into_iter().collect() })
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.authorities
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_signature(message, certificate, signed, ProtocolVersion::TLSv1_2)
    }

    fn verify_tls13_signature(
        &self,
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
        verify_signature(message, certificate, signed, ProtocolVersion::TLSv1_3)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Verifies with the key of the certificate. rustls' own functions read version 3 of X.509 only,
/// which would refuse clients that OpenSSL accepts.
fn verify_signature(
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
