//! The cryptography: aws-lc-rs, with X25519MLKEM768 first among the key exchanges.

use std::sync::{Arc, LazyLock};

use rustls::crypto::CryptoProvider;

static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));

/// Returns the cryptography for all TLS of the gateway itself.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    PROVIDER.clone()
}

/// Installs it as the process default, for connections to endpoints that Pingora makes. Without a
/// default, Pingora uses `ring`, so this must be called before the first worker starts. Does
/// nothing if there is a default already.
pub fn install_provider() {
    let _ = CryptoProvider::install_default((*provider()).clone());
}

#[cfg(test)]
mod tests {
    use rustls::NamedGroup;

    #[test]
    fn key_exchange_is_post_quantum_first() {
        assert_eq!(super::provider().kx_groups[0].name(), NamedGroup::X25519MLKEM768);
    }
}
