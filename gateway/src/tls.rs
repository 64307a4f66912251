//! TLS towards clients: from the name that a client asks for to the certificate that it gets, and
//! the certificate that it has to present.
//!
//! Every connection uses the table that is there at its handshake; a change publishes a new table
//! that shares everything that did not change, and touches no connection that runs. TLS 1.2 and
//! 1.3, sessions resumed from a cache as in ingress-nginx, and key exchange that a quantum computer
//! cannot undo later preferred.

pub(crate) mod anchor;
mod authorities;
mod certificate;
mod chain_failure;
mod client_authorities;
mod client_certificate;
mod client_verifier;
mod error;
mod fallback;
mod first_supported;
pub mod handshake_signature;
mod identity;
mod profile;
mod profiles;
mod provider;
mod revocations;
mod sessions;
mod signature;
pub(crate) mod stapling;
mod store;
mod table;

pub(crate) use authorities::Authorities;
pub use certificate::ServedCertificate;
pub(crate) use certificate::certified_key;
pub use client_authorities::ClientAuthorities;
pub use client_certificate::{CertificateText, ClientIdentity, ClientTls, PresentedCertificate};
pub use error::TlsError;
pub use identity::Identity;
pub(crate) use identity::are_same;
pub use provider::install_provider;
pub(crate) use provider::provider;
pub use store::CertificateStore;
pub(crate) use store::HandshakeConfig;

use sluice_config::{Delta, Refusal};

/// Receives the certificates of a delta. A trait, so that tests can apply deltas without TLS.
pub trait Certificates {
    /// Applies new certificates, and the certificates that hosts name. Unusable ones are refused,
    /// each with the subject `certificate <namespace>/<name>`.
    fn apply(&self, delta: &Delta) -> Vec<Refusal>;

    /// Carries out the removals of the same delta.
    fn remove(&self, delta: &Delta);
}
