//! The cryptography: aws-lc-rs, with X25519MLKEM768 first among the key exchanges.

use std::sync::{Arc, LazyLock};

use rustls::crypto::CryptoProvider;

static PROVIDER: LazyLock<Arc<CryptoProvider>> =
    LazyLock::new(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()));

/// The cryptography of everything that we set up ourselves.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    PROVIDER.clone()
}

/// Makes it the process's own, for connections to endpoints, which Pingora sets up. Pingora takes
/// `ring` where nobody chose: call this before the first worker starts. Does nothing when another
/// has been chosen.
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
