//! Certificates to serve, and a client that takes any.

use std::sync::Arc;

use anyhow::Context;
use rustls::ClientConfig;
use rustls::client::Resumption;
use sluice_testing::trust;

/// A self-signed certificate with its key.
#[derive(Clone, Debug)]
pub struct Certificate {
    /// The certificate in DER.
    pub der: Vec<u8>,
    /// The certificate in PEM.
    pub pem: String,
    /// The key in PEM.
    pub key_pem: String,
}

impl Certificate {
    /// For one name.
    ///
    /// # Errors
    /// The name is not a DNS name.
    pub fn new(name: &str) -> anyhow::Result<Self> {
        let made =
            rcgen::generate_simple_self_signed([name.to_owned()]).context("cannot make a certificate")?;
        Ok(Self {
            der: made.cert.der().to_vec(),
            pem: made.cert.pem(),
            key_pem: made.signing_key.serialize_pem(),
        })
    }
}

/// A client configuration that takes any certificate and never resumes, so that every handshake is a whole one.
pub fn trusting() -> Arc<ClientConfig> {
    let mut config = trust::trusting(rustls::ALL_VERSIONS, &[b"http/1.1"]);
    config.resumption = Resumption::disabled();
    Arc::new(config)
}
