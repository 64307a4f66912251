//! Generators of objects. Names are few, so that objects refer to each other and replace each
//! other.

use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};
use sluice_controller::store::Secret;
use sluice_testing::certificate::Authority;

use crate::support::*;

const HOSTS: [&str; 6] = ["a.example", "b.example", "*.example", "x.b.example", "bad host", "b.example:80"];
const PATHS: [&str; 10] = ["/", "=/", "/a", "=/a", "/a/", "/a/b", "nonsense", "=/a/b/", "/a//b", "/(?!x)"];
const SERVICES: [&str; 4] = ["s0", "s1", "s2", "absent"];
const SECRETS: [&str; 3] = ["t0", "t1", "t2"];
const UIDS: [&str; 2] = ["0f8fad5b-d9cb-469f-a165-70867728950e", "no-uuid"];
const INGRESSES: [&str; 6] = ["i0", "i1", "i2", "i3", "i4", "i5"];

/// Certificates with keys: the first [`USABLE`] are usable.
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

const USABLE: usize = 3;

/// Values of `ca.crt`.
static AUTHORITIES: LazyLock<Vec<String>> =
    LazyLock::new(|| vec![Authority::new().pem(), Authority::new().pem(), "nonsense".into()]);

/// Annotations without a prefix and their values.
const ANNOTATIONS: [(&str, &str); 70] = [
    ("affinity", "cookie"),
    ("affinity-canary-behavior", "legacy"),
    ("affinity-mode", "persistent"),
    ("app-root", "/start"),
    ("auth-proxy-set-headers", "default/h0"),
    ("auth-signin", "https://login.example/"),
    ("auth-tls-error-page", "/a"),
    ("auth-tls-secret", "default/ca"),
    ("auth-tls-secret", "default/t0"),
    ("auth-tls-secret", "other/ca"),
    ("auth-tls-verify-client", "optional"),
    ("auth-url", "http://s0.default.svc/check"),
    ("auth-url", "http://auth.example/$host"),
    ("backend-protocol", "AUTO_HTTP"),
    ("backend-protocol", "FCGI"),
    ("backend-protocol", "GRPC"),
    ("backend-protocol", "HTTPS"),
    ("canary", "true"),
    ("canary", "true"),
    ("canary-by-header", "X-Canary"),
    ("canary-weight", "20"),
    ("configuration-snippet", "more_set_headers \"X-A: $a\";"),
    ("custom-headers", "default/h0"),
    ("custom-headers", "other/h0"),
    ("custom-http-errors", "404,503"),
    ("default-backend", "absent"),
    ("default-backend", "s0"),
    ("denylist-source-range", "10.0.0.0/8"),
    ("enable-cors", "true"),
    ("enable-modsecurity", "true"),
    ("fastcgi-params-configmap", "h0"),
    ("force-ssl-redirect", "true"),
    ("from-to-www-redirect", "true"),
    ("limit-rps", "5"),
    ("limit-rps", "many"),
    ("load-balance", "ewma"),
    ("mirror-target", "http://s1.default.svc:81/$request_uri"),
    ("modsecurity-snippet", "SecRuleEngine On"),
    ("permanent-redirect", "/new"),
    ("proxy-buffering", "on"),
    ("proxy-cookie-path", "/a /b"),
    ("proxy-read-timeout", "7"),
    ("proxy-read-timeout", "x"),
    ("proxy-ssl-name", "$host"),
    ("proxy-ssl-secret", "default/ca"),
    ("proxy-ssl-secret", "default/t0"),
    ("proxy-ssl-verify", "on"),
    ("rewrite-target", "/$1"),
    ("satisfy", "any"),
    ("server-alias", "a.example,x.b.example,y.example"),
    ("server-alias", "b.example"),
    ("server-snippet", "set $a 1;"),
    ("service-upstream", "true"),
    ("session-cookie-path", "/x"),
    ("ssl-passthrough", "true"),
    ("ssl-redirect", "false"),
    ("temporal-redirect", "https://a.example/"),
    ("unknown", "1"),
    ("upstream-hash-by", "$request_uri"),
    ("upstream-vhost", "$host"),
    ("use-regex", "true"),
    ("whitelist-source-range", "10.0.0.0/8"),
    ("x-forwarded-prefix", "/p"),
    ("sluice.dev/cache", "true"),
    ("sluice.dev/fixed-response", "204"),
    ("sluice.dev/health-check-path", "/health"),
    ("sluice.dev/health-check-port", "9000"),
    ("sluice.dev/rate-limit-fields", "true"),
    ("sluice.dev/set-request-headers", "X-B: $host"),
    ("sluice.dev/slow-start", "10s"),
];

fn annotation(name: &str) -> String {
    if name.contains('/') { name.into() } else { format!("nginx.ingress.kubernetes.io/{name}") }
}

fn annotations() -> impl Strategy<Value = Value> {
    let some = vec(select(ANNOTATIONS.to_vec()), 0..4).prop_map(|found| {
        let values = found.into_iter().map(|(name, value)| (annotation(name), value.into()));
        Value::Object(values.collect())
    });
    let kinds = select(vec!["auth-file", "auth-map"]);
    let secrets = select(vec!["t0", "u0", "u1", "default/u0", "other/u0"]);
    // A realm that has digests or has none, and a fault that closes the routes in any case.
    let schemes = select(vec![("basic", "shop"), ("digest", "shop"), ("digest", "other")]);
    let redirects = option::weighted(0.2, Just("banana"));
    let guarded =
        (kinds, secrets, schemes, redirects).prop_map(|(kind, secret, (scheme, realm), redirect)| {
            let mut annotations = json!({annotation("auth-type"): scheme, annotation("auth-realm"): realm,
                annotation("auth-secret-type"): kind, annotation("auth-secret"): secret});
            if let Some(redirect) = redirect {
                annotations[annotation("ssl-redirect")] = redirect.into();
            }
            annotations
        });
    (some, option::weighted(0.2, guarded)).prop_map(|(mut some, guarded)| {
        if let (Some(some), Some(Value::Object(guarded))) = (some.as_object_mut(), guarded) {
            some.extend(guarded);
        }
        some
    })
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

/// Ports of EndpointSlices: with the names of Service ports, with others, and without any.
fn some_slice() -> impl Strategy<Value = Value> {
    let endpoint = (1..6u8, any::<Option<bool>>(), any::<bool>()).prop_map(|(last, ready, ending)| {
        json!({"addresses": [format!("10.0.0.{last}")], "zone": format!("z{}", last % 2),
            "hints": {"forZones": [{"name": format!("z{}", last % 2)}]},
            "conditions": {"ready": ready, "serving": true, "terminating": ending}})
    });
    let ports = prop_oneof![
        3 => Just(json!([{"name": "http", "port": 8080}])),
        3 => select(vec![
            json!([{"name": "http", "port": 8081}, {"name": "b", "port": 81}]),
            json!([{"name": "", "port": 8082}]),
            json!([{"port": 8083}, {"name": "u", "port": 8084, "protocol": "UDP"}]),
            json!([{"name": "renamed", "port": 8085}]),
            json!([{"name": "http", "port": null}]),
            json!([]),
            Value::Null,
        ]),
    ];
    (0..4u8, select(SERVICES.to_vec()), ports, vec(endpoint, 0..5), any::<bool>()).prop_map(
        |(n, service, ports, endpoints, fqdn)| {
            let mut object = slice(&format!("e{n}"), service, ports, Value::Array(endpoints));
            if fqdn && n == 3 {
                object["addressType"] = "FQDN".into();
            }
            object
        },
    )
}

fn some_service() -> impl Strategy<Value = Value> {
    let own = vec![
        json!([{"name": "http", "port": 80}]),
        json!([{"name": "http", "port": 80, "targetPort": 8080}, {"name": "b", "port": 81}]),
        json!([{"name": "b", "port": 80, "targetPort": 8080}, {"name": "http", "port": 8080}]),
        json!([{"name": "other", "port": 8080}]),
        json!([{"port": 80, "targetPort": 8080}]),
        json!([{"port": 80, "targetPort": "web"}]),
        json!([{"name": "http", "port": 80, "targetPort": "web", "appProtocol": "https"}]),
        json!([{"name": "u", "port": 80, "protocol": "UDP"}, {"name": "http", "port": 80}]),
    ];
    let own = (select(own), option::weighted(0.3, Just("10.1.0.1")))
        .prop_map(|(ports, address)| json!({"ports": ports, "clusterIP": address}));
    let names = select(vec!["example.com", "absent.example", "localhost", "203.0.113.9", "bad_name"]);
    let ports =
        vec![json!([]), json!([{"port": 80, "targetPort": 8080}]), json!([{"name": "http", "port": 80}])];
    let external = (names, select(ports))
        .prop_map(|(name, ports)| json!({"type": "ExternalName", "externalName": name, "ports": ports}));
    (select(SERVICES[..3].to_vec()), prop_oneof![3 => own, 1 => external]).prop_map(|(name, spec)| {
        json!({"kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
    })
}

fn some_secret() -> impl Strategy<Value = Value> {
    let secret = |name: &str, data: Value| json!({"kind": "Secret", "metadata": {"name": name, "namespace": "default"}, "stringData": data});
    let certificate = (select(SECRETS.to_vec()), 0..5usize, option::weighted(0.2, 0..3usize)).prop_map(
        move |(name, at, authority)| {
            let mut object = tls_secret(name, &PAIRS[at]);
            if let Some(at) = authority {
                object["stringData"]["ca.crt"] = AUTHORITIES[at].clone().into();
            }
            object
        },
    );
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
    let users = (select(vec!["u0", "u1"]), select(vec!["auth", "eve"]), select(texts))
        .prop_map(move |(name, key, text)| secret(name, json!({key: text})));
    let authorities = (0..4usize).prop_map(move |at| match AUTHORITIES.get(at) {
        Some(text) => secret("ca", json!({"ca.crt": text})),
        None => secret("ca", json!({})),
    });
    prop_oneof![3 => certificate, 2 => users, 2 => authorities]
}

fn some_config_map() -> impl Strategy<Value = Value> {
    let own = select(vec![
        json!({}),
        json!({"keep-alive": "5"}),
        json!({"allow-cross-namespace-resources": "true"}),
        json!({"annotations-risk-level": "Low"}),
        json!({"annotations-risk-level": "Critical", "allow-snippet-annotations": "true"}),
        json!({"whitelist-source-range": "10.0.0.0/8"}),
        json!({"proxy-set-headers": "default/h0", "global-allowed-response-headers": "X-A"}),
        json!({"add-headers": "other/h0", "service-upstream": "true"}),
        json!({"bind-address": "127.0.0.1", "use-gzip": "true"}),
        json!({"global-auth-url": "http://s0.default.svc/$host", "disable-ipv6-dns": "true"}),
        json!({"http-snippet": "map $host $a { default 1; }", "server-snippet": "set $b $a;"}),
        json!({"proxy-ssl-location-only": "true", "location-snippet": "more_set_headers \"X-B: $b\";"}),
    ]);
    let headers = select(vec![json!({"X-A": "1"}), json!({"X-A": "$host", "X-B": ""}), json!({"Host": "a"})]);
    let ports = select(vec!["9000", "9001", "443", "many"]);
    let targets = select(vec![
        "default/s0:80",
        "default/s0:http",
        "default/s1:80:PROXY",
        "default/s2:u",
        "other/s0:80",
        "default/absent:80",
        "nonsense",
    ]);
    let streams = (select(vec!["tcp", "udp"]), vec((ports, targets), 0..3)).prop_map(|(name, entries)| {
        let entries = entries.into_iter().map(|(port, target)| (port.to_owned(), target.into()));
        (name, Value::Object(entries.collect()))
    });
    let object = |name: &str, data: Value| json!({"kind": "ConfigMap", "metadata": {"namespace": "default", "name": name}, "data": data});
    prop_oneof![
        2 => headers.prop_map(move |data| object("h0", data)),
        2 => streams.prop_map(move |(name, data)| object(name, data)),
        1 => own.prop_map(config_map),
    ]
}

fn some_cluster_object() -> impl Strategy<Value = Value> {
    let some_class = (select(vec!["nginx", "other", "late"]), any::<bool>(), any::<bool>()).prop_map(
        |(name, ours, default)| {
            let controller = if ours { "k8s.io/ingress-nginx" } else { "example.com/other" };
            if default { default_class(name, controller) } else { class(name, controller) }
        },
    );
    let namespace = (select(vec!["default", "other"]), any::<bool>()).prop_map(|(name, edge)| {
        json!({"kind": "Namespace", "metadata": {"name": name, "labels": {"edge": edge.to_string()}}})
    });
    let node = select(vec!["z0", "z1", ""]).prop_map(|zone| {
        json!({"kind": "Node", "metadata": {"name": "n0", "labels": {"topology.kubernetes.io/zone": zone}}})
    });
    prop_oneof![2 => some_class, 1 => namespace, 1 => node]
}

/// An object, in namespace `default` or rarely in `other`.
pub(super) fn object() -> impl Strategy<Value = Value> {
    let namespaced = prop_oneof![
        12 => some_ingress(),
        4 => some_service(),
        4 => some_slice(),
        5 => some_secret(),
        4 => some_config_map(),
    ];
    let namespaced =
        (namespaced, option::weighted(0.1, Just("other"))).prop_map(|(mut object, namespace)| {
            if let Some(namespace) = namespace {
                object["metadata"]["namespace"] = namespace.into();
            }
            object
        });
    // Objects of the same name replace each other.
    let identity = (option::weighted(0.7, select(UIDS.to_vec())), option::of(1..3_i64));
    let object = prop_oneof![7 => namespaced, 1 => some_cluster_object()];
    (object, identity).prop_map(|(mut object, (uid, generation))| {
        object["metadata"]["uid"] = uid.into();
        object["metadata"]["generation"] = generation.into();
        object
    })
}

/// Returns whether a Secret contains a usable certificate.
pub(super) fn is_usable(secret: &Secret) -> bool {
    let has = |key: &str, text: &str| secret.get(key) == Some(text.as_bytes());
    PAIRS[..USABLE].iter().any(|(certificate, key)| has("tls.crt", certificate) && has("tls.key", key))
}
