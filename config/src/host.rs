//! Hosts: the unit by which the route table changes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::certificate::CertificateId;
use crate::listener::{GroupId, ListenerId};
use crate::name::HostName;
use crate::rule::Rule;

/// Which host names a host entry or listener stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum HostPattern {
    /// This name alone.
    Exact(HostName),
    /// `*.name` with exactly one label in place of the star (Kubernetes Ingress). Holds `name`.
    OneLabel(HostName),
    /// `*.name` with one or more labels in place of the star (Gateway API). Holds `name`.
    Suffix(HostName),
    /// Every host, and requests without one.
    Any,
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(name) => write!(f, "{name}"),
            Self::OneLabel(name) | Self::Suffix(name) => write!(f, "*.{name}"),
            Self::Any => f.write_str("_"),
        }
    }
}

/// Identity of a host: host names are looked up inside one listener of one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostKey {
    /// Listener group.
    pub group: GroupId,
    /// Listener within the group.
    pub listener: ListenerId,
    /// The host or hosts.
    pub pattern: HostPattern,
}

impl fmt::Display for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.group, self.listener, self.pattern)
    }
}

/// Everything that is served for one host of one listener.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Identity.
    pub key: HostKey,
    /// How TLS ends for this host; `None` where no object asks for TLS.
    pub tls: Option<HostTls>,
    /// In total order: the first rule whose match fits the request decides. The router never derives order
    /// from anything else.
    pub rules: Vec<Rule>,
    /// Whether a request that no rule matches may be looked up in a less specific host of the same listener.
    pub fall_through: bool,
}

/// TLS settings of a host. A host that has them counts as "has TLS" for `ssl-redirect`, whether or not its
/// certificate could be found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTls {
    /// The certificate; `None` serves the default certificate (its Secret is missing, unusable or not named).
    pub certificate: Option<CertificateId>,
}
