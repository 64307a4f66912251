//! One worker's `HttpProxy`.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use pingora_core::apps::HttpServerOptions;
use pingora_core::server::configuration::ServerConf;
use pingora_proxy::{HttpProxy, http_proxy};

use super::Proxy;
use crate::drain::Drain;
use crate::policy::retry::MOST_ATTEMPTS;
use crate::state::State;

/// Pingora's proxy with our phases.
pub(crate) type Engine = HttpProxy<Proxy>;

/// A certificate authority of which nobody has the key, in a file that exists in memory alone.
///
/// Pingora loads the system's certificate authorities into every proxy, at a cost in time and memory, and
/// panics on a bad one. With this in their place a connection to an endpoint that is to be verified and has no
/// authority of its own fails, in place of trusting whoever the image happened to trust.
#[derive(Clone, Debug)]
pub(crate) struct TrustAnchor(Arc<File>);

impl TrustAnchor {
    pub(crate) fn new() -> io::Result<Self> {
        let mut params = rcgen::CertificateParams::new(Vec::new()).map_err(io::Error::other)?;
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().map_err(io::Error::other)?;
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        let memory = rustix::fs::memfd_create("sluice-trust-anchor", rustix::fs::MemfdFlags::CLOEXEC)?;
        let mut file = File::from(memory);
        file.write_all(certificate.pem().as_bytes())?;
        Ok(Self(Arc::new(file)))
    }

    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }
}

/// A proxy that keeps `pool` idle connections.
pub(crate) fn engine(
    state: &Arc<State>,
    drain: &Arc<Drain>,
    pool: usize,
    trust: &TrustAnchor,
) -> Arc<Engine> {
    let conf = ServerConf {
        threads: 1,
        upstream_keepalive_pool_size: pool,
        ca_file: Some(trust.path()),
        // Attempts are counted per route, in the pipeline. Any of them may meet a stale connection first.
        max_retries: 2 * MOST_ATTEMPTS as usize,
        ..ServerConf::default()
    };
    let mut engine = http_proxy(&Arc::new(conf), Proxy::new(state.clone(), drain.clone()));
    // So that CONNECT reaches us, who refuse it with our own page.
    let mut options = HttpServerOptions::default();
    options.allow_connect_method_proxying = true;
    engine.server_options = Some(options);
    Arc::new(engine)
}
