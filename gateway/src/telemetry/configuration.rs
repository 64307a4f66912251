//! The configuration in force, as the control plane sent it: for introspection and metrics.

use std::sync::Arc;

use imbl::OrdMap;
use sluice_config::{Certificate, CertificateId, Generation, GroupId, Host, HostKey, ListenerGroup};

/// The configuration in force. Clones share all entries.
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
    /// Returns a hash that is equal for equal hosts and settings, in any order.
    pub fn hash(&self) -> u64 {
        self.hosts_hash ^ self.settings_hash
    }
}
