//! TLS to endpoints as a rule specifies it (`proxy-ssl-*`).
//!
//! The settings of a rule are compiled with the rule, whereas its Secret is a resource that changes
//! independently. The first request after a change of either creates a rustls configuration with a
//! unique ID. Pools use this ID in their keys, so connections made before the change, or for
//! another rule, are not reused.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use rustls::client::{Resumption, WantsClientCert};
use rustls::crypto::CryptoProvider;
use rustls::sign::SingleCertAndKey;
use rustls::{CertificateError, ClientConfig, OtherError};
use rustls_pki_types::ServerName;
use sluice_config::{ResourceKey, ServiceRef, UpstreamTls};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::connection::{HTTP2, Unverified};
use super::verifier::Verifier;
use crate::policy::PolicyError;
use crate::policy::resources::{ResourceSlot, Resources};
use crate::policy::template::Template;
use crate::tls::{Identity, are_same, provider};

/// Sessions that are kept for the endpoints of one backend.
const SESSIONS: usize = 32;

/// Minimum interval in seconds between two log lines about failed handshakes of one rule.
const QUIET: u64 = 10;

/// TLS to the endpoints of one backend.
#[derive(Debug)]
pub struct EndpointTls {
    policy: UpstreamTls,
    name: ServerName<'static>,
    /// The name, if requests determine it.
    name_per_request: Option<Template>,
    identity: Option<Arc<ResourceSlot<Identity>>>,
    /// Secret of the client certificate; overrides the certificate of `identity`.
    certificate: Option<Arc<ResourceSlot<Identity>>>,
    current: ArcSwapOption<EndpointTlsConfig>,
    /// Time of the last log line about a failure, in Unix seconds.
    last_logged: AtomicU64,
}

/// A TLS configuration in use. All its connections have the same trust settings.
#[derive(Debug)]
pub struct EndpointTlsConfig {
    /// Unique ID.
    pub(crate) id: u64,
    name: ServerName<'static>,
    http1: Arc<ClientConfig>,
    http2: Arc<ClientConfig>,
    /// The reason of the last handshake failure.
    failure: ArcSwapOption<String>,
    /// The Secrets from which it was created.
    source: Secrets,
}

/// Contents of the Secrets of a rule.
#[derive(Clone, Debug, Default)]
struct Secrets {
    identity: Option<Arc<Identity>>,
    certificate: Option<Arc<Identity>>,
}

impl EndpointTls {
    /// Compiles the TLS settings of a rule for one of its backends.
    ///
    /// # Errors
    /// The name is not a valid server name, or the resource is of another kind.
    pub fn compile(
        policy: &UpstreamTls,
        service: Option<&ServiceRef>,
        resources: &Resources,
    ) -> Result<Self, PolicyError> {
        let name = match (&policy.name, service) {
            (Some(name), _) => name.to_string(),
            (None, Some(service)) => format!("{}.{}.svc", service.name, service.namespace),
            (None, None) => return Err(PolicyError::Certificate("there is no name to verify".to_owned())),
        };
        let unusable = |_| PolicyError::Certificate(format!("no certificate can be for the name {name:?}"));
        let slot =
            |key: &Option<ResourceKey>| key.as_ref().map(|key| resources.endpoint_identity(key)).transpose();
        Ok(Self {
            name: ServerName::try_from(name.clone()).map_err(unusable)?,
            identity: slot(&policy.identity)?,
            certificate: slot(&policy.certificate)?,
            name_per_request: policy.name_per_request.as_ref().map(Template::compile).transpose()?,
            policy: policy.clone(),
            current: ArcSwapOption::const_empty(),
            last_logged: AtomicU64::new(0),
        })
    }

    /// Returns the template of the name, if requests determine it.
    pub(crate) fn name_per_request(&self) -> Option<&Template> {
        self.name_per_request.as_ref()
    }

    /// Returns the current configuration; `None` while the Secret is missing or unusable.
    pub(crate) fn config(&self) -> Option<Arc<EndpointTlsConfig>> {
        let secrets = Secrets { identity: filled(&self.identity)?, certificate: filled(&self.certificate)? };
        let known = self.current.load();
        if let Some(config) = known.as_ref().filter(|config| config.source.is(&secrets)) {
            return Some(config.clone());
        }
        let config = EndpointTlsConfig::new(&self.policy, self.name.clone(), secrets);
        match config {
            Ok(config) => {
                let config = Arc::new(config);
                self.current.store(Some(config.clone()));
                Some(config)
            }
            Err(error) => {
                self.log_failure(&error);
                None
            }
        }
    }

    /// Logs the reason of the last handshake failure, at a limited rate.
    pub(crate) fn log_failed_handshake(&self) {
        let config = self.current.load();
        match config.as_ref().and_then(|config| config.failure.load_full()) {
            Some(reason) => self.log_failure(&reason),
            None => self.log_failure(&"the handshake failed"),
        }
    }

    /// Logs from time to time why TLS with an endpoint fails. The client receives a 502 without the
    /// reason.
    fn log_failure(&self, error: &dyn std::fmt::Display) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let last_logged = self.last_logged.load(Relaxed);
        if now >= last_logged + QUIET
            && self.last_logged.compare_exchange(last_logged, now, Relaxed, Relaxed).is_ok()
        {
            tracing::warn!(name = ?self.name, %error, "no TLS with an endpoint, see proxy-ssl-*");
        }
    }
}

impl Secrets {
    /// Returns whether both contain the same objects.
    fn is(&self, other: &Self) -> bool {
        are_same(self.identity.as_ref(), other.identity.as_ref())
            && are_same(self.certificate.as_ref(), other.certificate.as_ref())
    }
}

/// Returns the content of a slot: `None` if the slot is empty, `Some(None)` if the rule has no
/// slot.
fn filled(slot: &Option<Arc<ResourceSlot<Identity>>>) -> Option<Option<Arc<Identity>>> {
    match slot {
        Some(slot) => Some(Some(slot.load_full()?)),
        None => Some(None),
    }
}

impl EndpointTlsConfig {
    fn new(policy: &UpstreamTls, name: ServerName<'static>, source: Secrets) -> Result<Self, rustls::Error> {
        static IDS: AtomicU64 = AtomicU64::new(1);
        let mut versions = Vec::with_capacity(2);
        if policy.versions.v1_2 {
            versions.push(&rustls::version::TLS12);
        }
        if policy.versions.v1_3 {
            versions.push(&rustls::version::TLS13);
        }
        let builder = ClientConfig::builder_with_provider(suites(policy))
            .with_protocol_versions(&versions)?
            .dangerous();
        let builder = match policy.verify_depth {
            Some(depth) => {
                // Without authorities, every certificate is rejected.
                let authorities = source.identity.as_ref().map(|identity| identity.authorities.clone());
                let verifier = Verifier::new(authorities.unwrap_or_default(), depth);
                builder.with_custom_certificate_verifier(Arc::new(verifier))
            }
            None => builder.with_custom_certificate_verifier(Arc::new(Unverified)),
        };
        let presented = source.certificate.as_ref().or(source.identity.as_ref());
        let mut http1 = with_certificate(builder, presented.map(|identity| &**identity));
        http1.enable_sni = policy.sends_name;
        // Of one policy and one version of its Secrets, and so never resumed under another.
        http1.resumption = Resumption::in_memory_sessions(SESSIONS);
        let mut http2 = http1.clone();
        http2.alpn_protocols = vec![HTTP2.to_vec()];
        let id = IDS.fetch_add(1, Relaxed);
        let failure = ArcSwapOption::const_empty();
        Ok(Self { id, name, http1: Arc::new(http1), http2: Arc::new(http2), failure, source })
    }

    /// Performs the TLS handshake with an endpoint. `name` replaces that of the rule.
    ///
    /// # Errors
    /// The handshake fails, or the certificate is not trusted.
    pub(crate) async fn connect(
        &self,
        stream: TcpStream,
        http2: bool,
        name: Option<&str>,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = match name {
            Some(name) => ServerName::try_from(name.to_owned()).map_err(io::Error::other)?,
            None => self.name.clone(),
        };
        let config = if http2 { &self.http2 } else { &self.http1 };
        let connected = TlsConnector::from(config.clone()).connect(name, stream).await;
        let stream = connected.inspect_err(|error| self.failure.store(Some(Arc::new(reason(error)))))?;
        // For an endpoint without ALPN, the protocol of the rule applies, as in nginx.
        if http2 && stream.get_ref().1.alpn_protocol().is_some_and(|chosen| chosen != HTTP2) {
            return Err(io::Error::other("it has chosen another protocol than HTTP/2"));
        }
        Ok(stream)
    }
}

/// Returns why a handshake failed.
fn reason(error: &io::Error) -> String {
    match error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(refusal)))) => {
            format!("an endpoint's certificate is not trusted: {refusal}")
        }
        _ => error.to_string(),
    }
}

fn with_certificate(
    builder: rustls::ConfigBuilder<ClientConfig, WantsClientCert>,
    identity: Option<&Identity>,
) -> ClientConfig {
    match identity.and_then(|identity| identity.certificate.as_ref()) {
        Some(key) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key.clone()))),
        None => builder.with_no_client_auth(),
    }
}

/// Returns the crypto provider without the TLS 1.2 suites that the rule excludes.
fn suites(policy: &UpstreamTls) -> Arc<CryptoProvider> {
    let Some(wanted) = &policy.ciphers else { return provider() };
    let mut own = CryptoProvider::clone(&provider());
    own.cipher_suites.retain(|suite| suite.tls13().is_some() || wanted.contains(&u16::from(suite.suite())));
    Arc::new(own)
}

#[cfg(test)]
mod tests {
    use sluice_config::{
        CaBundle, Change, Delta, EndpointIdentity, NamespacedName, Resource, ResourceKind, TlsVersions,
    };

    use super::*;

    fn key() -> ResourceKey {
        ResourceKey { kind: ResourceKind::EndpointTrust, name: NamespacedName::new("shop", "ca") }
    }

    fn put(resources: &Resources, authority: &[u8]) {
        let identity = EndpointIdentity {
            authorities: CaBundle { certificates: vec![authority.to_vec()] },
            certificate: None,
        };
        let put = Change::Put(key(), Arc::new(Resource::EndpointIdentity(identity)));
        assert_eq!(resources.apply(&Delta { resources: vec![put], ..Delta::default() }), []);
    }

    fn authority() -> Vec<u8> {
        rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap().cert.der().to_vec()
    }

    fn tls(policy: UpstreamTls, resources: &Resources) -> EndpointTls {
        let service = ServiceRef { namespace: "shop".into(), name: "web".into(), port: "443".into() };
        EndpointTls::compile(&policy, Some(&service), resources).unwrap()
    }

    #[test]
    fn connections_are_shared_per_policy_and_secret_version() {
        let resources = Resources::default();
        let policy = UpstreamTls { identity: Some(key()), verify_depth: Some(1), ..UpstreamTls::default() };
        let (one, other) = (tls(policy.clone(), &resources), tls(policy, &resources));
        assert!(one.config().is_none(), "closed while there is no Secret");
        put(&resources, &authority());
        let first = one.config().unwrap().id;
        assert_eq!(one.config().unwrap().id, first);
        assert_ne!(other.config().unwrap().id, first);
        put(&resources, &authority());
        assert_ne!(one.config().unwrap().id, first);
        resources.remove(&Delta { resources: vec![Change::Remove(key())], ..Delta::default() });
        assert!(one.config().is_none());
    }

    #[test]
    fn the_name_is_that_of_the_service_where_none_is_given() {
        let resources = Resources::default();
        let name = |policy| tls(policy, &resources).name.to_str().into_owned();
        assert_eq!(name(UpstreamTls::default()), "web.shop.svc");
        let given = UpstreamTls { name: Some("inner.example".into()), ..UpstreamTls::default() };
        assert_eq!(name(given), "inner.example");
        for bad in ["", "a b", "-"] {
            let policy = UpstreamTls { name: Some(bad.into()), ..UpstreamTls::default() };
            assert!(EndpointTls::compile(&policy, None, &resources).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn versions_and_suites_are_those_of_the_policy() {
        let policy = UpstreamTls {
            versions: TlsVersions { v1_2: true, v1_3: false },
            ciphers: Some([0xc02f].into()),
            ..UpstreamTls::default()
        };
        let config = tls(policy, &Resources::default()).config().unwrap();
        let suites = &config.http1.crypto_provider().cipher_suites;
        let of_1_2: Vec<u16> =
            suites.iter().filter(|suite| suite.tls13().is_none()).map(|suite| suite.suite().into()).collect();
        assert_eq!(of_1_2, [0xc02f]);
        assert!(!config.http1.enable_sni);
        assert_eq!(config.http2.alpn_protocols, [HTTP2]);
    }
}
