//! Service ports and endpoints.

use serde_json::{Value, json};
use sluice_config::NamespacedName;
use sluice_controller::Options;
use sluice_controller::store::{Kind, Resolved};

use crate::support::*;

fn world_with(port: Value) -> World {
    let mut world = World::ready(Options::default());
    let spec = json!({"rules": [{"host": "shop.example", "http": {"paths": [path_to("/", "api", port)]}}]});
    world.put([
        service("api", json!([{"name": "main", "port": 80, "targetPort": "http"},
            {"name": "admin", "port": 81, "targetPort": 9090}, {"name": "dns", "port": 53, "protocol": "UDP"}])),
        slice("api-1", "api", json!([{"name": "main", "port": 8080}, {"name": "admin", "port": 9090}]), json!(["10.0.1.1"])),
        ingress("shop", spec),
    ]);
    world
}

fn rule(world: &World) -> String {
    world.rules("shop.example").remove(0)
}

#[test]
fn ports_by_number_by_name_and_by_target() {
    for (port, set, address, problems) in [
        (json!({"number": 80}), "main", "10.0.1.1:8080", 0),
        (json!({"name": "admin"}), "admin", "10.0.1.1:9090", 0),
        (json!({"number": 9090}), "admin", "10.0.1.1:9090", 1),
        (json!({"name": "http"}), "main", "10.0.1.1:8080", 1),
    ] {
        let world = world_with(port.clone());
        assert_eq!(rule(&world), format!("/ -> api:{set} (http)"), "{port}");
        assert_eq!(world.endpoints("api", set), Some(vec![address.to_owned()]), "{port}");
        assert_eq!(world.problems().len(), problems, "{port}: {:?}", world.texts());
    }
}

#[test]
fn a_missing_service_answers_503_with_a_problem() {
    for (port, words) in [
        (json!({"number": 53}), "has no TCP port 53; it has 80 (main), 81 (admin)"),
        (json!({"name": "nope"}), "has no TCP port nope"),
        (json!({}), "has no TCP port (none is named)"),
    ] {
        let world = world_with(port);
        assert_eq!(rule(&world), "/ -> 503");
        assert!(world.texts()[0].contains(words), "{:?}", world.texts());
        assert_eq!(world.problems()[0].field, "spec.rules[0].http.paths[0].backend.service.port");
        assert!(world.mirror.pools.is_empty());
    }
    let mut world = world_with(json!({"number": 80}));
    world.delete(Kind::Service, "api");
    assert_eq!(rule(&world), "/ -> 503");
    assert!(world.texts()[0].contains("Service default/api does not exist"));
    assert!(world.mirror.endpoint_sets.is_empty());
    world.put([json!({"kind": "Service", "metadata": {"name": "api", "namespace": "default"},
        "spec": {"type": "ExternalName", "externalName": "example.com", "ports": [{"port": 80}]}})]);
    assert_eq!(world.endpoints("api", "80"), Some(Vec::new()), "it has not been resolved yet");
    world.put([service("api", json!([{"name": "main", "port": 80}]))]);
    assert_eq!(world.endpoints("api", "main"), Some(vec!["10.0.1.1:8080".to_owned()]));
    assert_eq!(world.problems(), []);
}

#[test]
fn the_flag_that_refuses_external_names_is_what_the_problem_names() {
    let external = json!({"kind": "Service", "metadata": {"name": "api", "namespace": "default"},
        "spec": {"type": "ExternalName", "externalName": "example.com", "ports": [{"port": 80}]}});
    let spec = json!({"rules": [{"host": "shop.example", "http": {"paths": [
        path_to("/", "api", json!({"number": 80}))]}}]});
    let mut world = World::ready(Options {
        disable_svc_external_name: true,
        default_backend_service: Some(NamespacedName::new("default", "api")),
        ..Options::default()
    });
    world.put([external, ingress("shop", spec)]);
    assert_eq!(rule(&world), "/ -> 503");
    let texts = world.texts();
    let named = |object: &str| {
        let text = texts.iter().find(|text| text.contains(object)).unwrap();
        assert!(text.contains("ExternalName, which --disable-svc-external-name refuses"), "{text}");
    };
    named("Ingress default/shop");
    named("Flag --default-backend-service");
}

#[test]
fn several_slices_both_families_and_each_address_once() {
    let mut world = world_with(json!({"number": 80}));
    let port = json!([{"name": "main", "port": 8080}]);
    world.put([
        slice("api-2", "api", port.clone(), json!(["10.0.1.1", "10.0.1.2"])),
        slice("api-3", "api", port.clone(), json!(["fd00::1"])),
        slice("api-4", "api", json!([{"name": "main", "port": 8081}]), json!(["10.0.1.2"])),
        slice("foreign", "web", port, json!(["10.9.9.9"])),
    ]);
    let expected = ["10.0.1.1:8080", "10.0.1.2:8080", "10.0.1.2:8081", "[fd00::1]:8080"].map(str::to_owned);
    assert_eq!(world.endpoints("api", "main"), Some(expected.to_vec()));
    world.delete(Kind::EndpointSlice, "api-2");
    assert_eq!(world.endpoints("api", "main").unwrap().len(), 3);
}

#[test]
fn endpoint_conditions_decide_which_are_used() {
    let mut world = world_with(json!({"number": 80}));
    let with = |address: &str, conditions: Value| json!({"addresses": [address], "conditions": conditions});
    let mut used = |endpoints: Value| {
        world.put([slice("api-1", "api", json!([{"name": "main", "port": 1}]), endpoints)]);
        let found = world.endpoints("api", "main").unwrap();
        found
            .iter()
            .map(|address| address.trim_start_matches("10.0.0.").replace(":1", ""))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let ready = with("10.0.0.2", json!({"ready": true}));
    let unknown = with("10.0.0.3", json!({}));
    let not_ready = with("10.0.0.4", json!({"ready": false}));
    let ending = with("10.0.0.5", json!({"ready": false, "serving": true, "terminating": true}));
    let ended = with("10.0.0.6", json!({"ready": false, "serving": false, "terminating": true}));
    assert_eq!(used(json!([ready, unknown, not_ready, ending, ended])), "2 3");
    assert_eq!(used(json!([not_ready, ending, ended])), "5", "all are ending: those that still serve");
    assert_eq!(used(json!([not_ready, ended])), "");
}

#[test]
fn headless_and_hand_made_slices() {
    let mut world = World::ready(Options::default());
    world.put([
        json!({"kind": "Service", "metadata": {"name": "api", "namespace": "default"},
            "spec": {"clusterIP": "None", "ports": [{"port": 8080}]}}),
        slice("by-hand", "api", json!([{"name": "whatever", "port": 7}]), json!(["10.0.0.7"])),
        ingress("shop", json!({"rules": [{"host": "shop.example", "http": {"paths": [path_to("/", "api", json!({"number": 8080}))]}}]})),
    ]);
    assert_eq!(world.endpoints("api", ""), Some(vec!["10.0.0.7:7".to_owned()]));
}

#[test]
fn a_renamed_service_port_keeps_its_endpoints_by_the_target_port() {
    let mut world = World::ready(Options::default());
    let spec = json!({"rules": [{"host": "shop.example", "http": {"paths": [
        path_to("/", "api", json!({"number": 80}))]}}]});
    let old = slice("api-1", "api", json!([{"name": "", "port": 8080}]), json!(["10.0.0.1"]));
    world.put([service("api", json!([{"port": 80, "targetPort": 8080}])), old, ingress("shop", spec)]);
    assert_eq!(world.endpoints("api", ""), Some(vec!["10.0.0.1:8080".to_owned()]));

    let named = json!([{"name": "http", "port": 80, "targetPort": 8080}, {"name": "m", "port": 81, "targetPort": 8081}]);
    world.put([service("api", named)]);
    assert_eq!(world.endpoints("api", "http"), Some(vec!["10.0.0.1:8080".to_owned()]));
    assert_eq!(world.problems(), []);

    let new = json!([{"name": "http", "port": 8080}, {"name": "m", "port": 8081}]);
    let update = world.put([slice("api-1", "api", new, json!(["10.0.0.1"]))]);
    assert_eq!(world.endpoints("api", "http"), Some(vec!["10.0.0.1:8080".to_owned()]));
    assert_eq!(update.delta, None, "nothing changes for the data plane");

    let other = json!([{"name": "http", "port": 80, "targetPort": 9090}, {"name": "m", "port": 81, "targetPort": 8081}]);
    let update = world.put([service("api", other)]);
    assert_eq!(update.stats.endpoints, 0, "the slice names the port");
}

#[test]
fn slices_without_the_name_of_a_port_are_used_as_in_ingress_nginx() {
    for (service_port, slice_ports, expected) in [
        (json!({"name": "http", "targetPort": 8080}), json!([{"name": "web", "port": 9090}]), "8080"),
        (json!({"name": "http", "targetPort": 8080}), json!([{"port": 9090}]), "8080"),
        (json!({"name": "http"}), json!([{"name": "web", "port": 9090}]), "80"),
        (json!({"name": "http", "targetPort": "web"}), json!([{"name": "web", "port": 9090}]), ""),
        (
            json!({"name": "http", "targetPort": 8080}),
            json!([{"name": "web", "port": 9090, "protocol": "UDP"}]),
            "",
        ),
        (json!({"name": "http", "targetPort": 8080}), json!([]), "8080"),
        (json!({"name": "http", "targetPort": 8080}), Value::Null, "8080"),
        (json!({"name": "http", "targetPort": 8080}), json!([{"name": "http", "port": null}]), "8080"),
        (json!({"targetPort": 8080}), json!([]), "8080"),
        (json!({"targetPort": "web"}), json!([]), ""),
        (
            json!({"name": "http", "targetPort": 8080}),
            json!([{"name": "s", "port": 1, "protocol": "SCTP"}]),
            "",
        ),
        (
            json!({"name": "http", "targetPort": 8080}),
            json!([{"name": "m", "port": 1}, {"name": "http", "port": 2}]),
            "2",
        ),
        (json!({"targetPort": 8080}), json!([{"name": "a", "port": 1}, {"name": "b", "port": 2}]), "1 2"),
        (json!({"targetPort": 8080}), json!([{"name": "", "port": 1}, {"name": "b", "port": 2}]), "1 2"),
        (json!({}), json!([{"name": "a", "port": 1}, {"name": "u", "port": 2, "protocol": "UDP"}]), "1"),
    ] {
        let mut world = World::ready(Options::default());
        let (case, mut port) = (format!("{service_port} {slice_ports}"), service_port);
        port["port"] = 80.into();
        let name = port["name"].as_str().unwrap_or_default().to_owned();
        let spec = json!({"rules": [{"host": "shop.example", "http": {"paths": [
            path_to("/", "api", json!({"number": 80}))]}}]});
        world.put([
            service("api", json!([port])),
            slice("api-1", "api", slice_ports, json!(["10.0.0.1"])),
            ingress("shop", spec),
        ]);
        let found = world.endpoints("api", &name).unwrap();
        let found: Vec<&str> = found.iter().map(|address| address.trim_start_matches("10.0.0.1:")).collect();
        assert_eq!(found.join(" "), expected, "{case}");
    }
}

#[test]
fn names_in_slices_are_refused_with_words() {
    let mut world = world_with(json!({"number": 80}));
    let mut names = slice("api-9", "api", json!([{"name": "main", "port": 1}]), json!(["example.com"]));
    names["addressType"] = "FQDN".into();
    let bad = slice("api-8", "api", json!([{"name": "main", "port": 1}]), json!(["10.0.0.300"]));
    world.put([names, bad]);
    assert_eq!(world.endpoints("api", "main"), Some(vec!["10.0.1.1:8080".to_owned()]));
    let texts = world.texts();
    assert!(texts[0].contains("EndpointSlice default/api-8") && texts[0].contains("10.0.0.300"), "{texts:?}");
    assert!(texts[1].contains("\"FQDN\" is not served"), "{texts:?}");
}

#[test]
fn pools_are_shared_where_policies_agree_and_endpoint_sets_always() {
    let mut world = World::ready(Options::default());
    let sticky = |name: &str, host: &str| {
        annotated(
            name,
            json!({"nginx.ingress.kubernetes.io/affinity": "cookie"}),
            paths(host, &["/", "/deep"]),
        )
    };
    world.put([
        ingress("a", paths("a.example", &["/"])),
        ingress("b", paths("b.example", &["/"])),
        sticky("c", "c.example"),
        annotated(
            "d",
            json!({"nginx.ingress.kubernetes.io/backend-protocol": "HTTPS"}),
            paths("d.example", &["/"]),
        ),
    ]);
    let pools: Vec<String> = world.mirror.pools.keys().map(|key| key.policy.to_string()).collect();
    assert_eq!(pools, ["http", "http,ring", "https"]);
    assert_eq!(world.mirror.endpoint_sets.len(), 1);
    let cookie =
        |at: usize| world.host("c.example").unwrap().rules[at].policies.affinity.clone().unwrap().path;
    assert_eq!((&*cookie(0), &*cookie(1)), ("/deep", "/"), "the cookie's path is the rule's");
    world.delete(Kind::Ingress, "c");
    assert_eq!(world.mirror.pools.len(), 2);
}

#[test]
fn an_external_name_has_the_addresses_that_it_resolves_to() {
    let external = |name: &str, ports: Value| {
        json!({"kind": "Service", "metadata": {"name": "api", "namespace": "default"},
            "spec": {"type": "ExternalName", "externalName": name, "ports": ports}})
    };
    let found = |addresses: &[&str], fault: Option<&str>| Resolved {
        addresses: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        fault: fault.map(Into::into),
    };
    let spec = json!({"rules": [{"host": "shop.example", "http": {"paths": [
        path_to("/", "api", json!({"number": 80}))]}}]});
    for refuse_local_names in [false, true] {
        let mut world = World::ready(Options { refuse_local_names, ..Options::default() });
        let ports = json!([{"port": 80, "targetPort": 8443, "appProtocol": "https"}]);
        world.put([ingress("shop", spec.clone())]);
        let names = world.put([external("API.example.com", ports.clone())]).names.unwrap();
        assert_eq!(names.into_iter().collect::<Vec<_>>(), ["api.example.com".into()]);
        assert_eq!(world.endpoints("api", "8443"), Some(Vec::new()));
        world.controller.take_name("api.example.com".into(), found(&["203.0.113.7", "127.0.0.1"], None));
        world.put([]);
        let mut expected = vec!["127.0.0.1:8443".to_owned(), "203.0.113.7:8443".to_owned()];
        if refuse_local_names {
            expected.remove(0);
            assert!(world.texts()[0].contains("resolves to 127.0.0.1"), "{:?}", world.texts());
        }
        let mut endpoints = world.endpoints("api", "8443").unwrap();
        endpoints.sort();
        assert_eq!(endpoints, expected);
        world.controller.take_name("api.example.com".into(), found(&["203.0.113.8"], Some("no answer")));
        world.put([]);
        assert_eq!(world.endpoints("api", "8443"), Some(vec!["203.0.113.8:8443".to_owned()]));
        assert!(
            world.texts()[0].contains("api.example.com cannot be resolved: no answer"),
            "{:?}",
            world.texts()
        );
        // Without ports of its own, the one that the Ingress names.
        let names = world.put([external("203.0.113.9", json!([]))]).names.unwrap();
        assert!(names.is_empty(), "an address needs no look-up");
        assert_eq!(world.endpoints("api", "80"), Some(vec!["203.0.113.9:80".to_owned()]));
        for refused in ["localhost", "127.0.0.1", "169.254.169.254"] {
            world.put([external(refused, json!([]))]);
            assert_eq!(rule(&world), "/ -> 503", "{refused}");
            assert!(world.texts()[0].contains(refused), "{:?}", world.texts());
        }
    }
}

#[test]
fn an_external_name_is_reached_at_a_port_that_its_service_does_not_list() {
    let mut world = world_with(json!({"number": 8443}));
    let external = |ports: Value| {
        json!({"kind": "Service", "metadata": {"name": "api", "namespace": "default"},
            "spec": {"type": "ExternalName", "externalName": "203.0.113.9", "ports": ports}})
    };
    for ports in [json!([{"port": 80}]), json!([]), json!([{"port": 8443, "targetPort": "web"}])] {
        world.put([external(ports)]);
        assert_eq!(world.endpoints("api", "8443"), Some(vec!["203.0.113.9:8443".to_owned()]));
        assert_eq!(world.problems(), []);
    }
    let mut world = world_with(json!({"name": "web"}));
    world.put([external(json!([{"port": 80}]))]);
    assert_eq!(rule(&world), "/ -> 503", "a name that the Service does not list has no number");
}

#[test]
fn a_name_whose_only_user_changes_its_port_keeps_its_addresses() {
    let external = |port: u16| {
        json!({"kind": "Service", "metadata": {"name": "api", "namespace": "default"},
            "spec": {"type": "ExternalName", "externalName": "api.example.com",
                "ports": [{"port": 80, "targetPort": port}]}})
    };
    let spec = json!({"rules": [{"host": "shop.example", "http": {"paths": [
        path_to("/", "api", json!({"number": 80}))]}}]});
    let mut world = World::ready(Options::default());
    world.put([ingress("shop", spec.clone()), external(8000)]);
    let found = Resolved { addresses: vec!["203.0.113.7".parse().unwrap()], fault: None };
    world.controller.take_name("api.example.com".into(), found);
    world.put([]);
    // The order in which the old and the new set are recomputed is random.
    for port in 8001..8020 {
        world.put([external(port)]);
        let expected = Some(vec![format!("203.0.113.7:{port}")]);
        assert_eq!(world.endpoints("api", &port.to_string()), expected);
    }
    world.delete(Kind::Ingress, "shop");
    world.put([ingress("shop", spec)]);
    assert_eq!(world.endpoints("api", "8019"), Some(Vec::new()), "forgotten while unused");
}

#[test]
fn disable_ipv6_dns_applies_live_to_names() {
    let configmap = NamespacedName::new("ingress-nginx", "controller");
    let mut world = World::ready(Options { configmap: Some(configmap), ..Options::default() });
    let keys = |value: &str| {
        json!({"kind": "ConfigMap", "metadata": {"name": "controller", "namespace": "ingress-nginx"},
            "data": {"disable-ipv6-dns": value}})
    };
    let external = |name: &str| {
        json!({"kind": "Service", "metadata": {"name": "api", "namespace": "default"},
            "spec": {"type": "ExternalName", "externalName": name, "ports": [{"port": 80}]}})
    };
    let spec = json!({"rules": [{"host": "shop.example", "http": {"paths": [
        path_to("/", "api", json!({"number": 80}))]}}]});
    world.put([ingress("shop", spec), external("api.example.com")]);
    let addresses = ["203.0.113.7", "2001:db8::7"].map(|address| address.parse().unwrap());
    let found = Resolved { addresses: addresses.to_vec(), fault: None };
    world.controller.take_name("api.example.com".into(), found);
    world.put([]);
    assert_eq!(world.endpoints("api", "80").unwrap().len(), 2);
    world.put([keys("true")]);
    assert_eq!(world.endpoints("api", "80"), Some(vec!["203.0.113.7:80".to_owned()]));
    world.put([keys("false")]);
    assert_eq!(world.endpoints("api", "80").unwrap().len(), 2);
    world.put([keys("true"), external("2001:db8::8")]);
    assert_eq!(world.endpoints("api", "80"), Some(vec!["[2001:db8::8]:80".to_owned()]), "that is no name");
}
