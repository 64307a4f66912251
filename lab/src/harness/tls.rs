//! Certificates of a test, and whether a gateway serves them.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Cluster;

/// A self-signed certificate with its key.
#[derive(Debug)]
pub struct TestCertificate {
    host: String,
    certificate: CertificateDer<'static>,
    chain: String,
    key: String,
}

impl TestCertificate {
    /// A new one for a host.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(host: &str) -> Result<Self> {
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec![host.to_owned()])?;
        Ok(Self::of(host, &cert, &signing_key))
    }

    /// One that was made elsewhere.
    pub(super) fn of(host: &str, certificate: &rcgen::Certificate, key: &KeyPair) -> Self {
        Self {
            host: host.to_owned(),
            certificate: certificate.der().clone(),
            chain: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// As it is shown in a handshake.
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// As a TLS Secret.
    pub fn secret(&self, name: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Secret, type: kubernetes.io/tls, metadata: {{name: {name}}}, data: {{tls.crt: {}, \
             tls.key: {}}}}}",
            STANDARD.encode(&self.chain),
            self.encoded_key()
        )
    }

    /// The key as it stands in the Secret.
    pub fn encoded_key(&self) -> String {
        STANDARD.encode(&self.key)
    }

    /// Whether a gateway serves this very certificate for its host.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn is_served(&self, gateway: SocketAddr) -> Result<bool> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(gateway).await?;
        let name = ServerName::try_from(self.host.clone())?;
        match TlsConnector::from(Arc::new(config)).connect(name, stream).await {
            Ok(stream) => {
                let presented = stream.get_ref().1.peer_certificates();
                Ok(presented.and_then(|all| all.first()) == Some(&self.certificate))
            }
            // It presents another, which we do not trust.
            Err(_) => Ok(false),
        }
    }

    /// Waits until a gateway serves it, or does no longer.
    ///
    /// # Errors
    /// When that does not come to be in time.
    pub async fn served(&self, cluster: &Cluster, gateway: SocketAddr, served: bool) -> Result<()> {
        let what = format!("the certificate of {} to be served: {served}", self.host);
        cluster
            .until(&what, async || {
                ensure!(self.is_served(gateway).await? == served, "it is not so");
                Ok(Some(()))
            })
            .await
    }
}
