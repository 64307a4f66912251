//! A TLS client that accepts any certificate: tests inspect the certificate, and load programs
//! generate it themselves.
//!
//! Signatures are verified, so that a handshake proves that the server has the key.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme, SupportedProtocolVersion};

/// Returns a client configuration for these TLS versions ([`rustls::ALL_VERSIONS`] for the default
/// ones) and these ALPN protocols in the order of preference.
///
/// # Panics
/// `versions` is empty.
pub fn trusting(versions: &[&'static SupportedProtocolVersion], protocols: &[&[u8]]) -> ClientConfig {
    trusting_with(aws_lc_rs::default_provider(), versions, protocols)
}

/// Same as [`trusting`] with custom cipher suites and key exchanges.
///
/// # Panics
/// `versions` is empty, or the provider has no cipher suite for a version.
pub fn trusting_with(
    provider: CryptoProvider,
    versions: &[&'static SupportedProtocolVersion],
    protocols: &[&[u8]],
) -> ClientConfig {
    custom(provider, versions, protocols, None)
}

/// The OCSP response that a server has stapled in the last full handshake; empty for none.
pub type Staple = Arc<Mutex<Vec<u8>>>;

/// Same as [`trusting`], recording stapled OCSP responses. Sessions are not resumed.
///
/// # Panics
/// `versions` is empty.
pub fn recording_staples(
    versions: &[&'static SupportedProtocolVersion],
    protocols: &[&[u8]],
) -> (ClientConfig, Staple) {
    let staple = Staple::default();
    let mut config = custom(aws_lc_rs::default_provider(), versions, protocols, Some(staple.clone()));
    config.resumption = Resumption::disabled();
    (config, staple)
}

fn custom(
    provider: CryptoProvider,
    versions: &[&'static SupportedProtocolVersion],
    protocols: &[&[u8]],
    staple: Option<Staple>,
) -> ClientConfig {
    let provider = Arc::new(provider);
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .expect("the provider has ciphers for every version")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate { provider, staple }))
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    config
}

#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
    staple: Option<Staple>,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        ocsp_response: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if let Some(staple) = &self.staple {
            *staple.lock().unwrap_or_else(PoisonError::into_inner) = ocsp_response.to_vec();
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
