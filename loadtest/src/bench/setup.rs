//! What a proxy is configured for: the same for all of them within one scenario.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;

use sluice_testing::certificate::TestCertificate;
use sluice_testing::folder::Folder;
use sluice_testing::gateway::Addresses;

use super::feature::Feature;

/// The access log of those who write a file of their own.
pub const ACCESS_LOG: &str = "access.log";
/// Standard output, which is the access log of the others.
pub const OUTPUT: &str = "stdout.log";
/// The host that is asked. It resolves without a name server and can be sent as SNI, which an address cannot.
pub const HOST: &str = "localhost";

/// What is switched on and how much there is of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Hosts with a route each.
    pub routes: usize,
    /// A line per request goes to a file.
    pub access_log: bool,
    /// Metrics as production has them.
    pub metrics: bool,
    /// What the route does besides.
    pub feature: Option<Feature>,
}

impl Setting {
    /// As production runs it, with one route.
    pub const NORMAL: Self = Self { routes: 1, access_log: true, metrics: true, feature: None };
}

/// The hosts that have a route: [`HOST`] and as many more as are wanted.
pub fn hosts(count: usize) -> Vec<String> {
    let more = (1..count).map(|number| format!("host-{number}.bench.example"));
    std::iter::once(HOST.to_owned()).chain(more).collect()
}

/// Where one process of a proxy finds everything.
#[derive(Debug)]
pub struct Setup {
    /// A folder of its own, for configuration and logs.
    pub folder: Folder,
    /// Another, for manifests alone.
    pub manifests: Folder,
    /// What is switched on.
    pub setting: Setting,
    /// The origin.
    pub origin: SocketAddr,
    /// Where to listen in the clear.
    pub http: SocketAddr,
    /// Where to listen on TLS.
    pub https: SocketAddr,
    /// Where to answer about health and metrics.
    pub status: SocketAddr,
    /// Another port, for those who need it.
    pub admin: SocketAddr,
    /// The certificate, shared by all.
    pub certificate: TestCertificate,
}

impl Setup {
    /// Prepares a folder and ports.
    ///
    /// # Errors
    /// The file system refuses, or no ports are free.
    pub fn new(setting: Setting, origin: SocketAddr, certificate: TestCertificate) -> anyhow::Result<Self> {
        let folder = Folder::in_memory()?;
        let manifests = Folder::in_memory()?;
        let Addresses { http, https, healthz: status, admin } = Addresses::reserve();
        let setup = Self { folder, manifests, setting, origin, http, https, status, admin, certificate };
        setup.folder.try_write("tls.crt", &setup.certificate.pem)?;
        setup.folder.try_write("tls.key", &setup.certificate.key_pem)?;
        // HAProxy reads both from one file.
        let both = format!("{}{}", setup.certificate.pem, setup.certificate.key_pem);
        setup.folder.try_write("tls.pem", &both)?;
        Ok(setup)
    }

    /// A file of the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.file(name)
    }

    /// Lines of the access log so far, wherever of the two places the proxy writes it.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn log_lines(&self) -> anyhow::Result<u64> {
        let mut lines = 0;
        for name in [ACCESS_LOG, OUTPUT] {
            let Ok(mut file) = File::open(self.file(name)) else { continue };
            let mut bytes = vec![0; 1 << 20];
            loop {
                match file.read(&mut bytes)? {
                    0 => break,
                    count => lines += bytes[..count].iter().filter(|&&byte| byte == b'\n').count() as u64,
                }
            }
        }
        Ok(lines)
    }

    /// A file of the folder as text, for configuration.
    pub fn path(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }
}
