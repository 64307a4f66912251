//! The `proxy-ssl-*` annotations that Ingresses of a host inherit from each other.

use std::sync::Arc;

use serde_json::{Value, json};
use sluice_config::{Code, NamespacedName, Policies, ResourceKey, ResourceKind, UpstreamTls};
use sluice_controller::store::Kind;
use sluice_controller::{Options, Stats};

use crate::support::*;

const PREFIX: &str = "nginx.ingress.kubernetes.io";

fn https(name: &str, path: &str, annotations: &[(&str, &str)]) -> Value {
    let annotations = annotations.iter().chain([&("backend-protocol", "HTTPS")]);
    let annotations = annotations.map(|(name, value)| (format!("{PREFIX}/{name}"), json!(value)));
    annotated(name, Value::Object(annotations.collect()), paths("shop.example", &[path]))
}

fn verified(name: &str, path: &str, secret: &str) -> Value {
    https(
        name,
        path,
        &[("proxy-ssl-secret", secret), ("proxy-ssl-verify", "on"), ("proxy-ssl-name", "inner")],
    )
}

fn in_namespace(namespace: &str, mut object: Value) -> Value {
    object["metadata"]["namespace"] = json!(namespace);
    object
}

fn secret(name: &str, authorities: bool, pair: bool) -> Value {
    let made = sluice_testing::certificate::TestCertificate::new(&["gateway"]);
    let mut data = json!({});
    if authorities {
        data["ca.crt"] = json!(made.pem);
    }
    if pair {
        data["tls.crt"] = json!(made.pem);
        data["tls.key"] = json!(made.key_pem);
    }
    json!({"kind": "Secret", "metadata": {"name": name, "namespace": "default"}, "stringData": data})
}

fn trust(name: &str) -> ResourceKey {
    ResourceKey { kind: ResourceKind::EndpointTrust, name: NamespacedName::new("default", name) }
}

fn identity(name: &str) -> ResourceKey {
    ResourceKey { kind: ResourceKind::EndpointIdentity, name: NamespacedName::new("default", name) }
}

fn policies(world: &World, path: &str) -> Arc<Policies> {
    let host = world.host("shop.example").unwrap();
    host.rules.iter().find(|rule| &*rule.origin.path == path).unwrap().policies.clone()
}

fn tls(world: &World, path: &str) -> UpstreamTls {
    policies(world, path).upstream_tls.as_deref().cloned().unwrap_or_default()
}

fn texts(world: &World) -> Vec<String> {
    let problems = world.problems();
    let of_host = problems.iter().filter(|problem| problem.code == Code::EndpointTlsOfSibling);
    of_host.map(|problem| format!("{}: {}", problem.object, problem.message)).collect()
}

#[test]
fn a_sibling_inherits_the_tls_settings_of_its_host() {
    let mut world = World::ready(Options::default());
    world.put([
        verified("first", "/a", "upstream"),
        https("second", "/b", &[]),
        secret("upstream", true, true),
    ]);
    assert_eq!(tls(&world, "/b"), tls(&world, "/a"));
    let inherited = tls(&world, "/b");
    assert_eq!((inherited.identity, inherited.verify_depth), (Some(trust("upstream")), Some(1)));
    assert_eq!(inherited.name.as_deref(), Some("inner"));
    assert_eq!((world.problems(), texts(&world)), (Vec::new(), Vec::new()));
    world.delete(Kind::Ingress, "first");
    assert_eq!(tls(&world, "/b"), UpstreamTls::default());
}

#[test]
fn a_secret_that_cannot_be_used_closes_the_siblings_that_speak_tls() {
    let mut world = World::ready(Options::default());
    world.put([
        verified("first", "/a", "upstream"),
        https("second", "/b", &[]),
        ingress("plain", paths("shop.example", &["/c"])),
    ]);
    let denied = |world: &World| ["/a", "/b", "/c"].map(|path| policies(world, path).deny.is_some());
    assert_eq!(denied(&world), [true, true, false]);
    let texts = world.texts();
    let of_second = texts.iter().find(|text| text.contains("Ingress default/second")).unwrap();
    for part in ["Secret default/upstream does not exist", "Ingress default/first names it"] {
        assert!(of_second.contains(part), "{part}: {of_second}");
    }
    world.put([secret("upstream", true, false)]);
    assert_eq!(denied(&world), [false; 3]);
    let update = world.put([secret("upstream", true, false)]);
    assert_eq!(update.stats, Stats { resources: 1, ..Stats::default() }, "an edit costs the resource alone");
    world.put([secret("upstream", false, true)]);
    assert_eq!(denied(&world), [true, true, false], "there is nothing to verify by");
}

#[test]
fn a_sibling_keeps_the_parts_that_its_own_secret_holds() {
    let mut world = World::ready(Options::default());
    let annotations = [("proxy-ssl-secret", "own"), ("proxy-ssl-server-name", "on")];
    let second = created(https("second", "/b", &annotations), 1);
    world.put([
        verified("first", "/a", "both"),
        secret("both", true, true),
        secret("own", true, true),
        second,
    ]);
    let found = tls(&world, "/b");
    assert_eq!((found.identity, found.certificate), (Some(identity("own")), None));
    assert_eq!((found.verify_depth, found.name.as_deref()), (None, Some("inner")));
    assert!(found.sends_name);

    world.put([secret("own", true, false)]);
    let found = tls(&world, "/b");
    assert_eq!((found.identity, found.certificate), (Some(identity("own")), Some(trust("both"))));

    world.put([secret("own", false, true)]);
    let found = tls(&world, "/b");
    assert_eq!((found.identity, found.certificate), (Some(trust("both")), Some(identity("own"))));
    assert_eq!(found.verify_depth, Some(1));
}

#[test]
fn the_oldest_ingress_whose_secret_has_authorities_owns_the_host() {
    let mut world = World::ready(Options::default());
    world.put([
        https("a", "/a", &[("proxy-ssl-secret", "pair")]),
        https("b", "/b", &[]),
        created(verified("c", "/c", "both"), 1),
        secret("pair", false, true),
        secret("both", true, true),
    ]);
    assert_eq!(tls(&world, "/b").identity, Some(trust("both")));
    let found = tls(&world, "/a");
    assert_eq!((found.identity, found.certificate), (Some(trust("both")), Some(identity("pair"))));
    // Without authorities it is the newest Ingress, whether it has a Secret or not.
    world.put([created(https("c", "/c", &[]), 1)]);
    assert_eq!(tls(&world, "/b").identity, None);
    world.put([created(https("c", "/c", &[("proxy-ssl-secret", "pair")]), 1)]);
    assert_eq!(tls(&world, "/b").identity, Some(identity("pair")));
}

#[test]
fn another_namespace_inherits_nothing_with_a_warning() {
    let mut world = World::ready(Options::default());
    let ports = json!([{"name": "http", "port": 80}]);
    world.put([
        verified("first", "/a", "upstream"),
        in_namespace("other", https("second", "/b", &[])),
        in_namespace("other", service("web", ports)),
        in_namespace("other", ingress("plain", paths("shop.example", &["/c"]))),
        secret("upstream", true, true),
    ]);
    assert_eq!(tls(&world, "/b"), UpstreamTls::default());
    let [problem] = &texts(&world)[..] else { panic!("{:?}", world.problems()) };
    for part in ["Ingress other/second", "Ingress default/first of another namespace", "within a namespace"] {
        assert!(problem.contains(part), "{part}: {problem}");
    }
    world.delete(Kind::Ingress, "first");
    assert_eq!(texts(&world), [""; 0]);
}

#[test]
fn nothing_is_inherited_with_proxy_ssl_location_only() {
    let own = NamespacedName::new("default", "controller");
    let mut world = World::ready(Options { configmap: Some(own), ..Options::default() });
    world.put([
        verified("first", "/a", "upstream"),
        https("second", "/b", &[]),
        secret("upstream", true, true),
        config_map(json!({"proxy-ssl-location-only": "true"})),
    ]);
    assert_eq!(tls(&world, "/b"), UpstreamTls::default());
    world.put([config_map(json!({}))]);
    assert_eq!(tls(&world, "/b").identity, Some(trust("upstream")));
}

#[test]
fn an_alias_of_the_host_inherits_too() {
    let mut world = World::ready(Options::default());
    world.put([
        verified("first", "/a", "upstream"),
        https("second", "/b", &[("server-alias", "store.example")]),
        secret("upstream", true, true),
    ]);
    let host = world.host("store.example").unwrap();
    let rules = host.rules.iter().filter(|rule| &*rule.origin.path != "/");
    let identities: Vec<_> =
        rules.map(|rule| rule.policies.upstream_tls.clone().unwrap().identity.clone()).collect();
    assert_eq!(identities, [Some(trust("upstream")), Some(trust("upstream"))]);
}

#[test]
fn a_name_for_tls_may_be_the_host_of_the_rule() {
    let mut world = World::ready(Options::default());
    let named = |name| {
        https(
            "shop",
            "/a",
            &[("proxy-ssl-secret", "upstream"), ("proxy-ssl-verify", "on"), ("proxy-ssl-name", name)],
        )
    };
    world.put([secret("upstream", true, false)]);
    for (name, read) in [
        ("$host", "shop.example"),
        ("inner.${server_name}", "inner.shop.example"),
        ("$service_name.$namespace.svc.cluster.local", "web.default.svc.cluster.local"),
    ] {
        world.put([named(name)]);
        assert_eq!(tls(&world, "/a").name.as_deref(), Some(read), "{name}");
        assert_eq!(world.problems(), Vec::<sluice_config::Problem>::new(), "{name}");
    }
    world.put([named("a.$http_x_name")]);
    assert_eq!((name_per_request(&tls(&world, "/a")), world.problems().len()), (2, 0));
    world.put([named("a.$status")]);
    assert_eq!((tls(&world, "/a").name, world.problems().len()), (None, 1));
}

#[test]
fn requests_for_a_wildcard_host_determine_the_name_for_tls() {
    let mut world = World::ready(Options::default());
    let annotations =
        [("proxy-ssl-secret", "upstream"), ("proxy-ssl-verify", "on"), ("proxy-ssl-name", "$host")];
    let mut object = https("shop", "/a", &annotations);
    object["spec"]["rules"][0]["host"] = json!("*.shop.example");
    world.put([secret("upstream", true, false), object]);
    let host = world.host("*.shop.example").unwrap();
    let tls = host.rules[0].policies.upstream_tls.as_deref().unwrap();
    assert_eq!((tls.name.as_deref(), tls.verify_depth), (None, Some(1)));
    assert_eq!((name_per_request(tls), world.problems().len()), (1, 0));
}

#[test]
fn the_name_of_the_server_is_the_host_of_the_rules_on_an_alias_too() {
    let mut world = World::ready(Options::default());
    let name = ("proxy-ssl-name", "$host.$server_name");
    let annotations = [("proxy-ssl-secret", "upstream"), ("server-alias", "store.example"), name];
    world.put([secret("upstream", true, false), https("shop", "/a", &annotations)]);
    for host in ["shop.example", "store.example"] {
        let rule = &world.host(host).unwrap().rules[0];
        let name = rule.policies.upstream_tls.as_deref().unwrap().name.clone();
        assert_eq!(name.as_deref(), Some(&*format!("{host}.shop.example")));
    }
}

/// Returns the number of pieces of the name that requests determine.
fn name_per_request(tls: &UpstreamTls) -> usize {
    tls.name_per_request.as_ref().map_or(0, |template| template.pieces.len())
}
