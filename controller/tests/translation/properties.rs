//! For any changes in any order, incremental translation has the result of a translation from
//! scratch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use sluice_config::{NamespacedName, Problem};
use sluice_controller::store::{Event, Kind, ObjectKey, Prune};
use sluice_controller::{Controller, Options};

use crate::support::*;

const HOSTS: [&str; 6] = ["a.example", "b.example", "*.example", "x.b.example", "bad host", "b.example:80"];
const PATHS: [&str; 10] = ["/", "=/", "/a", "=/a", "/a/", "/a/b", "nonsense", "=/a/b/", "/a//b", "/(?!x)"];
const SERVICES: [&str; 4] = ["s0", "s1", "s2", "absent"];
const SECRETS: [&str; 3] = ["t0", "t1", "t2"];
const UIDS: [&str; 2] = ["0f8fad5b-d9cb-469f-a165-70867728950e", "no-uuid"];
const INGRESSES: [&str; 6] = ["i0", "i1", "i2", "i3", "i4", "i5"];

static PAIRS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let mut pairs: Vec<(String, String)> =
        [["a.example", "b.example"], ["*.example", "x.b.example"], ["else", "other"]]
            .iter()
            .map(|names| pair(names))
            .collect();
    let mismatch = (pairs[0].0.clone(), pairs[1].1.clone());
    pairs.extend([mismatch, (String::from("nonsense"), String::new())]);
    pairs
});

#[derive(Clone, Debug)]
enum Change {
    Put(Value),
    Delete(ObjectKey),
}

fn annotations() -> impl Strategy<Value = Value> {
    let known = [
        ("affinity", "cookie"),
        ("session-cookie-path", "/x"),
        ("backend-protocol", "HTTPS"),
        ("backend-protocol", "GRPC"),
        ("backend-protocol", "AUTO_HTTP"),
        ("upstream-vhost", "$host"),
        ("custom-headers", "default/h0"),
        ("proxy-ssl-secret", "default/t0"),
        ("proxy-cookie-path", "/a /b"),
        ("ssl-redirect", "false"),
        ("limit-rps", "many"),
        ("proxy-read-timeout", "7"),
        ("proxy-read-timeout", "x"),
        ("whitelist-source-range", "10.0.0.0/8"),
        ("canary", "true"),
        ("auth-tls-secret", "default/ca"),
        ("server-alias", "a.example,x.b.example,y.example"),
        ("from-to-www-redirect", "true"),
        ("permanent-redirect", "/new"),
        ("modsecurity-snippet", "SecRuleEngine On"),
        ("rewrite-target", "/$1"),
        ("affinity-mode", "persistent"),
        ("proxy-buffering", "on"),
        ("unknown", "1"),
    ];
    let one = option::weighted(0.4, select(known.to_vec())).prop_map(|found| {
        found.map_or_else(
            || json!({}),
            |(name, value)| json!({format!("nginx.ingress.kubernetes.io/{name}"): value}),
        )
    });
    let kinds = select(vec!["auth-file", "auth-map"]);
    let secrets = select(vec!["t0", "u0", "u1", "default/u0", "other/u0"]);
    // A realm that has digests or has none, and a fault that closes the routes in any case.
    let schemes = select(vec![("basic", "shop"), ("digest", "shop"), ("digest", "other")]);
    let redirects = option::weighted(0.2, Just("banana"));
    let guarded =
        (kinds, secrets, schemes, redirects).prop_map(|(kind, secret, (scheme, realm), redirect)| {
            let mut annotations = json!({"nginx.ingress.kubernetes.io/auth-type": scheme,
            "nginx.ingress.kubernetes.io/auth-realm": realm,
            "nginx.ingress.kubernetes.io/auth-secret-type": kind,
            "nginx.ingress.kubernetes.io/auth-secret": secret});
            if let Some(redirect) = redirect {
                annotations["nginx.ingress.kubernetes.io/ssl-redirect"] = redirect.into();
            }
            annotations
        });
    prop_oneof![3 => one, 1 => guarded]
}

fn some_backend() -> impl Strategy<Value = Value> {
    let port =
        select(vec![json!({"number": 80}), json!({"name": "http"}), json!({"number": 8080}), json!({})]);
    prop_oneof![
        9 => (select(SERVICES.to_vec()), port).prop_map(|(service, port)| backend(service, port)),
        1 => Just(json!({"resource": {"kind": "Bucket", "name": "b"}})),
    ]
}

fn rule() -> impl Strategy<Value = Value> {
    let path = (select(PATHS.to_vec()), some_backend()).prop_map(|(path, backend)| {
        let mut value = path_to(path, "", json!({}));
        value["backend"] = backend;
        value
    });
    (option::weighted(0.9, select(HOSTS.to_vec())), vec(path, 0..4))
        .prop_map(|(host, paths)| json!({"host": host, "http": {"paths": paths}}))
}

fn some_ingress() -> impl Strategy<Value = Value> {
    let tls = (vec(select(HOSTS.to_vec()), 0..2), option::of(select(SECRETS.to_vec())))
        .prop_map(|(hosts, secret)| json!({"hosts": hosts, "secretName": secret}));
    (
        select(INGRESSES.to_vec()),
        annotations(),
        option::weighted(0.2, some_backend()),
        vec(rule(), 0..3),
        vec(tls, 0..3),
        option::weighted(0.9, select(vec!["nginx", "nginx", "nginx", "other", "late"])),
        option::of(0..3u32),
    )
        .prop_map(|(name, annotations, default, rules, tls, class, age)| {
            let mut spec = json!({"rules": rules, "tls": tls, "ingressClassName": class});
            if let Some(default) = default {
                spec["defaultBackend"] = default;
            }
            let object = annotated(name, annotations, spec);
            age.map_or(object.clone(), |age| created(object, age))
        })
}

fn some_slice() -> impl Strategy<Value = Value> {
    let endpoint = (1..6u8, any::<Option<bool>>(), any::<bool>()).prop_map(|(last, ready, ending)| {
        json!({"addresses": [format!("10.0.0.{last}")], "zone": format!("z{}", last % 2),
            "hints": {"forZones": [{"name": format!("z{}", last % 2)}]},
            "conditions": {"ready": ready, "serving": true, "terminating": ending}})
    });
    (0..4u8, select(SERVICES.to_vec()), vec(endpoint, 0..5), any::<bool>()).prop_map(
        |(n, service, endpoints, fqdn)| {
            let ports = json!([{"name": "http", "port": 8080 + u16::from(n)}]);
            let mut object = slice(&format!("e{n}"), service, ports, Value::Array(endpoints));
            if fqdn && n == 3 {
                object["addressType"] = "FQDN".into();
            }
            object
        },
    )
}

fn put() -> impl Strategy<Value = Value> {
    let some_service = (select(SERVICES[..3].to_vec()), 0..4u8).prop_map(|(name, shape)| match shape {
        0 => service(name, json!([{"name": "http", "port": 80}])),
        1 => service(
            name,
            json!([{"name": "http", "port": 80, "targetPort": 8080}, {"name": "b", "port": 81}]),
        ),
        2 => service(name, json!([{"name": "other", "port": 8080}])),
        _ => json!({"kind": "Service", "metadata": {"name": name, "namespace": "default"},
            "spec": {"type": "ExternalName", "externalName": "example.com"}}),
    });
    let some_secret =
        (select(SECRETS.to_vec()), 0..5usize).prop_map(|(name, at)| tls_secret(name, &PAIRS[at]));
    let texts = vec![
        "ann:{PLAIN}x",
        "ann:{PLAIN}x\nbob:y",
        "bob:y",
        "{PLAIN}x",
        "ann:shop:939e7578ed9e3c518a452acee763bce9",
        "bob:shop:939e7578ed9e3c518a452acee763bce9",
        "ann:other:939e7578ed9e3c518a452acee763bce9",
        "other:939e7578ed9e3c518a452acee763bce9",
    ];
    let some_users = (select(vec!["u0", "u1"]), select(vec!["auth", "eve"]), select(texts)).prop_map(
        |(name, key, text)| {
            json!({"kind": "Secret", "metadata": {"name": name, "namespace": "default"}, "stringData": {key: text}})
        },
    );
    let some_class = (select(vec!["nginx", "other", "late"]), any::<bool>(), any::<bool>()).prop_map(
        |(name, ours, default)| {
            let controller = if ours { "k8s.io/ingress-nginx" } else { "example.com/other" };
            if default { default_class(name, controller) } else { class(name, controller) }
        },
    );
    let good = [
        json!({}),
        json!({"keep-alive": "5"}),
        json!({"allow-cross-namespace-resources": "true"}),
        json!({"annotations-risk-level": "Low"}),
        json!({"whitelist-source-range": "10.0.0.0/8"}),
        json!({"proxy-set-headers": "default/h0", "global-allowed-response-headers": "X-A"}),
        json!({"bind-address": "127.0.0.1", "use-gzip": "true"}),
    ];
    let labels = any::<bool>().prop_map(|edge| {
        json!({"kind": "Namespace", "metadata": {"name": "default", "labels": {"edge": edge.to_string()}}})
    });
    let node = select(vec!["z0", "z1", ""]).prop_map(|zone| {
        json!({"kind": "Node", "metadata": {"name": "n0", "labels": {"topology.kubernetes.io/zone": zone}}})
    });
    let fields = vec![json!({"X-A": "1"}), json!({"X-A": "$host", "X-B": ""}), json!({"Host": "a"})];
    let headers = select(fields).prop_map(
        |data| json!({"kind": "ConfigMap", "metadata": {"namespace": "default", "name": "h0"}, "data": data}),
    );
    let object = prop_oneof![
        2 => headers,
        12 => some_ingress(),
        3 => some_service,
        4 => some_slice(),
        3 => some_secret,
        2 => some_users,
        2 => some_class,
        1 => select(good.to_vec()).prop_map(config_map),
        1 => labels,
        1 => node,
    ];
    // Objects of the same name replace each other.
    let identity = (option::weighted(0.7, select(UIDS.to_vec())), option::of(1..3_i64));
    (object, identity).prop_map(|(mut object, (uid, generation))| {
        object["metadata"]["uid"] = uid.into();
        object["metadata"]["generation"] = generation.into();
        object
    })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => put().prop_map(Change::Put),
        1 => put().prop_map(|object| {
            let kind = Kind::named(object["kind"].as_str().unwrap()).unwrap();
            Change::Delete(key(kind, object["metadata"]["name"].as_str().unwrap()))
        }),
    ]
}

fn options() -> impl Strategy<Value = Options> {
    (any::<[bool; 5]>(), any::<bool>()).prop_map(
        |([selector, catch_all, without, certificate, service], validate)| Options {
            configmap: Some(NamespacedName::new("default", "controller")),
            watch_namespace_selector: (selector && catch_all).then(|| "edge=true".parse().unwrap()),
            disable_catch_all: catch_all && without,
            watch_ingress_without_class: without,
            default_ssl_certificate: certificate.then(|| NamespacedName::new("default", "t0")),
            default_backend_service: service.then(|| NamespacedName::new("default", "s0")),
            enable_annotation_validation: validate,
            enable_topology_aware_routing: validate,
            node_name: Some("n0".into()),
            ..Options::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn step_by_step_is_from_scratch(options in options(), batches in vec(vec(change(), 1..12), 1..8)) {
        let prune = Prune::new(&options);
        let mut world = World::new(options.clone());
        let mut objects: BTreeMap<ObjectKey, Event> = BTreeMap::new();
        world.put([class("nginx", "k8s.io/ingress-nginx")]);
        objects.insert(key(Kind::IngressClass, "nginx"), event(&prune, class("nginx", "k8s.io/ingress-nginx")).unwrap());
        for batch in batches {
            let mut events = Vec::new();
            for change in batch {
                let event = match change {
                    Change::Put(object) => event(&prune, object).unwrap(),
                    Change::Delete(key) => Event::Delete(key),
                };
                match &event {
                    Event::Put(object) => objects.insert(object.key(), event.clone()),
                    Event::Delete(key) => objects.remove(key),
                    Event::Classes(_) => None,
                };
                events.push(event);
            }
            if let Some(Event::Put(object)) = events.first() {
                let key = object.key().object_ref();
                let before: BTreeSet<Problem> = world.problems().into_iter().collect();
                let verdict = world.controller.review(object.clone()).unwrap();
                world.update(vec![Event::Put(object.clone())]);
                let after = world.problems().into_iter();
                let news: Vec<Problem> =
                    after.filter(|problem| problem.object == key || !before.contains(problem)).collect();
                prop_assert_eq!(verdict.problems, news, "a review is what comes true");
            }
            // Checks that the deltas so far add up to the snapshot, and the changes of problems to
            // all problems.
            world.update(events);
            let mut scratch = Controller::new(options.clone());
            scratch.update(objects.values().cloned().collect(), true);
            prop_assert_eq!(&world.mirror, &scratch.snapshot());
            prop_assert_eq!(world.problems(), scratch.problems());
        }
    }
}
