//! What all certificates share of a `rustls::ServerConfig`, and how one is made of it.
//!
//! The library's builder sets up a session store of 256 slots (30 KiB) in every configuration it makes. So it is
//! used once, for a template; a certificate's configuration is a copy of that with another key, about half a
//! KiB, and shares the template's algorithms and sessions.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{
    CertificateDer, PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer,
};
use rustls::server::ServerSessionMemoryCache;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{Error, InconsistentKeys};
use sluice_config::{Certificate, PrivateKey};

use super::TlsError;

/// TLS 1.2 sessions that can be resumed, over all hosts: as the reference's `ssl-session-cache` is, one store
/// for the process. An entry takes about 300 octets once it is used; the library matches the server name
/// before it resumes, so a session never moves to another host.
const SESSIONS: usize = 16 * 1024;

/// TLS 1.3 and 1.2 with the aws-lc-rs algorithms, X25519MLKEM768 preferred, as `ssl-protocols` has it.
///
/// No session tickets (`ssl-session-tickets` is false): neither the stateless ones of TLS 1.2 nor those of
/// TLS 1.3, whose sessions are therefore not resumed; TLS 1.2 sessions are, by their identity.
pub(super) fn template(
    fallback: CertifiedKey,
    provider: Arc<CryptoProvider>,
) -> Result<ServerConfig, TlsError> {
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(fallback)));
    config.session_storage = ServerSessionMemoryCache::new(SESSIONS);
    config.send_tls13_tickets = 0;
    set_http2(&mut config, true);
    Ok(config)
}

/// The algorithms; given explicitly everywhere, so that no other part of the process decides them.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// Offers HTTP/2 in ALPN (RFC 7301), or HTTP/1.1 alone.
pub(super) fn set_http2(config: &mut ServerConfig, http2: bool) {
    let protocols: &[&[u8]] = if http2 { &[b"h2", b"http/1.1"] } else { &[b"http/1.1"] };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
}

/// Whether HTTP/2 is offered.
pub(super) fn offers_http2(config: &ServerConfig) -> bool {
    config.alpn_protocols.iter().any(|name| name == b"h2")
}

/// The template with this key.
pub(super) fn with_key(template: &ServerConfig, key: CertifiedKey) -> Arc<ServerConfig> {
    let mut config = template.clone();
    config.cert_resolver = Arc::new(SingleCertAndKey::from(key));
    Arc::new(config)
}

/// Makes a chain and its key ready for use, or says why not.
pub(super) fn certified_key(
    certificate: &Certificate,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let secret = || certificate.id.clone();
    let key = match &certificate.key {
        PrivateKey::Pkcs8(der) => PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(der.clone())),
        PrivateKey::Pkcs1(der) => PrivateKeyDer::Pkcs1(PrivatePkcs1KeyDer::from(der.clone())),
        PrivateKey::Sec1(der) => PrivateKeyDer::Sec1(PrivateSec1KeyDer::from(der.clone())),
    };
    let key = provider
        .key_provider
        .load_private_key(key)
        .map_err(|reason| TlsError::Key { secret: secret(), reason })?;
    let chain = certificate.chain.iter().map(|der| CertificateDer::from(der.clone())).collect();
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) => Ok(certified),
        Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
            Err(TlsError::Mismatch { secret: secret() })
        }
        Err(reason) => Err(TlsError::Chain { secret: secret(), reason }),
    }
}
