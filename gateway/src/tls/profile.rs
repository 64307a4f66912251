//! What all hosts with equal TLS settings have in common: everything but the certificate.
//!
//! A handshake copies the configuration of its profile and adds the certificate, so that 5,000
//! hosts with equal settings share one configuration, with its sessions: none is resumed under the
//! verification of another profile.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::ALL_KX_GROUPS;
use rustls::server::ResolvesServerCert;
use rustls::{ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};
use sluice_config::{CipherSuites, ClientCertificateMode, ClientVerification, DownstreamTls, Host};

use super::client_verifier::ClientVerifier;
use super::error::TlsError;
use super::provider::provider;
use super::sessions::{SessionSpace, Sessions};

/// Most bytes of early data per connection; a client that sends more is refused. As OpenSSL's
/// default.
const EARLY_DATA: u32 = 16 * 1024;

/// The settings of a host that its handshakes depend on. Most hosts have the default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
pub(super) struct ProfileKey {
    /// How client certificates are verified; `None` requests none.
    pub(super) verification: Option<Arc<ClientVerification>>,
    /// Suites in place of those of all hosts.
    pub(super) suites: Option<Arc<CipherSuites>>,
}

/// The configuration of all hosts with one key.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    pub(super) verification: Option<Arc<ClientVerification>>,
    /// `None` if settings leave no version to offer: handshakes are refused.
    base: Option<Arc<ServerConfig>>,
    pub(super) space: SessionSpace,
    /// Hosts that use it.
    pub(super) hosts: usize,
}

/// Settings for all profiles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ProfileSettings {
    pub(super) http2: bool,
    pub(super) tls: DownstreamTls,
}

impl ProfileKey {
    /// The key of a host.
    pub(super) fn of(host: &Host) -> Self {
        let client = host.client_certificates.as_ref();
        let client = client.filter(|client| client.mode != ClientCertificateMode::Off);
        Self {
            verification: client.map(|client| Arc::new(client.verification.clone())),
            suites: host.cipher_suites.clone(),
        }
    }

    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// A name that is the same on all replicas, and that no other key has.
    fn name(&self) -> Option<Vec<u8>> {
        serde_json::to_vec(self).ok()
    }
}

impl Profile {
    /// Builds a configuration. `verifier` requests client certificates; `resolver` is replaced in
    /// each handshake.
    pub(super) fn new(
        key: &ProfileKey,
        settings: &ProfileSettings,
        (sessions, space): (&Sessions, SessionSpace),
        verifier: Option<Arc<ClientVerifier>>,
        resolver: Arc<dyn ResolvesServerCert>,
    ) -> Result<Self, TlsError> {
        let suites = key.suites.as_deref().unwrap_or(&settings.tls.suites);
        let profile =
            Self { verification: key.verification.clone(), base: None, space: space.clone(), hosts: 0 };
        let provider = cryptography(&settings.tls, suites);
        let versions = versions(&settings.tls, &provider);
        if versions.is_empty() {
            return Ok(profile);
        }
        let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(&versions)?;
        // A replay would carry the identity of the client.
        let early_data = settings.tls.early_data && verifier.is_none();
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut base = builder.with_cert_resolver(resolver);
        base.ignore_client_order = suites.server_order.unwrap_or(suites.list.is_some());
        base.alpn_protocols = protocols(settings.http2);
        if early_data {
            base.max_early_data_size = EARLY_DATA;
            base.send_half_rtt_data = true;
        }
        sessions.install(&mut base, &space, key.name().as_deref())?;
        Ok(Self { base: Some(Arc::new(base)), ..profile })
    }

    /// The configuration of one handshake; `None` refuses it.
    pub(super) fn with_certificate(
        &self,
        resolver: Arc<dyn ResolvesServerCert>,
    ) -> Option<Arc<ServerConfig>> {
        let mut config = ServerConfig::clone(self.base.as_ref()?);
        config.cert_resolver = resolver;
        Some(Arc::new(config))
    }
}

/// The cryptography that settings allow, in their order. All suites of TLS 1.3 are part of it.
fn cryptography(settings: &DownstreamTls, suites: &CipherSuites) -> Arc<CryptoProvider> {
    if suites.list.is_none() && settings.groups.is_none() {
        return provider();
    }
    let mut own = CryptoProvider::clone(&provider());
    if let Some(list) = &suites.list {
        let all = std::mem::take(&mut own.cipher_suites);
        let named = |number: &u16| all.iter().find(|suite| u16::from(suite.suite()) == *number);
        let is_of_1_3 = |suite: &&SupportedCipherSuite| suite.tls13().is_some();
        own.cipher_suites =
            all.iter().filter(is_of_1_3).chain(list.iter().filter_map(named)).copied().collect();
    }
    if let Some(groups) = &settings.groups {
        let named =
            |number: &u16| ALL_KX_GROUPS.iter().find(|group| u16::from(group.name()) == *number).copied();
        own.kx_groups = groups.iter().filter_map(named).collect();
    }
    Arc::new(own)
}

fn versions(settings: &DownstreamTls, provider: &CryptoProvider) -> Vec<&'static SupportedProtocolVersion> {
    let offered = [
        (settings.versions.v1_3, &rustls::version::TLS13),
        (settings.versions.v1_2, &rustls::version::TLS12),
    ];
    let has_suite = |version: &SupportedProtocolVersion| {
        provider.cipher_suites.iter().any(|suite| suite.version().version == version.version)
    };
    let offered = offered.into_iter().filter(|(is_on, version)| *is_on && has_suite(version));
    offered.map(|(_, version)| version).collect()
}

/// What is offered by ALPN (RFC 7301), in order of preference.
fn protocols(http2: bool) -> Vec<Vec<u8>> {
    match http2 {
        true => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        false => vec![b"http/1.1".to_vec()],
    }
}
