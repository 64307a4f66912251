//! References of annotations: users in Secrets, permitted namespaces, and routes without their
//! Secret.

use serde_json::{Value, json};
use sluice_config::{Change, NamespacedName, Resource, ResourceKey, ResourceKind};
use sluice_controller::store::{DataFields, Kind, ObjectKey, Reference};
use sluice_controller::{Options, Stats};

use crate::support::*;

const PREFIX: &str = "nginx.ingress.kubernetes.io";

fn guarded(name: &str, host: &str, annotations: &[(&str, &str)]) -> Value {
    let annotations = annotations.iter().map(|(name, value)| (format!("{PREFIX}/{name}"), json!(value)));
    annotated(name, Value::Object(annotations.collect()), paths(host, &["/"]))
}

fn basic(name: &str, host: &str, secret: &str) -> Value {
    guarded(name, host, &[("auth-type", "basic"), ("auth-secret", secret), ("auth-realm", "the shop")])
}

fn secret_in(namespace: &str, name: &str, data: Value) -> Value {
    json!({"kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "stringData": data})
}

fn users(name: &str, text: &str) -> Value {
    secret_in("default", name, json!({"auth": text}))
}

fn key_of(kind: ResourceKind, namespace: &str, name: &str) -> ResourceKey {
    ResourceKey { kind, name: NamespacedName::new(namespace, name) }
}

fn names(world: &World) -> Vec<String> {
    let users = world.mirror.resources.values().flat_map(|resource| match &**resource {
        Resource::Credentials(credentials) => credentials.users.clone(),
        _ => Vec::new(),
    });
    users.map(|(name, _)| name.to_string()).collect()
}

#[test]
fn a_route_is_closed_while_its_secret_is_missing_or_invalid() {
    let mut world = World::ready(Options::default());
    let update = world.put([basic("shop", "shop.example", "users")]);
    let auth = DataFields::named(&["auth"]);
    let object = key(Kind::Secret, "users");
    assert_eq!(update.references.wanted, [Reference { object: object.clone(), fields: auth }]);
    assert_eq!(world.rules("shop.example"), ["/ -> web:http (http) denied 503"]);
    let [text] = &world.texts()[..] else { panic!("{:?}", world.texts()) };
    for part in ["Ingress default/shop", "auth-secret", "Secret default/users does not exist", "htpasswd"] {
        assert!(text.contains(part), "{text}");
    }

    for (data, said) in [(json!({"other": "x"}), "no key auth"), (json!({"auth": "ann:{MAGIC}x"}), "no user")]
    {
        world.put([secret_in("default", "users", data)]);
        assert_eq!(world.rules("shop.example"), ["/ -> web:http (http) denied 503"]);
        assert!(world.texts().iter().any(|text| text.contains(said)), "{:?}", world.texts());
        assert!(world.texts().iter().all(|text| !text.contains("{MAGIC}x")), "{:?}", world.texts());
    }

    world.put([users("users", "ann:{PLAIN}x")]);
    assert_eq!(world.rules("shop.example"), ["/ -> web:http (http)"]);
    assert_eq!(world.texts(), Vec::<String>::new());
    let policy = world.host("shop.example").unwrap().rules[0].policies.basic_auth.clone().unwrap();
    assert_eq!(policy.credentials, key_of(ResourceKind::PasswordFile, "default", "users"));
    assert_eq!(&*policy.realm, "the shop");
    assert_eq!(names(&world), ["ann"]);

    world.delete(Kind::Secret, "users");
    assert_eq!(world.rules("shop.example"), ["/ -> web:http (http) denied 503"]);
    assert_eq!(names(&world), Vec::<String>::new());
    let update = world.delete(Kind::Ingress, "shop");
    assert_eq!(update.references.released, [object]);
}

#[test]
fn an_edited_secret_costs_one_resource_and_none_of_its_hosts() {
    let mut world = World::ready(Options::default());
    let many = (0..100).map(|n| basic(&format!("i{n}"), &format!("h{n}.example"), "users"));
    world.put(many.chain([users("users", "ann:{PLAIN}x")]).collect::<Vec<_>>());
    let update = world.put([users("users", "ann:{PLAIN}y\nbob:{PLAIN}z")]);
    assert_eq!(update.stats, Stats { resources: 1, ..Stats::default() });
    let delta = update.delta.unwrap();
    assert!(matches!(&delta.resources[..], [Change::Put(..)]) && delta.hosts.is_empty());
    assert_eq!(names(&world), ["ann", "bob"]);
    let update = world.put([users("users", "ann:{PLAIN}y\nbob:{PLAIN}z")]);
    assert_eq!((update.stats, update.delta), (Stats::default(), None), "nothing is different");
    let update = world.put([users("unrelated", "ann:{PLAIN}y")]);
    assert_eq!((update.stats, update.delta), (Stats::default(), None));
}

#[test]
fn a_bad_line_is_a_problem_of_the_secret_only() {
    let mut world = World::ready(Options::default());
    world.put([basic("shop", "shop.example", "users"), users("users", "ann:{PLAIN}x\nbob:hunter2")]);
    assert_eq!(world.rules("shop.example"), ["/ -> web:http (http)"]);
    let [text] = &world.texts()[..] else { panic!("{:?}", world.texts()) };
    assert!(text.contains("Secret default/users") && text.contains("data[auth] line 2"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn another_namespace_is_named_only_where_the_config_map_allows_it() {
    let own = NamespacedName::new("default", "controller");
    let mut world = World::ready(Options { configmap: Some(own), ..Options::default() });
    let elsewhere = secret_in("other", "users", json!({"auth": "ann:{PLAIN}x"}));
    let update = world.put([basic("shop", "shop.example", "other/users"), elsewhere]);
    assert_eq!(update.references.wanted, [], "what may not be named is not read");
    assert_eq!(world.rules("shop.example"), ["/ -> web:http (http) denied 503"]);
    let texts = world.texts();
    assert!(texts.iter().any(|text| text.contains("allow-cross-namespace-resources")), "{texts:?}");

    let update = world.put([config_map(json!({"allow-cross-namespace-resources": "true"}))]);
    assert_eq!(update.references.wanted.len(), 1);
    assert_eq!(world.rules("shop.example"), ["/ -> web:http (http)"]);
    let key = key_of(ResourceKind::PasswordFile, "other", "users");
    assert!(world.mirror.resources.contains_key(&key));

    let update = world.put([config_map(json!({"allow-cross-namespace-resources": "false"}))]);
    let object = ObjectKey { kind: Kind::Secret, name: NamespacedName::new("other", "users") };
    assert_eq!(update.references.released, [object]);
    assert_eq!(world.rules("shop.example"), ["/ -> web:http (http) denied 503"]);
    assert!(world.mirror.resources.is_empty());
    // The own namespace may be given explicitly.
    world.put([basic("shop", "shop.example", "default/mine"), users("mine", "ann:{PLAIN}x")]);
    assert_eq!(world.rules("shop.example"), ["/ -> web:http (http)"]);
}

#[test]
fn one_secret_may_be_a_file_for_one_route_and_a_map_for_another() {
    let mut world = World::ready(Options::default());
    let map = &[("auth-type", "basic"), ("auth-secret", "users"), ("auth-secret-type", "auth-map")];
    let update = world.put([
        basic("file", "file.example", "users"),
        guarded("map", "map.example", map),
        secret_in("default", "users", json!({"auth": "{PLAIN}x", "eve": "{PLAIN}y"})),
    ]);
    let reference = Reference { object: key(Kind::Secret, "users"), fields: DataFields::All };
    assert_eq!(update.references.wanted, [reference], "what both need of it");
    assert_eq!(world.rules("file.example"), ["/ -> web:http (http) denied 503"]);
    assert_eq!(world.rules("map.example"), ["/ -> web:http (http)"]);
    assert_eq!(names(&world), ["auth", "eve"]);
    let update = world.delete(Kind::Ingress, "map");
    assert_eq!(update.references.wanted[0].fields, DataFields::named(&["auth"]), "less is needed now");
}

#[test]
fn an_unusable_password_check_closes_the_route() {
    for (annotations, said) in [
        (&[("auth-type", "digest")][..], "needs auth-secret"),
        (&[("auth-type", "basic")], "needs auth-secret"),
    ] {
        let mut world = World::ready(Options::default());
        world.put([guarded("shop", "shop.example", annotations), users("users", "ann:{PLAIN}x")]);
        assert_eq!(world.rules("shop.example"), ["/ -> web:http (http) denied 503"], "{said}");
        let [text] = &world.texts()[..] else { panic!("{:?}", world.texts()) };
        assert!(text.contains(said), "{text}");
        assert!(world.mirror.resources.is_empty());
    }
    let mut world = World::ready(Options::default());
    world.put([guarded("shop", "shop.example", &[("auth-secret", "users")])]);
    assert_eq!(world.rules("shop.example"), ["/ -> web:http (http)"], "as in ingress-nginx");
    assert!(world.texts()[0].contains("no effect without auth-type"), "{:?}", world.texts());
    world.put([guarded("shop", "shop.example", &[("auth-type", "Negotiate"), ("auth-secret", "users")])]);
    assert_eq!(world.rules("shop.example"), ["/ -> web:http (http) denied 404"], "rejected");
}

#[test]
fn every_path_and_the_default_backend_are_protected() {
    let mut world = World::ready(Options::default());
    let mut object = basic("shop", "shop.example", "users");
    object["spec"]["rules"] = paths("shop.example", &["/a", "=/b"])["rules"].clone();
    object["spec"]["defaultBackend"] = backend("web", json!({"number": 80}));
    world.put([object]);
    for rules in [world.rules("shop.example"), world.rules("_")] {
        assert!(rules.iter().all(|rule| rule.ends_with("denied 503")), "{rules:?}");
    }
    world.put([users("users", "ann:{PLAIN}x")]);
    for name in ["shop.example", "_"] {
        let rules = world.host(name).map(|host| host.rules.clone()).unwrap_or_default();
        assert!(rules.iter().all(|rule| rule.policies.basic_auth.is_some()), "{rules:?}");
    }
}
