//! What all hosts with equal TLS settings have in common: everything but the certificate.
//!
//! A handshake copies the configuration of its profile and adds the certificate, so that 5,000 hosts
//! with equal settings share one configuration, with its sessions: none is resumed under the
//! verification of another profile.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::server::{NoServerSessionStorage, ResolvesServerCert};
use sluice_config::{ClientVerification, Host};

use super::client_verifier::ClientVerifier;
use super::error::TlsError;
use super::provider::provider;

/// The settings of a host that its handshakes depend on. Most hosts have the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ProfileKey {
    /// How client certificates are verified; `None` requests none.
    pub(super) verification: Option<Arc<ClientVerification>>,
}

/// The configuration of all hosts with one key.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    pub(super) verification: Option<Arc<ClientVerification>>,
    base: Arc<ServerConfig>,
    /// Hosts that use it.
    pub(super) hosts: usize,
}

/// Settings for all profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProfileSettings {
    pub(super) http2: bool,
}

impl ProfileKey {
    /// The key of a host.
    pub(super) fn of(host: &Host) -> Self {
        let client = host.client_certificates.as_ref();
        let client = client.filter(|client| client.mode != sluice_config::ClientCertificateMode::Off);
        Self { verification: client.map(|client| Arc::new(client.verification.clone())) }
    }

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Profile {
    /// Builds a configuration. `verifier` requests client certificates; `resolver` is replaced in
    /// each handshake.
    pub(super) fn new(
        key: &ProfileKey,
        settings: &ProfileSettings,
        verifier: Option<Arc<ClientVerifier>>,
        resolver: Arc<dyn ResolvesServerCert>,
    ) -> Result<Self, TlsError> {
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut base = builder.with_cert_resolver(resolver);
        base.session_storage = Arc::new(NoServerSessionStorage {});
        base.send_tls13_tickets = 0;
        base.alpn_protocols = protocols(settings.http2);
        Ok(Self { verification: key.verification.clone(), base: Arc::new(base), hosts: 0 })
    }

    /// The configuration of one handshake.
    pub(super) fn with_certificate(&self, resolver: Arc<dyn ResolvesServerCert>) -> Arc<ServerConfig> {
        let mut config = ServerConfig::clone(&self.base);
        config.cert_resolver = resolver;
        Arc::new(config)
    }
}

/// What is offered by ALPN (RFC 7301), in order of preference.
fn protocols(http2: bool) -> Vec<Vec<u8>> {
    match http2 {
        true => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        false => vec![b"http/1.1".to_vec()],
    }
}
