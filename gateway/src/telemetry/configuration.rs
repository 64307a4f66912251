//! The configuration in force, as the control plane sent it: for introspection and metrics.

use std::sync::Arc;

use imbl::OrdMap;
use sluice_config::{Certificate, CertificateId, Generation, GroupId, Host, HostKey, HostTls, ListenerGroup};

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
    pub(crate) groups_hash: u64,
    pub(crate) settings_hash: u64,
}

impl Configuration {
    /// Returns a hash that is equal for equal hosts, TCP and UDP services and settings, in any
    /// order.
    pub fn hash(&self) -> u64 {
        self.hosts_hash ^ self.groups_hash ^ self.settings_hash
    }

    /// Returns the certificates that each host with TLS serves: its own ones, or `default` if it
    /// has none.
    pub(crate) fn served_certificates<'a>(
        &'a self,
        default: Option<&'a CertificateId>,
    ) -> impl Iterator<Item = (&'a HostKey, &'a Arc<Certificate>)> {
        let of_host = move |(key, host): (&'a HostKey, &'a Arc<Host>)| {
            let named = host.tls.iter().flat_map(HostTls::certificates);
            let mut named = named.filter_map(|id| self.certificates.get(id)).peekable();
            let is_without = host.tls.is_some() && named.peek().is_none();
            let default = default.filter(|_| is_without).and_then(|id| self.certificates.get(id));
            named.chain(default).map(move |certificate| (key, certificate))
        };
        self.hosts.iter().flat_map(of_host)
    }
}
