//! TCP and UDP services: ConfigMaps in, listener groups, pools and problems out.

use std::sync::Arc;

use serde_json::{Value, json};
use sluice_config::{
    BindProtocol, GroupId, ListenerGroup, NamespacedName, StreamKey, TransportProtocol, UpstreamProtocol,
};
use sluice_controller::store::{DataFields, Event, Kind, ObjectKey, Reference};
use sluice_controller::{Options, Stats};

use crate::support::*;

fn options() -> Options {
    Options {
        tcp_services_configmap: Some(NamespacedName::new("edge", "tcp")),
        udp_services_configmap: Some(NamespacedName::new("edge", "udp")),
        reserved_ports: vec![(10254, "--healthz-port".into())],
        configmap: Some(NamespacedName::new("default", "controller")),
        ..Options::default()
    }
}

fn services(name: &str, data: Value) -> Value {
    json!({"kind": "ConfigMap", "metadata": {"name": name, "namespace": "edge"}, "data": data})
}

fn dns() -> [Value; 2] {
    let ports = json!([
        {"name": "dns", "port": 53, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 53},
        {"name": "web", "port": 80},
    ]);
    let numbers = json!([
        {"name": "dns", "port": 5353, "protocol": "UDP"},
        {"name": "dns-tcp", "port": 5354},
        {"name": "web", "port": 8080},
    ]);
    [service("dns", ports), slice("dns-1", "dns", numbers, json!(["10.0.0.1"]))]
}

fn group(world: &World, transport: TransportProtocol, port: u16) -> Option<Arc<ListenerGroup>> {
    world.mirror.groups.get(&GroupId::stream(StreamKey { transport, port })).cloned()
}

/// The pool and options of a service in few words.
fn target(world: &World, transport: TransportProtocol, port: u16) -> Option<String> {
    let stream = group(world, transport, port)?.stream.clone()?;
    let flags = [(stream.accepts_proxy, " in"), (stream.sends_proxy, " out")];
    let flags: String = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, word)| *word).collect();
    Some(format!("{}{flags}", stream.pool))
}

#[test]
fn an_entry_becomes_a_listener_group_with_a_pool_of_its_transport() {
    let mut world = World::ready(options());
    world.put(dns());
    world.put([
        services("tcp", json!({"53": "default/dns:53", "9000": "default/dns:web:proxy:PROXY", "9001": "default/dns:80::PROXY"})),
        services("udp", json!({"53": "default/dns:dns"})),
    ]);
    assert_eq!(
        world.texts(),
        [
            "error: Flag --configmap: default/controller: this ConfigMap does not exist; defaults are used; create it, or remove the flag; it is taken up when it appears [ConfigMapNotFound]"
        ]
    );
    let of = |transport, port| target(&world, transport, port).unwrap();
    assert_eq!(of(TransportProtocol::Udp, 53), "default/dns:dns (udp,round-robin)");
    assert_eq!(of(TransportProtocol::Tcp, 53), "default/dns:dns-tcp (tcp,round-robin)");
    assert_eq!(of(TransportProtocol::Tcp, 9000), "default/dns:web (tcp,round-robin) in out");
    assert_eq!(of(TransportProtocol::Tcp, 9001), "default/dns:web (tcp,round-robin) out");
    assert_eq!(world.endpoints("dns", "dns"), Some(vec!["10.0.0.1:5353".to_owned()]));
    assert_eq!(world.endpoints("dns", "dns-tcp"), Some(vec!["10.0.0.1:5354".to_owned()]));
    let udp = group(&world, TransportProtocol::Udp, 53).unwrap();
    assert!(!udp.required && udp.binds[0].protocol == BindProtocol::Udp && udp.binds[0].port == 53);
    assert_eq!(&*udp.binds[0].source, "data[53] of ConfigMap edge/udp");
    assert!(world.mirror.groups[&GroupId::ingress()].required);
    let pool = &world.mirror.pools[&udp.stream.as_ref().unwrap().pool];
    assert_eq!(pool.protocol, UpstreamProtocol::Udp);
}

#[test]
fn the_configmaps_are_referred_to_and_may_be_missing() {
    let mut world = World::new(options());
    let update = world.put([]);
    let wanted = |name: &str| Reference {
        object: ObjectKey { kind: Kind::ConfigMap, name: NamespacedName::new("edge", name) },
        fields: DataFields::All,
    };
    assert_eq!(update.references.wanted, [wanted("tcp"), wanted("udp")]);
    let missing =
        "Flag --udp-services-configmap: edge/udp: this ConfigMap does not exist; no UDP services are served";
    assert!(world.texts().iter().any(|text| text.contains(missing)), "{:?}", world.texts());
    assert_eq!(world.mirror.groups.len(), 1);
    let none = World::new(Options::default()).put([]);
    assert!(none.references.wanted.is_empty());
}

#[test]
fn an_edit_costs_the_entries_and_services_that_it_changes() {
    let mut world = World::ready(options());
    world.put(dns());
    let many = |last: &str| {
        let mut entries: serde_json::Map<String, Value> =
            (9000..9100).map(|port| (port.to_string(), json!("default/dns:80"))).collect();
        entries.insert("9099".into(), json!(last));
        services("tcp", Value::Object(entries))
    };
    let update = world.put([many("default/dns:80")]);
    assert_eq!((update.stats.streams, update.stats.pools, update.stats.endpoints), (100, 1, 1));
    let update = world.put([many("default/dns:53")]);
    let expected = Stats { settings: 1, streams: 1, pools: 1, endpoints: 1, ..Stats::default() };
    assert_eq!(update.stats, expected);
    assert_eq!(update.delta.unwrap().groups.len(), 1);
    let update = world.put([config_map(json!({"bind-address": "127.0.0.1"}))]);
    assert_eq!(update.stats.streams, 100, "all listen elsewhere");
    let addresses = &group(&world, TransportProtocol::Tcp, 9000).unwrap().binds[0].addresses;
    assert_eq!(addresses.iter().map(ToString::to_string).collect::<Vec<_>>(), ["127.0.0.1"]);
    world.update(vec![Event::Delete(ObjectKey {
        kind: Kind::ConfigMap,
        name: NamespacedName::new("edge", "tcp"),
    })]);
    assert_eq!((world.mirror.groups.len(), world.mirror.pools.len()), (1, 0));
}

#[test]
fn a_service_that_comes_and_goes_opens_and_closes_its_port() {
    let mut world = World::ready(options());
    world.put([services("tcp", json!({"9000": "default/dns:80", "9001": "default/web:80"}))]);
    assert!(
        group(&world, TransportProtocol::Tcp, 9000).is_none()
            && group(&world, TransportProtocol::Tcp, 9001).is_some()
    );
    let text = "ConfigMap edge/tcp: data[9000]: Service default/dns does not exist; the port is not open";
    assert!(world.texts().iter().any(|found| found.contains(text)), "{:?}", world.texts());
    let update = world.put(dns());
    assert_eq!(update.stats.streams, 1);
    assert!(group(&world, TransportProtocol::Tcp, 9000).is_some());
    world.delete(Kind::Service, "dns");
    assert!(group(&world, TransportProtocol::Tcp, 9000).is_none());
}

#[test]
fn entries_that_cannot_be_read_are_skipped_with_their_reason() {
    let mut world = World::ready(options());
    world.put(dns());
    world.put([services(
        "tcp",
        json!({
            "0": "default/dns:80",
            "70000": "default/dns:80",
            "http": "default/dns:80",
            "10254": "default/dns:80",
            "9000": "dns:80",
            "9001": "default/dns",
            "9002": "default/dns:",
            "9003": "a/b/c:80",
            "9004": "default/dns:dns",
            "9005": "default/dns:80:PROXY:PROXY:PROXY",
        }),
    )]);
    world.put([services("udp", json!({"53": "default/dns:53:PROXY", "10254": "default/dns:53"}))]);
    let texts = world.texts();
    for expected in [
        "data[0]: \"0\" is not a port number",
        "data[70000]: \"70000\" is not a port number",
        "data[http]: \"http\" is not a port number",
        "ConfigMap edge/tcp: data[10254]: port 10254 is reserved for the gateway itself (--healthz-port)",
        "ConfigMap edge/udp: data[10254]: port 10254 is reserved for the gateway itself (--healthz-port)",
        "data[9000]: \"dns:80\" is not a reference to a Service",
        "data[9001]: \"default/dns\" is not a reference to a Service",
        "data[9002]: \"default/dns:\" names no port",
        "data[9003]: \"a/b/c:80\" is not a reference to a Service",
        "data[9004]: Service default/dns has no TCP port dns; it has 53 (dns-tcp), 80 (web)",
        "data[9005]: \"default/dns:80:PROXY:PROXY:PROXY\" ends with \"PROXY:PROXY\", which is ignored",
        "ConfigMap edge/udp: data[53]: \"default/dns:53:PROXY\" ends with \"PROXY\", which is ignored",
    ] {
        assert!(texts.iter().any(|text| text.contains(expected)), "{expected}\n{texts:#?}");
    }
    assert_eq!(
        target(&world, TransportProtocol::Tcp, 9005).as_deref(),
        Some("default/dns:web (tcp,round-robin) in")
    );
    assert_eq!(
        target(&world, TransportProtocol::Udp, 53).as_deref(),
        Some("default/dns:dns (udp,round-robin)")
    );
    assert_eq!(world.mirror.groups.len(), 3, "the Ingress group and two services");
}

#[test]
fn an_external_name_is_served_by_the_number_of_its_port() {
    let mut world = World::ready(options());
    let external = |ports: Value| {
        json!({"kind": "Service", "metadata": {"name": "far", "namespace": "default"},
            "spec": {"type": "ExternalName", "externalName": "db.example", "ports": ports}})
    };
    world.put([external(json!([])), services("tcp", json!({"5432": "default/far:5433"}))]);
    assert_eq!(
        target(&world, TransportProtocol::Tcp, 5432).as_deref(),
        Some("default/far:5433 (tcp,round-robin)")
    );
    world.put([
        external(json!([{"name": "dns", "port": 53, "protocol": "UDP"}])),
        services("udp", json!({"53": "default/far:dns"})),
    ]);
    assert_eq!(
        target(&world, TransportProtocol::Udp, 53).as_deref(),
        Some("default/far:53 (udp,round-robin)")
    );
    world.put([external(json!([{"port": 5432}])), services("tcp", json!({"5432": "default/far:5433"}))]);
    assert_eq!(target(&world, TransportProtocol::Tcp, 5432), None, "as in ingress-nginx");
    assert!(world.texts().iter().any(|text| text.contains("has no TCP port 5433")), "{:?}", world.texts());
}

#[test]
fn a_host_is_passed_through_to_the_service_of_its_root() {
    let options = Options { enable_ssl_passthrough: true, ..Options::default() };
    let passing = |name: &str, spec| {
        annotated(name, json!({"nginx.ingress.kubernetes.io/ssl-passthrough": "true"}), spec)
    };
    let mut world = World::ready(options);
    world.put([passing("shop", paths("shop.example", &["/", "/more"]))]);
    let pool = |world: &World, host: &str| {
        world.host(host).unwrap().passthrough.as_ref().map(|stream| stream.pool.to_string())
    };
    assert_eq!(pool(&world, "shop.example").as_deref(), Some("default/web:http (tcp,round-robin)"));
    assert_eq!(world.rules("shop.example")[0], "/more -> web:http (https)", "plain HTTP is sent over TLS");
    assert!(world.problems().is_empty(), "{:?}", world.texts());
    // Another namespace cannot have the TLS of this one passed through.
    let mut foreign = passing("taker", paths("other.example", &["/x"]));
    foreign["metadata"]["namespace"] = json!("elsewhere");
    world.put([ingress("owner", paths("other.example", &["/"])), foreign]);
    assert_eq!(pool(&world, "other.example"), None);
    let text = "has no effect on host other.example: its path / belongs to an Ingress of another namespace";
    assert!(world.texts().iter().any(|found| found.contains(text)), "{:?}", world.texts());
    world.put([annotated(
        "shop",
        json!({"nginx.ingress.kubernetes.io/ssl-passthrough": "true", "nginx.ingress.kubernetes.io/auth-tls-secret": "default/ca"}),
        paths("shop.example", &["/"]),
    )]);
    assert_eq!(pool(&world, "shop.example"), None, "what is closed is not passed through");
}

#[test]
fn problems_of_entries_have_the_uid_of_the_recreated_configmap() {
    let mut world = World::ready(options());
    let with_uid = |uid: &str| {
        let mut object = services("tcp", json!({"9000": "default/absent:80"}));
        object["metadata"]["uid"] = uid.into();
        object
    };
    for uid in ["first", "second"] {
        world.put([with_uid(uid)]);
        let problems = world.problems();
        let problem = problems.iter().find(|problem| problem.field == "data[9000]").unwrap();
        assert_eq!(problem.uid.as_ref().map(ToString::to_string).as_deref(), Some(uid));
    }
    // A review has the problems of unchanged entries, too.
    let Some(Event::Put(object)) = world.event(with_uid("second")) else { panic!("no object") };
    let verdict = world.controller.review(object).unwrap();
    assert_eq!(verdict.problems.len(), 1, "{:?}", verdict.problems);
}
