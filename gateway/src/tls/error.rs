//! What can be wrong with a certificate.

use sluice_config::CertificateId;

/// Why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The Secret holds no certificate.
    #[error(
        "Secret {0}: tls.crt holds no certificate; put the PEM chain there, the server's own certificate first"
    )]
    Empty(CertificateId),
    /// Key and certificate do not belong together.
    #[error(
        "Secret {0}: tls.key does not belong to the first certificate in tls.crt; store the key that was used \
         to request it, and put the server's own certificate first"
    )]
    Mismatch(CertificateId),
    /// Key or certificate cannot be used.
    #[error(
        "Secret {id}: {reason}; tls.key must be an RSA, ECDSA (P-256, P-384, P-521) or Ed25519 key and tls.crt \
         an X.509 chain"
    )]
    Unusable {
        /// The Secret.
        id: CertificateId,
        /// The error of rustls.
        reason: rustls::Error,
    },
    /// A certificate authority cannot be used.
    #[error("an authority cannot be used: {0}")]
    Authority(webpki::Error),
    /// A revocation list of a client authority cannot be used.
    #[error(
        "ca.crl has a revocation list that cannot be used: {0}; issue it in version 2 (RFC 5280), complete, with a \
         number and the time of its next update"
    )]
    Revocation(webpki::Error),
    /// The fallback certificate could not be made. This should not happen.
    #[error("cannot make the self-signed fallback certificate: {0}")]
    Fallback(#[from] rcgen::Error),
    /// The protocol versions do not fit the cryptography. This should not happen.
    #[error("cannot set up TLS: {0}")]
    Setup(#[from] rustls::Error),
}
