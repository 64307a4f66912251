//! The configuration of a proxy, equal for all peers within one scenario.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;

use sluice_testing::certificate::TestCertificate;
use sluice_testing::folder::Folder;
use sluice_testing::gateway::Addresses;
use sluice_testing::ports;

use super::feature::Feature;

/// Access log of proxies that write to a file.
pub const ACCESS_LOG: &str = "access.log";
/// Standard output, the access log of the others.
pub const OUTPUT: &str = "stdout.log";
/// The default host. It resolves without a name server, and it is valid as SNI, unlike an address.
pub const HOST: &str = "localhost";

/// The settings of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Number of hosts, each with one route.
    pub routes: usize,
    /// Whether a line per request is logged to a file.
    pub access_log: bool,
    /// Whether metrics are enabled as in production.
    pub metrics: bool,
    /// Whether TLS sessions are kept in a cache of the proxy; tickets are never used.
    pub sessions: bool,
    /// Whether TCP and UDP are forwarded too.
    pub streams: bool,
    /// An additional feature of the route.
    pub feature: Option<Feature>,
}

impl Setting {
    /// Production settings with one route.
    pub const NORMAL: Self =
        Self { routes: 1, access_log: true, metrics: true, sessions: false, streams: false, feature: None };
}

/// Returns the hosts with a route: [`HOST`] and `count - 1` others.
pub fn hosts(count: usize) -> Vec<String> {
    let more = (1..count).map(|number| format!("host-{number}.bench.example"));
    std::iter::once(HOST.to_owned()).chain(more).collect()
}

/// The files and addresses of one proxy process.
#[derive(Debug)]
pub struct Setup {
    /// The folder for configuration and logs.
    pub folder: Folder,
    /// The folder for manifests.
    pub manifests: Folder,
    /// The settings.
    pub setting: Setting,
    /// The origin.
    pub origin: SocketAddr,
    /// Address for plain HTTP.
    pub http: SocketAddr,
    /// Address for HTTPS.
    pub https: SocketAddr,
    /// Address for health and metrics.
    pub status: SocketAddr,
    /// An additional address, for proxies that need one.
    pub admin: SocketAddr,
    /// Address for TCP and UDP.
    pub stream: SocketAddr,
    /// Address of the agent of the web application firewall.
    pub agent: SocketAddr,
    /// The certificate, the same for all proxies.
    pub certificate: TestCertificate,
}

impl Setup {
    /// Prepares folders and ports.
    ///
    /// # Errors
    /// The file system refuses, or no ports are free.
    pub fn new(setting: Setting, origin: SocketAddr, certificate: TestCertificate) -> anyhow::Result<Self> {
        let folder = Folder::in_memory()?;
        let manifests = Folder::in_memory()?;
        let Addresses { http, https, healthz: status, admin } = Addresses::reserve();
        let [stream, agent] = ports::addresses();
        let setup = Self {
            folder,
            manifests,
            setting,
            origin,
            http,
            https,
            status,
            admin,
            stream,
            agent,
            certificate,
        };
        setup.folder.try_write("tls.crt", &setup.certificate.pem)?;
        setup.folder.try_write("tls.key", &setup.certificate.key_pem)?;
        // HAProxy reads both from one file.
        let both = format!("{}{}", setup.certificate.pem, setup.certificate.key_pem);
        setup.folder.try_write("tls.pem", &both)?;
        Ok(setup)
    }

    /// Returns the path of a file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.file(name)
    }

    /// Returns the number of access log lines so far, whichever of the two files the proxy uses.
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

    /// Returns the path of a file in the folder as text, for configurations.
    pub fn path(&self, name: &str) -> String {
        self.file(name).display().to_string()
    }
}
