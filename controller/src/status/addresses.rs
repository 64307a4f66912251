//! The addresses of the gateway, from the sources that the flags name.
//!
//! The rules are those of ingress-nginx: fixed addresses, else those of a Service by its type, else
//! those of the nodes with ready Pods of the gateway.

use k8s_openapi::api::core::v1 as core;

use crate::store::Address;

/// Returns the addresses of `--publish-status-address`: IP addresses and host names.
pub(crate) fn fixed(list: &[String]) -> Vec<Address> {
    in_order(list.iter().flat_map(|item| item.split_whitespace()).map(address).collect())
}

/// Returns the addresses of a Service, by its type.
pub(crate) fn of_service(service: &core::Service) -> Vec<Address> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let external = || spec.external_ips.iter().flatten().map(|ip| address(ip));
    let cluster = || spec.cluster_ip.iter().filter(|ip| *ip != "None").map(|ip| address(ip));
    let all = match spec.type_.as_deref().unwrap_or("ClusterIP") {
        "ExternalName" => spec.external_name.iter().map(|name| address(name)).collect(),
        "NodePort" if spec.external_ips.as_ref().is_some_and(|ips| !ips.is_empty()) => external().collect(),
        "LoadBalancer" => {
            let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
            let given = balancer.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
            let given = given.map(|one| Address {
                hostname: one.hostname.as_deref().unwrap_or_default().into(),
                ip: one.ip.as_deref().unwrap_or_default().into(),
            });
            given.chain(external()).collect()
        }
        _ => cluster().collect(),
    };
    in_order(all)
}

/// Returns the node of a Pod, if the Pod is ready.
pub(crate) fn node_of_ready(pod: &core::Pod) -> Option<&str> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().any(|one| one.type_ == "Ready" && one.status == "True");
    pod.spec.as_ref()?.node_name.as_deref().filter(|_| ready)
}

/// Returns the addresses of nodes: of each all external ones, or all internal ones if there are
/// none or `internal` is set. A dual-stack node has one of each family.
pub(crate) fn of_nodes<'n>(nodes: impl Iterator<Item = &'n core::Node>, internal: bool) -> Vec<Address> {
    let of_node = |node: &'n core::Node| {
        let all = node.status.as_ref().and_then(|status| status.addresses.as_deref()).unwrap_or_default();
        let of =
            |kind: &'static str| all.iter().filter(move |one| one.type_ == kind && !one.address.is_empty());
        let kind = match internal || of("ExternalIP").next().is_none() {
            true => "InternalIP",
            false => "ExternalIP",
        };
        of(kind).map(|one| address(&one.address))
    };
    in_order(nodes.flat_map(of_node).collect())
}

fn address(text: &str) -> Address {
    match text.parse::<std::net::IpAddr>() {
        Ok(_) => Address { ip: text.into(), hostname: Box::default() },
        Err(_) => Address { ip: Box::default(), hostname: text.into() },
    }
}

fn in_order(mut all: Vec<Address>) -> Vec<Address> {
    all.retain(|one| !(one.ip.is_empty() && one.hostname.is_empty()));
    all.sort();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn shown(all: &[Address]) -> Vec<&str> {
        all.iter().map(|one| if one.ip.is_empty() { &*one.hostname } else { &*one.ip }).collect()
    }

    fn service(spec: Value, status: Value) -> core::Service {
        serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec, "status": status})).unwrap()
    }

    #[test]
    fn fixed_addresses_are_ips_and_names_by_commas_and_blanks() {
        let list = ["10.0.0.2".to_owned(), " lb.example fd00::1 ".to_owned(), "10.0.0.2".to_owned()];
        assert_eq!(shown(&fixed(&list)), ["10.0.0.2", "fd00::1", "lb.example"]);
        assert!(fixed(&[]).is_empty());
    }

    #[test]
    fn the_type_of_a_service_decides() {
        let external = json!(["192.0.2.9"]);
        let balancer = json!({"loadBalancer": {"ingress": [
            {"hostname": "lb.example"}, {"ip": "192.0.2.1", "ports": [{"port": 80, "protocol": "TCP"}]},
        ]}});
        for (spec, expected) in [
            (json!({"type": "ExternalName", "externalName": "x.example"}), vec!["x.example"]),
            (json!({"type": "ClusterIP", "clusterIP": "10.96.0.9"}), vec!["10.96.0.9"]),
            (json!({"clusterIP": "None"}), vec![]),
            (json!({"type": "NodePort", "clusterIP": "10.96.0.9"}), vec!["10.96.0.9"]),
            (
                json!({"type": "NodePort", "clusterIP": "10.96.0.9", "externalIPs": external}),
                vec!["192.0.2.9"],
            ),
            (
                json!({"type": "LoadBalancer", "clusterIP": "10.96.0.9", "externalIPs": external}),
                vec!["192.0.2.1", "192.0.2.9", "lb.example"],
            ),
        ] {
            assert_eq!(shown(&of_service(&service(spec.clone(), balancer.clone()))), expected, "{spec}");
        }
        assert!(of_service(&service(json!({"type": "LoadBalancer"}), json!({}))).is_empty(), "none yet");
    }

    #[test]
    fn nodes_of_ready_pods_count() {
        let pod = |ready: &str| -> core::Pod {
            let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
            serde_json::from_value(
                json!({"metadata": {}, "spec": {"nodeName": "n", "containers": []}, "status": status}),
            )
            .unwrap()
        };
        assert_eq!(node_of_ready(&pod("True")), Some("n"));
        assert_eq!(node_of_ready(&pod("False")), None);
        let node = |addresses: Value| -> core::Node {
            serde_json::from_value(json!({"metadata": {}, "status": {"addresses": addresses}})).unwrap()
        };
        let both = node(json!([
            {"type": "Hostname", "address": "n"},
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "ExternalIP", "address": "192.0.2.1"},
        ]));
        let inner = node(json!([{"type": "InternalIP", "address": "10.0.0.2"}]));
        assert_eq!(shown(&of_nodes([&both, &inner, &both].into_iter(), false)), ["10.0.0.2", "192.0.2.1"]);
        assert_eq!(shown(&of_nodes([&both, &inner].into_iter(), true)), ["10.0.0.1", "10.0.0.2"]);
    }

    #[test]
    fn all_addresses_of_a_dual_stack_node_are_published() {
        let node = |addresses: Value| -> core::Node {
            serde_json::from_value(json!({"metadata": {}, "status": {"addresses": addresses}})).unwrap()
        };
        let inner = node(json!([
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "InternalIP", "address": "fd00::1"},
        ]));
        assert_eq!(shown(&of_nodes([&inner].into_iter(), false)), ["10.0.0.1", "fd00::1"]);
        let both = node(json!([
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "ExternalIP", "address": "192.0.2.1"},
            {"type": "InternalIP", "address": "fd00::1"},
            {"type": "ExternalIP", "address": "2001:db8::1"},
            {"type": "ExternalIP", "address": ""},
        ]));
        assert_eq!(shown(&of_nodes([&both].into_iter(), false)), ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(shown(&of_nodes([&both].into_iter(), true)), ["10.0.0.1", "fd00::1"]);
    }
}
