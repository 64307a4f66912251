//! Selection of an endpoint without sessions.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::harness::client::Response;
use crate::harness::manifest::document;
use crate::harness::{
    Backend, Connection, Folder, Gate, Gateway, Ingress, Reply, await_until, config_map, endpoints, get,
    service,
};

const HOST: &str = "shop.example";
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const CONFIG: &str = "ingress-nginx/controller";

fn shop(annotations: &[(&str, &str)]) -> String {
    annotations
        .iter()
        .fold(Ingress::new("shop").path(HOST, "/", "shop"), |ingress, (name, value)| {
            match name.contains('/') {
                true => ingress.raw_annotation(name, value),
                false => ingress.annotation(name, value),
            }
        })
        .text()
}

struct Shop {
    folder: Folder,
    gateway: Gateway,
}

impl Shop {
    fn open(annotations: &[(&str, &str)], backends: &[&Backend]) -> Self {
        let folder = Folder::with(shop(annotations));
        folder.write("service.yaml", service("shop"));
        folder.write("endpoints.yaml", endpoints("shop", backends));
        let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
        Self { folder, gateway }
    }

    fn annotate(&self, annotations: &[(&str, &str)]) {
        self.folder.write("objects.yaml", shop(annotations));
    }

    fn get(&self, target: &str) -> Response {
        get(self.gateway.http, HOST, target)
    }

    fn backend(&self, target: &str) -> String {
        let response = self.get(target);
        assert_eq!(response.status, 200, "{target}");
        response.backend()
    }

    /// Returns how many of `of` requests each backend received.
    fn counts(&self, target: &str, of: usize) -> BTreeMap<String, usize> {
        let mut connection = Connection::plain(self.gateway.http);
        (0..of).fold(BTreeMap::new(), |mut counts, _| {
            *counts.entry(connection.get(HOST, target).backend()).or_default() += 1;
            counts
        })
    }

    /// Returns the backend of each user, and asserts that it is stable.
    fn users(&self) -> BTreeMap<usize, String> {
        let backend = |user: usize| {
            let target = format!("/?user={user}");
            let first = self.backend(&target);
            assert_eq!(self.backend(&target), first, "user {user}");
            (user, first)
        };
        (0..40).map(backend).collect()
    }

    fn knows(&self, backend: &Backend) -> bool {
        self.gateway.ask("/backends").text().contains(&backend.address.to_string())
    }
}

#[test]
fn a_key_maps_to_one_endpoint_and_most_keys_stay_on_removal() {
    let backends = NAMES.map(Backend::echo);
    let all: Vec<&Backend> = backends.iter().collect();
    let shop = Shop::open(&[("upstream-hash-by", "$arg_user")], &all);
    let before = shop.users();
    let reached: BTreeSet<&String> = before.values().collect();
    assert!(reached.len() >= 4, "{before:?}");
    shop.folder.write("endpoints.yaml", endpoints("shop", &all[..4]));
    await_until("the change", || !shop.knows(&backends[4]));
    let after = shop.users();
    let moved = before.iter().filter(|(user, backend)| after[user] != **backend && **backend != "e").count();
    // Ring points of two endpoints may coincide.
    assert!(moved <= 2, "{before:?} {after:?}");
    // The key follows the new annotation.
    shop.annotate(&[("upstream-hash-by", "$http_x_user")]);
    await_until("the header", || shop.counts("/?user=1", 8).len() > 1);
    let ask = |user: &str| {
        Connection::plain(shop.gateway.http).request("GET", HOST, "/", &[("X-User", user)], "").backend()
    };
    let first = ask("ann");
    assert!((0..8).all(|_| ask("ann") == first));
}

#[test]
fn requests_without_a_key_are_balanced_as_any_others() {
    let backends = NAMES.map(Backend::echo);
    let shop = Shop::open(&[("upstream-hash-by", "$arg_user")], &backends.iter().collect::<Vec<_>>());
    assert_eq!(shop.counts("/", 25).into_values().collect::<Vec<_>>(), [5; 5]);
}

#[test]
fn a_key_may_choose_a_group() {
    let backends = NAMES.map(Backend::echo);
    let annotations = [
        ("upstream-hash-by", "$arg_user"),
        ("upstream-hash-by-subset", "true"),
        ("upstream-hash-by-subset-size", "2"),
    ];
    let shop = Shop::open(&annotations, &backends.iter().collect::<Vec<_>>());
    // With two backends, 40 draws select only one of them once in 10^12 runs.
    for user in 0..3 {
        assert_eq!(shop.counts(&format!("/?user={user}"), 40).len(), 2, "user {user}");
    }
    shop.annotate(&annotations[..2]);
    await_until("three, which is the default", || shop.counts("/?user=0", 60).len() == 3);
    shop.annotate(&annotations[..1]);
    await_until("one", || shop.counts("/?user=0", 20).len() == 1);
}

#[test]
fn a_key_that_cannot_be_made_is_ignored() {
    let backend = Backend::echo("a");
    let shop = Shop::open(&[("upstream-hash-by", "$geoip_country")], &[&backend]);
    assert_eq!(shop.get("/").status, 200);
    let problems = shop.gateway.problems();
    assert!(problems.contains("upstream-hash-by") && problems.contains("$geoip_country"), "{problems}");
}

/// The slow backend takes far longer than the fast one does even on a loaded machine.
#[expect(clippy::disallowed_methods, reason = "a backend that is slow, on a thread of its own")]
fn slow_and_fast() -> [Backend; 2] {
    let slow = Backend::with("slow", |_| {
        thread::sleep(Duration::from_millis(400));
        Reply::Echo
    });
    [slow, Backend::echo("fast")]
}

#[test]
fn with_ewma_the_endpoint_that_answers_sooner_gets_most_requests() {
    let backends = slow_and_fast();
    let shop = Shop::open(&[("load-balance", "ewma")], &[&backends[0], &backends[1]]);
    let counts = shop.counts("/", 40);
    assert!(counts["fast"] >= 33, "{counts:?}");
    shop.annotate(&[]);
    await_until("turns", || {
        shop.gateway.ask("/backends").text().contains("roundRobin") && shop.counts("/", 4)["slow"] == 2
    });
    // The ConfigMap sets the default for all Ingresses without the annotation.
    shop.folder.write("config.yaml", config_map(CONFIG, &[("load-balance", "ewma")]));
    await_until("the ConfigMap", || shop.gateway.ask("/backends").text().contains("ewma"));
    let counts = shop.counts("/", 20);
    assert!(counts["fast"] >= 15, "{counts:?}");
    shop.annotate(&[("load-balance", "round_robin")]);
    await_until("turns again", || shop.gateway.ask("/backends").text().contains("roundRobin"));
    assert_eq!(shop.counts("/", 4)["slow"], 2);
}

#[test]
fn with_least_conn_the_endpoint_with_the_fewest_requests_gets_the_next() {
    let gate = Gate::default();
    let backends = ["a", "b"].map(|name| {
        let gate = gate.clone();
        Backend::with(name, move |request| {
            if request.start.contains("/hold") {
                gate.wait();
            }
            Reply::Echo
        })
    });
    let shop = Shop::open(&[("load-balance", "least_conn")], &[&backends[0], &backends[1]]);
    let mut held = Connection::plain(shop.gateway.http);
    held.send(format!("GET /hold HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    await_until("the request", || backends.iter().any(|backend| backend.requests() == 1));
    let counts = shop.counts("/", 10);
    gate.open();
    let holder = held.response().backend();
    assert_eq!(counts.len(), 1, "{counts:?}");
    assert!(!counts.contains_key(&holder), "{counts:?}, while {holder} was busy");
    await_until("an even share", || shop.counts("/", 10).into_values().all(|count| count == 5));
}

#[test]
fn an_unknown_balance_is_reported_with_the_valid_ones() {
    let backend = Backend::echo("a");
    let shop = Shop::open(&[("load-balance", "ip_hash")], &[&backend]);
    assert_eq!(shop.backend("/"), "a", "the default is used");
    let problems = shop.gateway.problems();
    assert!(problems.contains("\"ip_hash\" must be one of round_robin, ewma, least_conn"), "{problems}");
}

#[test]
fn a_new_endpoint_starts_slowly_if_configured() {
    let backends = ["a", "b"].map(Backend::echo);
    let shop = Shop::open(&[("sluice.dev/slow-start", "1h")], &[&backends[0]]);
    shop.folder.write("endpoints.yaml", endpoints("shop", &[&backends[0], &backends[1]]));
    await_until("the endpoint", || shop.knows(&backends[1]));
    // The endpoint has a tenth of its share; 7 to 74 of 400 are six standard deviations.
    let counts = shop.counts("/", 400);
    assert!((7..=74).contains(&counts["b"]), "{counts:?}");
    shop.annotate(&[]);
    await_until("the whole share", || shop.counts("/", 40).into_values().all(|count| count == 20));
}

#[test]
fn the_address_of_a_service_can_stand_for_its_endpoints() {
    let (own, pod) = (Backend::echo("service"), Backend::echo("pod"));
    let port = own.address.port();
    let service = |ip: &str| {
        document(&json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "shop", "namespace": "default"},
            "spec": {"clusterIP": ip, "ports": [{"name": "http", "port": port, "targetPort": "http"}]},
        }))
    };
    let ingress = |annotations: &[(&str, &str)]| {
        let backend = json!({"service": {"name": "shop", "port": {"number": port}}});
        Ingress::new("shop").backend_path(HOST, "/", "Prefix", &backend).annotations(annotations).text()
    };
    let folder = Folder::with(ingress(&[("service-upstream", "true")]));
    folder.write("service.yaml", service("127.0.0.1"));
    folder.write("endpoints.yaml", endpoints("shop", &[&pod]));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    let backend = || get(gateway.http, HOST, "/").backend();
    assert_eq!(backend(), "service");
    folder.write("objects.yaml", ingress(&[]));
    await_until("the endpoints", || backend() == "pod");
    folder.write("config.yaml", config_map(CONFIG, &[("service-upstream", "true")]));
    await_until("the ConfigMap", || backend() == "service");
    folder.write("service.yaml", service("None"));
    await_until("the endpoints of a headless Service", || backend() == "pod");
    let problems = gateway.problems();
    assert!(problems.contains("Service default/shop has no address (clusterIP)"), "{problems}");
    folder.write("objects.yaml", ingress(&[("service-upstream", "false")]));
    await_until("no problem", || !gateway.problems().contains("clusterIP"));
}
