//! TLS between replicas. All have the certificate and the authorities of one Secret. Its key also
//! determines the key of the hashes of clients, so replicas that use different versions of the
//! Secret do not mistake each other's clients for their own.

use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::ServerName;
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::message::Greeting;
use crate::policy::limits::number;
use crate::tls::{Identity, provider};

/// Version of the messages, which replicas agree on by ALPN (RFC 7301).
const PROTOCOL: &[u8] = b"sluice-limits/1";

/// What a replica identifies itself with.
pub(super) struct ReplicaIdentity {
    pub(super) acceptor: TlsAcceptor,
    pub(super) connector: TlsConnector,
    /// The name in the certificate of every replica.
    pub(super) name: ServerName<'static>,
    /// Key of the hashes of clients.
    pub(super) hash_key: [u64; 2],
    /// Distinguishes different keys without revealing them.
    pub(super) fingerprint: u64,
}

impl ReplicaIdentity {
    /// Uses the content of the Secret.
    ///
    /// # Errors
    /// It has no key or no authorities, or the name is invalid.
    pub(super) fn new(identity: &Identity, name: &str) -> Result<Self, String> {
        let (Some(certificate), Some(secret)) = (&identity.certificate, &identity.secret) else {
            return Err("the Secret has no tls.crt and tls.key".to_owned());
        };
        let unusable = |error: rustls::Error| error.to_string();
        let authorities: Arc<RootCertStore> =
            Arc::new(identity.authorities.anchors().iter().cloned().collect());
        let verifier = WebPkiClientVerifier::builder_with_provider(authorities.clone(), provider())
            .build()
            .map_err(|error| error.to_string())?;
        let presented = Arc::new(SingleCertAndKey::from(certificate.clone()));
        let mut server = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(unusable)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(presented.clone());
        server.alpn_protocols = vec![PROTOCOL.to_vec()];
        let mut client = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .map_err(unusable)?
            .with_root_certificates(authorities)
            .with_client_cert_resolver(presented);
        client.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(server)),
            connector: TlsConnector::from(Arc::new(client)),
            name: ServerName::try_from(name.to_owned()).map_err(|error| error.to_string())?,
            hash_key: [derive("hash key 1", secret), derive("hash key 2", secret)],
            fingerprint: derive("fingerprint", secret),
        })
    }

    /// Returns the greeting of the process with this number.
    pub(super) fn greeting(&self, instance: u64) -> Greeting {
        Greeting { instance, fingerprint: self.fingerprint }
    }
}

/// Derives a number from the secret of a key.
fn derive(purpose: &str, secret: &[u8; 32]) -> u64 {
    let mut context = Context::new(&SHA256);
    context.update(secret);
    context.update(purpose.as_bytes());
    number(context)
}
