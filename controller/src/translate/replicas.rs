//! The replicas of the gateway, which apply limits together: the endpoints of the Service that
//! `--replica-service` names.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use sluice_config::{Code, NamespacedName, ObjectRef, Problem, Replicas, ResourceKey};

use super::backend::Uses;
use super::global_settings::LIMIT_ACROSS_REPLICAS as KEY;
use super::view::View;
use crate::problem::{error, warning};
use crate::store::EndpointSlice;

/// The name of the port in the Service, if it has several.
const PORT: &str = "replicas";

/// What happens without the replicas.
const ALONE: &str = "each replica applies the limits by itself";

/// What happens if the replicas cannot communicate.
const DIVIDED: &str = "each replica has an equal share of every limit";

/// Returns the replicas, if limits apply to all of them together.
pub(super) fn compute(
    view: &View<'_>,
    uses: &mut Uses,
    problems: &mut Vec<Problem>,
) -> Option<Arc<Replicas>> {
    if !view.config_map_settings().limit_across_replicas {
        return None;
    }
    let (service, listen) = match (&view.options.replica_service, view.options.replica_address) {
        (Some(service), Some(listen)) => (service, listen),
        (service, _) => {
            let flag = if service.is_none() { "--replica-service" } else { "--replica-address" };
            problems.push(warning(
                Code::LimitsNotShared,
                &config_map(view),
                format!("data[{KEY}]"),
                format!("{flag} is not set; {ALONE}"),
                "set the flag (docs/limits.md; in the chart, controller.replicaLimits.enabled), or remove the key",
            ));
            return None;
        }
    };
    let addresses = addresses(&view.slices_of(service));
    if addresses.is_empty() {
        problems.push(warning(
            Code::LimitsNotShared,
            &ObjectRef::new("Flag", "", "--replica-service"),
            service.to_string(),
            format!("this Service has no endpoints with a port {PORT:?}, or with one port only; {ALONE}"),
            "let the Service select the Pods of the gateway, or correct the flag; it is picked up without a restart",
        ));
        return None;
    }
    Some(Arc::new(Replicas {
        listen,
        addresses,
        name: format!("{}.{}.svc", service.name, service.namespace).into(),
        identity: identity(view, uses, problems),
    }))
}

/// Returns the certificate and authorities of the replicas, if they are usable.
fn identity(view: &View<'_>, uses: &mut Uses, problems: &mut Vec<Problem>) -> Option<ResourceKey> {
    let flag = ObjectRef::new("Flag", "", "--replica-secret");
    let Some(key) = view.options.replica_identity() else {
        problems.push(warning(
            Code::LimitsNotShared,
            &flag,
            "",
            format!("the flag is not set, so replicas cannot report their use of limits; {DIVIDED}"),
            "create a Secret with ca.crt, tls.crt and tls.key, and name it in the flag (docs/limits.md)",
        ));
        return None;
    };
    let field = key.name.to_string();
    let state = view.resource(&key);
    if let Some(fault) = state.fault(&key, view.options) {
        problems.push(error(fault.code, &flag, field, format!("{}; {DIVIDED}", fault.reason), fault.remedy));
        return None;
    }
    uses.resource(&key);
    Some(key)
}

fn config_map(view: &View<'_>) -> ObjectRef {
    let name = view.options.configmap.clone().unwrap_or_else(|| NamespacedName::new("", ""));
    ObjectRef { kind: "ConfigMap".into(), name }
}

/// Returns the addresses of all replicas that serve requests. Those that are not ready count too:
/// they may have open connections. Of a Service with both IP versions, only IPv4 is used, because
/// each replica would otherwise count twice.
fn addresses(slices: &[&Arc<EndpointSlice>]) -> Vec<SocketAddr> {
    let mut all = BTreeSet::new();
    for slice in slices {
        let named = slice.ports.iter().find(|port| *port.name == *PORT);
        let port = match (named, &*slice.ports) {
            (Some(port), _) | (None, [port]) => port.number,
            _ => continue,
        };
        all.extend(slice.endpoints.iter().map(|endpoint| SocketAddr::new(endpoint.address, port)));
    }
    if all.iter().any(SocketAddr::is_ipv4) {
        all.retain(SocketAddr::is_ipv4);
    }
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{AddressType, SliceEndpoint, SlicePort};

    fn slice(ports: &[(&str, u16)], addresses: &[&str]) -> Arc<EndpointSlice> {
        let name = NamespacedName::new("system", "gateway");
        let port = |(name, number): &(&str, u16)| SlicePort { name: (*name).into(), number: *number };
        let endpoint = |address: &&str| SliceEndpoint {
            address: address.parse().unwrap(),
            ready: false,
            serving: true,
            terminating: false,
            zone: None,
            hints: None,
        };
        Arc::new(EndpointSlice {
            name: name.clone(),
            identity: Default::default(),
            service: name,
            address_type: AddressType::Ip,
            ports: ports.iter().map(port).collect(),
            udp_ports: [].into(),
            is_unrestricted: false,
            endpoints: addresses.iter().map(endpoint).collect(),
            bad_addresses: [].into(),
        })
    }

    fn found(slices: &[Arc<EndpointSlice>]) -> Vec<String> {
        addresses(&slices.iter().collect::<Vec<_>>()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_port_has_the_name_or_is_the_only_one() {
        let two = [("http", 80), ("replicas", 7)];
        assert_eq!(found(&[slice(&two, &["10.0.0.2", "10.0.0.1"])]), ["10.0.0.1:7", "10.0.0.2:7"]);
        assert_eq!(found(&[slice(&[("other", 9)], &["10.0.0.1"])]), ["10.0.0.1:9"]);
        assert!(found(&[slice(&[("http", 80), ("https", 443)], &["10.0.0.1"])]).is_empty());
    }

    #[test]
    fn a_replica_with_two_addresses_counts_once() {
        let port = [("replicas", 7)];
        let slices = [slice(&port, &["fd00::1"]), slice(&port, &["10.0.0.1"])];
        assert_eq!(found(&slices), ["10.0.0.1:7"]);
        assert_eq!(found(&slices[..1]), ["[fd00::1]:7"]);
    }
}
