//! What Pingora's proxies trust: nobody.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// A certificate authority whose key was thrown away, in a file that exists in memory alone.
///
/// Pingora loads the system's authorities into every proxy, at a cost in time and memory, and panics over a bad
/// one; without any it cannot speak TLS to an endpoint at all. With this in their place, a connection that is to
/// be verified and brings no authority of its own fails, instead of trusting whoever the image happens to trust.
#[derive(Clone, Debug)]
pub(crate) struct TrustAnchor(Arc<File>);

impl TrustAnchor {
    /// Makes one.
    ///
    /// # Errors
    /// The system gives no memory file, or no certificate can be made.
    pub(crate) fn new() -> io::Result<Self> {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = rcgen::KeyPair::generate()
            .and_then(|key| parameters.self_signed(&key))
            .map_err(io::Error::other)?;
        let memory = rustix::fs::memfd_create("sluice-trust-anchor", rustix::fs::MemfdFlags::CLOEXEC)?;
        let mut file = File::from(memory);
        file.write_all(certificate.pem().as_bytes())?;
        Ok(Self(Arc::new(file)))
    }

    /// Where Pingora finds it, for as long as `self` lives.
    pub(crate) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }
}
