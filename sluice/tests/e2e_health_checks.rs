//! Active health checks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, Reply, await_until, endpoints, service};

const HOST: &str = "shop.example";

/// Quick enough for a test.
const QUICK: [(&str, &str); 4] =
    [("interval", "1s"), ("timeout", "30s"), ("healthy-threshold", "1"), ("unhealthy-threshold", "1")];

/// A backend that says at `/healthz` what it is told to, and whom nothing else tells about it.
struct Pod {
    backend: Backend,
    healthy: Arc<AtomicBool>,
}

impl Pod {
    fn start(name: &str) -> Self {
        let healthy = Arc::new(AtomicBool::new(true));
        let says = healthy.clone();
        let backend = Backend::with(name, move |request| match request.start.contains("/healthz") {
            true if says.load(Ordering::Relaxed) => Reply::status(204),
            true => Reply::status(503),
            false => Reply::Echo,
        });
        Self { backend, healthy }
    }

    fn set(&self, healthy: bool) {
        self.healthy.store(healthy, Ordering::Relaxed);
    }

    fn checks(&self) -> usize {
        self.backend.seen().iter().filter(|request| request.start.contains("/healthz")).count()
    }
}

fn shop(checks: &[(&str, &str)]) -> String {
    let ingress = Ingress::new("shop").path(HOST, "/", "shop");
    let annotated = checks.iter().fold(ingress, |ingress, (name, value)| {
        ingress.raw_annotation(&format!("sluice.dev/health-check-{name}"), value)
    });
    annotated.text()
}

fn open(checks: &[(&str, &str)], backends: &[&Backend]) -> (Folder, Gateway) {
    let folder = Folder::with(service("shop"));
    folder.write("shop.yaml", shop(&[checks, &QUICK[..]].concat()));
    folder.write("endpoints.yaml", endpoints("shop", backends));
    let gateway = Gateway::start(&folder);
    (folder, gateway)
}

fn counts(gateway: &Gateway, of: usize) -> BTreeMap<String, usize> {
    let mut connection = Connection::plain(gateway.http);
    (0..of).fold(BTreeMap::new(), |mut counts, _| {
        let response = connection.get(HOST, "/");
        assert_eq!(response.status, 200);
        *counts.entry(response.backend()).or_default() += 1;
        counts
    })
}

/// How many endpoints there are in this state, as `sluice backends` shows them.
fn in_state(gateway: &Gateway, state: &str) -> usize {
    let pools = gateway.ask("/backends").json();
    let endpoints = pools.as_array().unwrap().iter().flat_map(|pool| pool["endpoints"].as_array().unwrap());
    endpoints.filter(|endpoint| endpoint["health"] == *state).count()
}

fn is_shown(gateway: &Gateway, pod: &Pod, healthy: bool) -> bool {
    let (address, value) =
        (format!("address=\"{}\"", pod.backend.address), if healthy { " 1" } else { " 0" });
    gateway.metrics().lines().any(|line| {
        line.starts_with("sluice_endpoint_healthy{") && line.contains(&address) && line.ends_with(value)
    })
}

#[test]
fn an_endpoint_that_fails_its_checks_gets_no_requests_until_it_passes_them() {
    let pods = ["a", "b", "c"].map(Pod::start);
    let backends = [&pods[0].backend, &pods[1].backend, &pods[2].backend];
    let (folder, gateway) = open(&[("path", "/healthz")], &backends);
    assert_eq!(counts(&gateway, 9).len(), 3);
    pods[1].set(false);
    await_until("the failure", || is_shown(&gateway, &pods[1], false));
    assert_eq!(in_state(&gateway, "failing"), 1);
    assert!(!counts(&gateway, 20).contains_key("b"));
    // Others come and go, and what is known of it stays.
    folder.write("endpoints.yaml", endpoints("shop", &backends[..2]));
    await_until("the change", || !counts(&gateway, 10).contains_key("c"));
    assert_eq!(counts(&gateway, 10), BTreeMap::from([("a".to_owned(), 10)]));
    pods[1].set(true);
    await_until("the return", || counts(&gateway, 10).len() == 2);
    assert!(is_shown(&gateway, &pods[1], true));
    assert!(gateway.metrics().contains("sluice_health_checks_total{outcome=\"failed\"}"));
}

#[test]
fn when_all_fail_requests_go_on_to_all() {
    let pods = ["a", "b"].map(Pod::start);
    let (_folder, gateway) = open(&[("path", "/healthz")], &[&pods[0].backend, &pods[1].backend]);
    pods.iter().for_each(|pod| pod.set(false));
    await_until("both failures", || in_state(&gateway, "failing") == 2);
    assert_eq!(counts(&gateway, 10), [("a", 5), ("b", 5)].map(|(name, n)| (name.to_owned(), n)).into());
}

#[test]
fn checks_begin_and_end_live_and_nobody_is_checked_unasked() {
    let pods = ["a", "b"].map(Pod::start);
    let (folder, gateway) = open(&[("path", "/healthz")], &[&pods[0].backend, &pods[1].backend]);
    pods[0].set(false);
    await_until("the failure", || in_state(&gateway, "failing") == 1);
    folder.write("shop.yaml", shop(&[]));
    await_until("the end", || counts(&gateway, 10).len() == 2 && in_state(&gateway, "failing") == 0);
    assert!(!gateway.metrics().contains("sluice_endpoint_healthy{"));
    let before = pods[0].checks();
    // The statuses that are expected are a setting too.
    folder.write("shop.yaml", shop(&[&[("path", "/healthz"), ("status", "200,503")], &QUICK[..]].concat()));
    await_until("checks that are content", || pods[0].checks() > before + 2);
    await_until("both in the metrics", || {
        is_shown(&gateway, &pods[0], true) && gateway.metrics().contains("is 200,503")
    });
}

#[test]
fn tcp_checks_may_ask_another_port() {
    let pods = ["a", "b"].map(Pod::start);
    let mut side = Backend::echo("side");
    let port = side.address.port().to_string();
    let checks = [("type", "tcp"), ("port", &*port)];
    let (_folder, gateway) = open(&checks, &[&pods[0].backend, &pods[1].backend]);
    await_until("checks", || gateway.metrics().contains("sluice_health_checks_total{outcome=\"passed\"}"));
    assert_eq!(in_state(&gateway, "failing"), 0);
    side.stop();
    await_until("the failures", || in_state(&gateway, "failing") == 2);
}

#[test]
fn a_session_leaves_an_endpoint_that_fails_its_checks_and_comes_back() {
    let pods = ["a", "b", "c"].map(Pod::start);
    let backends: Vec<&Backend> = pods.iter().map(|pod| &pod.backend).collect();
    let folder = Folder::with(service("shop") + &endpoints("shop", &backends));
    let ingress = Ingress::new("shop")
        .path(HOST, "/", "shop")
        .annotation("affinity", "cookie")
        .raw_annotation("sluice.dev/health-check-path", "/healthz");
    let ingress = QUICK.iter().fold(ingress, |ingress, (name, value)| {
        ingress.raw_annotation(&format!("sluice.dev/health-check-{name}"), value)
    });
    folder.write("shop.yaml", ingress.text());
    let gateway = Gateway::start(&folder);
    let first = Connection::plain(gateway.http).get(HOST, "/");
    let (own, cookie) = (first.backend(), first.cookie().unwrap());
    let ask =
        || Connection::plain(gateway.http).request("GET", HOST, "/", &[("Cookie", &cookie)], "").backend();
    assert_eq!(ask(), own);
    let pod = &pods[["a", "b", "c"].iter().position(|name| **name == *own).unwrap()];
    pod.set(false);
    await_until("another endpoint", || ask() != own);
    let next = ask();
    assert!((0..8).all(|_| ask() == next), "one and the same");
    pod.set(true);
    await_until("its own endpoint", || ask() == own);
}

#[test]
fn what_cannot_be_checked_is_named_and_served_unchecked() {
    let pod = Pod::start("a");
    let (folder, gateway) = open(&[("path", "healthz")], &[&pod.backend]);
    assert_eq!(counts(&gateway, 3).len(), 1);
    let problems = gateway.problems();
    for part in ["metadata.annotations[sluice.dev/health-check-path]", "begins with /", "not checked"] {
        assert!(problems.contains(part), "{part}: {problems}");
    }
    folder.write("shop.yaml", shop(&[("type", "tcp"), ("status", "200")]));
    await_until("the other one", || gateway.problems().contains("has no place in a check of type tcp"));
    folder.write("shop.yaml", shop(&[("pth", "/")]));
    await_until("the slip", || gateway.problems().contains("did you mean sluice.dev/health-check-path?"));
    assert_eq!(pod.checks(), 0);
}
