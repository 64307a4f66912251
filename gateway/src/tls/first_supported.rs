//! Several certificates for one name, with keys of different types.

use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// Presents the first certificate whose key the client supports.
///
/// rustls passes only signature schemes that fit a cipher suite of both sides, so that the choice
/// holds for TLS 1.2 as well, whose suites name the type of the key.
#[derive(Debug)]
pub(super) struct FirstSupported(pub(super) Box<[Arc<CertifiedKey>]>);

impl ResolvesServerCert for FirstSupported {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let schemes = hello.signature_schemes();
        let is_supported = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(schemes).is_some();
        // Without any, rustls refuses the first with the reason.
        self.0.iter().find(is_supported).or(self.0.first()).cloned()
    }
}
