//! The only authority that Pingora's clients trust. Its key was discarded, so it has issued no
//! certificate.
//!
//! Without any authority Pingora cannot speak TLS to an endpoint, and with the system's it costs
//! time and memory and can panic. It reads authorities from a file, which is in memory here.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::OnceLock;

static ANCHOR: OnceLock<File> = OnceLock::new();

/// Returns a path under which Pingora can read it while the process runs.
///
/// # Errors
/// The system refuses a file in memory.
pub(crate) fn path() -> io::Result<String> {
    let file = match ANCHOR.get() {
        Some(file) => file,
        None => {
            let made = make()?;
            // Another thread may have been faster.
            ANCHOR.get_or_init(|| made)
        }
    };
    Ok(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

fn make() -> io::Result<File> {
    let mut params = rcgen::CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().map_err(io::Error::other)?;
    let certificate = params.self_signed(&key).map_err(io::Error::other)?;
    let memory = rustix::fs::memfd_create("sluice-trust-anchor", rustix::fs::MemfdFlags::CLOEXEC)?;
    let mut file = File::from(memory);
    file.write_all(certificate.pem().as_bytes())?;
    Ok(file)
}
