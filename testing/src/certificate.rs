//! Certificates for tests.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// A self-signed certificate with its key.
pub struct TestCertificate {
    /// The certificate in DER, as a client sees it.
    pub der: Vec<u8>,
    /// The certificate in PEM.
    pub pem: String,
    /// The key in PEM.
    pub key_pem: String,
    key_der: Vec<u8>,
}

impl TestCertificate {
    /// For these names.
    pub fn new(names: &[&str]) -> Self {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        Self {
            der: made.cert.der().to_vec(),
            pem: made.cert.pem(),
            key_pem: made.signing_key.serialize_pem(),
            key_der: made.signing_key.serialize_der(),
        }
    }

    /// A Secret of type `kubernetes.io/tls` in namespace `default`.
    pub fn secret(&self, name: &str) -> String {
        crate::manifest::tls_secret(name, &self.pem, &self.key_pem)
    }

    /// For a backend that speaks TLS.
    pub fn server_config(&self) -> Arc<ServerConfig> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key_der.clone()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.der.clone().into()], key)
            .unwrap();
        Arc::new(config)
    }
}
