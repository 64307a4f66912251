//! Active health checks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::harness::grpc::GrpcBackend;
use crate::harness::manifest::{opaque_secret, slice};
use crate::harness::wire::Message;
use crate::harness::{
    Authority, Backend, Connection, Folder, Gateway, Ingress, Reply, TestCertificate, await_until, endpoints,
    service,
};

const HOST: &str = "shop.example";

/// Settings that are fast enough for a test.
const QUICK: [(&str, &str); 4] =
    [("interval", "1s"), ("timeout", "30s"), ("healthy-threshold", "1"), ("unhealthy-threshold", "1")];

/// A backend whose response at `/healthz` only the test controls.
struct Pod {
    backend: Backend,
    healthy: Arc<AtomicBool>,
}

impl Pod {
    fn start(name: &str) -> Self {
        let healthy = Arc::new(AtomicBool::new(true));
        let backend = Backend::with(name, says(healthy.clone()));
        Self { backend, healthy }
    }

    fn tls(name: &str, certificate: &TestCertificate) -> Self {
        let healthy = Arc::new(AtomicBool::new(true));
        let backend = Backend::tls_with(name, certificate.server_config(), says(healthy.clone()));
        Self { backend, healthy }
    }

    fn set(&self, healthy: bool) {
        self.healthy.store(healthy, Ordering::Relaxed);
    }

    fn checks(&self) -> usize {
        self.backend.seen().iter().filter(|request| request.start.contains("/healthz")).count()
    }
}

fn says(healthy: Arc<AtomicBool>) -> impl Fn(&Message) -> Reply + Send + Sync {
    move |request| match request.start.contains("/healthz") {
        true if healthy.load(Ordering::Relaxed) => Reply::status(204),
        true => Reply::status(503),
        false => Reply::Echo,
    }
}

fn shop(checks: &[(&str, &str)]) -> String {
    checked(Ingress::new("shop").path(HOST, "/", "shop"), checks)
}

fn checked(ingress: Ingress, checks: &[(&str, &str)]) -> String {
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

/// Returns the number of endpoints in this state, as shown by `sluice backends`.
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
fn an_endpoint_gets_no_requests_while_its_checks_fail() {
    let pods = ["a", "b", "c"].map(Pod::start);
    let backends = [&pods[0].backend, &pods[1].backend, &pods[2].backend];
    let (folder, gateway) = open(&[("path", "/healthz")], &backends);
    assert_eq!(counts(&gateway, 9).len(), 3);
    pods[1].set(false);
    await_until("the failure", || is_shown(&gateway, &pods[1], false));
    assert_eq!(in_state(&gateway, "failing"), 1);
    assert!(!counts(&gateway, 20).contains_key("b"));
    // A change of other endpoints keeps the state of this one.
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
fn checks_start_and_end_live_for_configured_endpoints_only() {
    let pods = ["a", "b"].map(Pod::start);
    let (folder, gateway) = open(&[("path", "/healthz")], &[&pods[0].backend, &pods[1].backend]);
    pods[0].set(false);
    await_until("the failure", || in_state(&gateway, "failing") == 1);
    folder.write("shop.yaml", shop(&[]));
    await_until("the end", || counts(&gateway, 10).len() == 2 && in_state(&gateway, "failing") == 0);
    assert!(!gateway.metrics().contains("sluice_endpoint_healthy{"));
    let before = pods[0].checks();
    // The expected statuses are a setting, too.
    folder.write("shop.yaml", shop(&[&[("path", "/healthz"), ("status", "200,503")], &QUICK[..]].concat()));
    await_until("checks that are content", || pods[0].checks() > before + 2);
    await_until("both in the metrics", || {
        is_shown(&gateway, &pods[0], true) && gateway.metrics().contains("is 200,503")
    });
}

#[test]
fn the_host_and_the_thresholds_of_checks_are_settings() {
    let pods = ["a", "b"].map(Pod::start);
    let folder = Folder::with(service("shop") + &endpoints("shop", &[&pods[0].backend, &pods[1].backend]));
    let checks = |host: &str, failures: &str| {
        let quick = [("interval", "1s"), ("timeout", "30s"), ("healthy-threshold", "2")];
        let own = [("path", "/healthz"), ("host", host), ("unhealthy-threshold", failures)];
        folder.write("shop.yaml", shop(&[&own[..], &quick[..]].concat()));
    };
    let asked = || {
        let seen = pods[0].backend.seen();
        let check = seen.iter().rev().find(|request| request.start.contains("/healthz"));
        check.and_then(|check| check.header("host")).unwrap_or_default().to_owned()
    };
    checks("inner.example", "3");
    let gateway = Gateway::start(&folder);
    await_until("a check", || asked() == "inner.example");
    pods[0].set(false);
    let before = pods[0].checks();
    await_until("the failure", || in_state(&gateway, "failing") == 1);
    assert!(pods[0].checks() >= before + 2, "one failure, or two, do not count");
    let before = pods[0].checks();
    pods[0].set(true);
    await_until("the return", || in_state(&gateway, "failing") == 0);
    assert!(pods[0].checks() > before, "one success does not count");
    checks("other.example", "1");
    await_until("the other host", || asked() == "other.example");
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
fn an_impossible_check_is_reported_and_its_service_is_served() {
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

#[test]
fn checks_use_tls_like_requests_without_verification() {
    let authority = Authority::new();
    let certificate = authority.issue(&["inner.example"]);
    let pods = ["a", "b"].map(|name| Pod::tls(name, &certificate));
    let ingress = Ingress::new("shop")
        .path(HOST, "/", "shop")
        .annotation("backend-protocol", "HTTPS")
        .annotation("proxy-ssl-secret", "upstream")
        .annotation("proxy-ssl-verify", "on")
        .annotation("proxy-ssl-name", "inner.example");
    let folder = Folder::with(service("shop") + &endpoints("shop", &[&pods[0].backend, &pods[1].backend]));
    folder.write("upstream.yaml", opaque_secret("upstream", &[("ca.crt", &*authority.pem())]));
    folder.write("shop.yaml", checked(ingress, &[&[("path", "/healthz")], &QUICK[..]].concat()));
    let gateway = Gateway::start(&folder);
    assert_eq!(counts(&gateway, 4).len(), 2);
    await_until("checks", || pods.iter().all(|pod| pod.checks() > 0));
    assert_eq!(in_state(&gateway, "failing"), 0);
    pods[1].set(false);
    await_until("the failure", || is_shown(&gateway, &pods[1], false));
    assert_eq!(counts(&gateway, 10), BTreeMap::from([("a".to_owned(), 10)]));
    // A successful check does not imply trust: requests are verified as before.
    folder.write("upstream.yaml", opaque_secret("upstream", &[("ca.crt", &*Authority::new().pem())]));
    let status = || Connection::plain(gateway.http).get(HOST, "/").status;
    await_until("the other authority", || status() == 502);
    let before = pods[0].checks();
    await_until("more checks", || pods[0].checks() > before + 1);
    assert!(is_shown(&gateway, &pods[0], true));
}

#[test]
fn grpc_endpoints_are_checked_with_and_without_tls() {
    let certificate = TestCertificate::new(&["inner.example"]);
    for (protocol, pods) in [
        ("GRPC", [(); 2].map(|()| GrpcBackend::plain())),
        ("GRPCS", [(); 2].map(|()| GrpcBackend::tls(&certificate.server_config()))),
    ] {
        let ingress = Ingress::new("shop").path(HOST, "/", "shop").annotation("backend-protocol", protocol);
        let slices = pods.iter().enumerate().map(|(at, pod)| {
            slice(&format!("shop-{at}"), "shop", &[&pod.address.ip().to_string()], pod.address.port())
        });
        let folder = Folder::with(service("shop") + &slices.collect::<String>());
        let checks = [("type", "grpc"), ("service", "shop.Cart"), ("host", "inner.example")];
        folder.write("shop.yaml", checked(ingress, &[&checks, &QUICK[..]].concat()));
        let gateway = Gateway::start(&folder);
        let passed = "sluice_health_checks_total{outcome=\"passed\"}";
        await_until(protocol, || pods.iter().all(|pod| !pod.seen().is_empty()));
        await_until("a success", || gateway.metrics().contains(passed));
        assert_eq!(in_state(&gateway, "failing"), 0, "{protocol}");
        let asked = pods[0].seen().remove(0).uri;
        assert_eq!(asked.path(), "/grpc.health.v1.Health/Check");
        assert_eq!(asked.authority().map(|authority| authority.as_str()), Some("inner.example"));
        pods[1].set_healthy(false);
        await_until("the failure", || in_state(&gateway, "failing") == 1);
        pods[1].set_healthy(true);
        await_until("the return", || in_state(&gateway, "failing") == 0);
    }
}

#[test]
fn a_check_for_which_an_endpoint_has_no_room_is_a_problem_of_its_ingress() {
    let pod = Pod::start("a");
    let folder = Folder::with(service("shop") + &endpoints("shop", &[&pod.backend]));
    let ingress = |at: u16| {
        let ingress = Ingress::new(&format!("shop-{at}")).path(&format!("s{at}.example"), "/", "shop");
        checked(ingress, &[("type", "tcp"), ("port", &(20_000 + at).to_string()), ("interval", "1h")])
    };
    folder.write("shops.yaml", (0..32).map(ingress).collect::<String>());
    let gateway = Gateway::start(&folder);
    assert!(!gateway.problems().contains("no more"), "{}", gateway.problems());
    folder.write("another.yaml", ingress(32));
    let problem = "has 32 other checks already, and there can be no more; its endpoints are served unchecked";
    await_until("the problem", || gateway.problems().contains(problem));
    let problems = gateway.problems();
    assert!(problems.contains("Ingress default/shop-32") && problems.contains("health-check-"), "{problems}");
    await_until("the endpoints to be served", || {
        Connection::plain(gateway.http).get("s32.example", "/").status == 200
    });
    folder.remove("another.yaml");
    await_until("no problem", || !gateway.problems().contains("no more"));
}
