//! Hosts: the unit of change of the route table.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::certificate::CertificateId;
use crate::client_certificates::ClientCertificates;
use crate::downstream_tls::CipherSuites;
use crate::host_pattern::HostPattern;
use crate::listener::{GroupId, ListenerId};
use crate::rule::Rule;
use crate::stream::Stream;

/// Identity of a host. Host names are looked up within one listener of one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostKey {
    /// Listener group.
    pub group: GroupId,
    /// Listener within the group.
    pub listener: ListenerId,
    /// Host names.
    pub pattern: HostPattern,
}

impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.group, self.listener, self.pattern)
    }
}

/// The configuration of one host of one listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Host {
    /// Identity.
    pub key: HostKey,
    /// The host whose rules it has, if it is an alias of one (`server-alias`).
    pub alias_of: Option<HostPattern>,
    /// TLS settings; `None` if no object configures TLS for the host.
    pub tls: Option<HostTls>,
    /// Whether a certificate is configured for the host, perhaps that of a wildcard, so
    /// `ssl-redirect` applies. False for requests of other hosts, and for aliases that the
    /// certificate does not cover, even with `tls`.
    pub has_https: bool,
    /// Target of TLS connections whose server name (SNI) is this host, which are not terminated
    /// (`ssl-passthrough`).
    pub passthrough: Option<Arc<Stream>>,
    /// Client certificates; `None` if no object of the host asks for them.
    pub client_certificates: Option<Arc<ClientCertificates>>,
    /// Cipher suites (`ssl-ciphers`, `ssl-prefer-server-ciphers`); `None` for those of all hosts.
    pub cipher_suites: Option<Arc<CipherSuites>>,
    /// Rules in total order: the first rule that matches a request applies. The router derives
    /// order from nothing else.
    pub rules: Vec<Rule>,
    /// Whether requests that match no rule fall through to a less specific host of the same
    /// listener.
    pub fall_through: bool,
}

/// TLS settings of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HostTls {
    /// The certificate; `None` serves the default certificate (the Secret is missing, invalid or
    /// not named).
    pub certificate: Option<CertificateId>,
    /// Further certificates with other types of keys, in order of preference. A client gets the
    /// first one, `certificate` included, whose key it supports.
    pub alternatives: Box<[CertificateId]>,
}

impl HostTls {
    /// Returns the certificates in order of preference; none for the default certificate.
    pub fn certificates(&self) -> impl Iterator<Item = &CertificateId> {
        self.certificate.iter().chain(&*self.alternatives)
    }
}
