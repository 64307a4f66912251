//! Clients that accept any certificate.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use sluice_testing::trust;

/// Returns a client configuration that accepts any certificate and never resumes, so that every
/// handshake is complete.
pub fn trusting() -> Arc<ClientConfig> {
    let mut config = trust::trusting(rustls::ALL_VERSIONS, &[b"http/1.1"]);
    config.resumption = Resumption::disabled();
    Arc::new(config)
}

/// Sessions that a resuming client keeps.
const SESSIONS: usize = 8;

/// Like [`trusting`], only with TLS 1.3, X25519 and AES-128-GCM, which every server supports.
pub fn trusting_common() -> Arc<ClientConfig> {
    common(Resumption::disabled())
}

/// Like [`trusting_common`], but each connection resumes a session of an earlier one if the server
/// permits it.
pub fn resuming_common() -> Arc<ClientConfig> {
    common(Resumption::in_memory_sessions(SESSIONS))
}

fn common(resumption: Resumption) -> Arc<ClientConfig> {
    let provider = CryptoProvider {
        cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![aws_lc_rs::kx_group::X25519],
        ..aws_lc_rs::default_provider()
    };
    let mut config = trust::trusting_with(provider, &[&rustls::version::TLS13], &[b"http/1.1"]);
    config.resumption = resumption;
    Arc::new(config)
}
