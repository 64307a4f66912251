//! Accepts every client certificate in the handshake whose key the client holds.
//!
//! As in nginx, the handshake succeeds and the refusal is an HTTP response. So the signature of the
//! handshake is verified here, and the chain when a request comes
//! ([`ClientAuthorities`](super::client_authorities::ClientAuthorities)).

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use rustls_pki_types::{CertificateDer, UnixTime};

use super::handshake_signature;
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
        handshake_signature::verify_1_2(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        handshake_signature::verify_1_3(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
