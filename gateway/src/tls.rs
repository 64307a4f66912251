//! TLS towards clients: from the name that a client asks for to the certificate that it gets.
//!
//! Every connection uses the table that is there at its handshake; a change publishes a new table that shares
//! everything that did not change, and touches no connection that runs. TLS 1.2 and 1.3, session tickets off
//! as in ingress-nginx, and key exchange that a quantum computer cannot undo later preferred.

pub(crate) mod anchor;
mod certificate;
mod error;
mod fallback;
mod provider;
mod store;
mod table;

pub use certificate::ServedCertificate;
pub(crate) use certificate::certified_key;
pub use error::TlsError;
pub use provider::install_provider;
pub(crate) use provider::provider;
pub use store::CertificateStore;
