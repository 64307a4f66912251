//! TCP and UDP services: the ports that two ConfigMaps map to Services.
//!
//! One node per ConfigMap reads its entries. One node per entry makes the listener group of its
//! port and the pool of its Service, so that an edit of one entry, or of one Service, leaves the
//! other ports alone.

mod listener;
mod services;

pub(crate) use listener::{StreamOutput, compute};
pub(crate) use services::{StreamEntry, StreamServices, read};

use std::collections::BTreeSet;

use sluice_config::{NamespacedName, StreamKey, TransportProtocol};

use crate::options::Options;

/// Returns the ConfigMap that maps ports of a transport protocol, if the flags name one.
pub(crate) fn config_map(options: &Options, transport: TransportProtocol) -> Option<&NamespacedName> {
    match transport {
        TransportProtocol::Tcp => options.tcp_services_configmap.as_ref(),
        TransportProtocol::Udp => options.udp_services_configmap.as_ref(),
    }
}

/// Returns the services whose entries differ between two versions of a ConfigMap.
pub(crate) fn changed_keys(
    transport: TransportProtocol,
    old: &StreamServices,
    new: &StreamServices,
) -> BTreeSet<StreamKey> {
    let ports = old.keys().chain(new.keys()).filter(|port| old.get(port) != new.get(port));
    ports.map(|port| StreamKey { transport, port: *port }).collect()
}

/// Returns the flag that names that ConfigMap.
fn flag(transport: TransportProtocol) -> &'static str {
    match transport {
        TransportProtocol::Tcp => "--tcp-services-configmap",
        TransportProtocol::Udp => "--udp-services-configmap",
    }
}
