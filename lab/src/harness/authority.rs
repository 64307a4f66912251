//! An issuer of certificates that tests put into Secrets, and clients that trust it and nothing else.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::TestCertificate;

/// An issuer, made anew for a test.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// A new one.
    ///
    /// # Errors
    /// When the machine has no random numbers.
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Ok(Self { issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)? })
    }

    /// A certificate for a host, unlike every other.
    ///
    /// # Errors
    /// When it is not a DNS name.
    pub fn issue(&self, host: &str) -> Result<TestCertificate> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new([host.to_owned()])?.signed_by(&key, &self.issuer)?;
        Ok(TestCertificate::of(host, &certificate, &key))
    }

    /// A client that trusts certificates of this authority only, and resumes no session: each handshake is a whole
    /// one and shows a certificate.
    ///
    /// # Errors
    /// When the provider of cryptography lacks the usual versions of TLS.
    pub fn client(&self) -> Result<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone())?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Arc::new(config))
    }
}

/// A handshake on a new connection: the certificate that was shown.
///
/// # Errors
/// When nobody answers, or the certificate is not trusted.
pub async fn handshake(
    config: &Arc<ClientConfig>,
    address: SocketAddr,
    host: &str,
) -> Result<CertificateDer<'static>> {
    let stream = TcpStream::connect(address).await.context("connect")?;
    let name = ServerName::try_from(host.to_owned())?;
    let stream = TlsConnector::from(config.clone()).connect(name, stream).await.context("handshake")?;
    let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    Ok(shown.context("no certificate was shown")?.clone().into_owned())
}
