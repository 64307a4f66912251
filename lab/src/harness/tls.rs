//! Checks of the certificate that a gateway presents.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use sluice_testing::certificate::{Authority, TestCertificate, client_config};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Cluster;

/// Returns whether a gateway presents exactly this certificate for its first name.
///
/// # Errors
/// Returns an error if the connection fails.
pub async fn shows(gateway: SocketAddr, certificate: &TestCertificate) -> Result<bool> {
    let stream = TcpStream::connect(gateway).await?;
    let name = ServerName::try_from(certificate.names[0].clone())?;
    match TlsConnector::from(Arc::new(certificate.client_config())).connect(name, stream).await {
        Ok(stream) => Ok(shown(stream.get_ref().1) == Some(certificate.der.as_slice())),
        // It presents another certificate, which this client does not trust.
        Err(_) => Ok(false),
    }
}

impl Cluster {
    /// Waits until a gateway presents a certificate, or no longer does.
    ///
    /// # Errors
    /// Returns an error if that does not happen in time.
    pub async fn shows(&self, gateway: SocketAddr, certificate: &TestCertificate, shown: bool) -> Result<()> {
        let what = format!("the certificate of {} to be shown: {shown}", certificate.names[0]);
        self.until(&what, async || {
            ensure!(shows(gateway, certificate).await? == shown, "it is not so");
            Ok(Some(()))
        })
        .await
    }
}

/// Returns a client that trusts only certificates of an authority and resumes no sessions: each
/// handshake is complete and presents a certificate.
pub fn client_of(authority: &Authority) -> Arc<ClientConfig> {
    fresh(authority.client_config())
}

/// Like [`client_of`], from the authority's certificate in PEM.
///
/// # Errors
/// Returns an error if it is not a certificate.
pub fn client_of_pem(authority: &str) -> Result<Arc<ClientConfig>> {
    Ok(fresh(client_config(CertificateDer::from_pem_slice(authority.as_bytes())?)))
}

fn fresh(mut config: ClientConfig) -> Arc<ClientConfig> {
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

/// Performs a handshake on a new connection and returns the certificate presented.
///
/// # Errors
/// Returns an error if there is no response, or the certificate is not trusted.
pub async fn handshake(config: &Arc<ClientConfig>, address: SocketAddr, host: &str) -> Result<Vec<u8>> {
    let stream = TcpStream::connect(address).await.context("connect")?;
    let name = ServerName::try_from(host.to_owned())?;
    let stream = TlsConnector::from(config.clone()).connect(name, stream).await.context("handshake")?;
    Ok(shown(stream.get_ref().1).context("no certificate was shown")?.to_vec())
}

fn shown(session: &rustls::ClientConnection) -> Option<&[u8]> {
    session.peer_certificates()?.first().map(CertificateDer::as_ref)
}
