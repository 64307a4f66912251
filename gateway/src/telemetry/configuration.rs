//! What the control plane has sent and is in force, as it was sent: for introspection and for metrics that are made of it.

use std::sync::Arc;

use imbl::OrdMap;
use sluice_config::{Certificate, CertificateId, Generation, GroupId, Host, HostKey, ListenerGroup};

/// What was sent and is in force. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// Number of the last delta.
    pub generation: Generation,
    /// Hosts.
    pub hosts: OrdMap<HostKey, Arc<Host>>,
    /// Certificates.
    pub certificates: OrdMap<CertificateId, Arc<Certificate>>,
    /// Listener groups.
    pub groups: OrdMap<GroupId, Arc<ListenerGroup>>,
    pub(crate) hosts_hash: u64,
    pub(crate) settings_hash: u64,
}

impl Configuration {
    /// A number that is equal where hosts and settings are equal, in whatever order they came.
    pub fn hash(&self) -> u64 {
        self.hosts_hash ^ self.settings_hash
    }
}
