//! TLS towards clients: which certificate answers for which name.
//!
//! A handshake reads one immutable table through an [`ArcSwap`](arc_swap::ArcSwap) and takes no lock of ours. A
//! change of a certificate or host copies the few nodes of the table that it touches, so a swap costs the same
//! with ten hosts and with ten thousand, and connections that run keep the configuration they began with.

mod describe;
mod fallback;
mod server_config;
mod store;
mod table;

use sluice_config::CertificateId;

pub use describe::CertificateDescription;
pub use store::CertificateStore;

/// What is wrong with a certificate, in words for the owner of its Secret.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The key is damaged or of a kind that cannot sign.
    #[error(
        "Secret {secret}: the private key in tls.key cannot be used ({reason}); it must be RSA of 2048 to 8192 \
         bits, ECDSA on P-256, P-384 or P-521, or Ed25519"
    )]
    Key {
        /// The Secret.
        secret: CertificateId,
        /// What the TLS library says.
        reason: rustls::Error,
    },
    /// Key and certificate are not a pair.
    #[error(
        "Secret {secret}: tls.key is not the key of the first certificate in tls.crt; put the server's own \
         certificate first, or replace both by a matching pair"
    )]
    Mismatch {
        /// The Secret.
        secret: CertificateId,
    },
    /// The chain is empty, or its first certificate is damaged.
    #[error(
        "Secret {secret}: the first certificate in tls.crt cannot be used ({reason}); store the chain in PEM, \
         the server's own certificate first"
    )]
    Chain {
        /// The Secret.
        secret: CertificateId,
        /// What the TLS library says.
        reason: rustls::Error,
    },
    /// The self-signed certificate could not be made at start.
    #[error(
        "cannot make the self-signed fallback certificate: {0}; check that the system's random source works"
    )]
    Fallback(#[from] rcgen::Error),
    /// The TLS library refuses its own defaults or the certificate just made.
    #[error("cannot set up TLS: {0}; this program was built with a TLS library that does not fit")]
    Library(#[from] rustls::Error),
}

#[cfg(test)]
mod tests;
