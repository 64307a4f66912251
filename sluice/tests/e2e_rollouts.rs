//! Progressive delivery: the Ingresses that Argo Rollouts and Flagger write, step by step, under
//! load.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use crate::harness::manifest::{endpoints, service, service_with};
use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, await_until};

const HOST: &str = "shop.example";

/// Clients that send requests continuously, and their failed responses.
struct Load {
    stop: Arc<AtomicBool>,
    asked: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<Vec<String>>>,
}

impl Load {
    fn begin(gateway: &Gateway) -> Self {
        let (stop, asked) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let address = gateway.http;
        let client = |_| {
            let (stop, asked) = (stop.clone(), asked.clone());
            thread::spawn(move || {
                let mut failures = Vec::new();
                let mut connection = Connection::plain(address);
                while !stop.load(Ordering::Relaxed) {
                    let response = connection.get(HOST, "/cart");
                    asked.fetch_add(1, Ordering::Relaxed);
                    // The connection has reached its maximum number of requests.
                    if response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"))
                    {
                        connection = Connection::plain(address);
                    }
                    if response.status != 200 {
                        failures.push(format!("{} {}", response.status, response.text()));
                    }
                }
                failures
            })
        };
        let clients = (0..2).map(client).collect();
        Self { stop, asked, clients }
    }

    /// Waits for `more` further requests.
    fn await_requests(&self, more: usize) {
        let before = self.asked.load(Ordering::Relaxed);
        await_until("the load", || self.asked.load(Ordering::Relaxed) >= before + more);
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        let failures: Vec<String> =
            self.clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
        assert!(failures.is_empty(), "{} failures, such as {:?}", failures.len(), failures.first());
        assert!(self.asked.load(Ordering::Relaxed) > 0);
    }
}

/// An application in an old and a new version.
struct Shop {
    folder: Folder,
    gateway: Gateway,
    old: Backend,
    new: Backend,
}

impl Shop {
    /// Starts with a main Ingress for Service `stable` and a canary Ingress for Service `canary`.
    fn open(canary: &Ingress) -> Self {
        let (old, new) = (Backend::echo("old"), Backend::echo("new"));
        let main = Ingress::new("shop").path(HOST, "/", "stable");
        let folder = Folder::with(main.text() + &service("stable") + &service("canary"));
        folder.write("stable.yaml", endpoints("stable", &[&old]));
        folder.write("next.yaml", endpoints("canary", &[&new]));
        folder.write("canary.yaml", canary.text());
        let gateway = Gateway::start(&folder);
        Self { folder, gateway, old, new }
    }

    fn canaries(&self) -> Value {
        let explained = self.gateway.ask(&format!("/explain?host={HOST}&path=/cart")).json();
        explained["taken"]["policies"]["canaries"].clone()
    }

    /// Writes the canary Ingress and waits until its weight is applied.
    fn step(&self, canary: &Ingress, weight: u32) {
        self.folder.write("canary.yaml", canary.text());
        await_until("the weight", || self.canaries()[0]["weight"] == weight);
    }

    fn get(&self, fields: &[(&str, &str)]) -> String {
        Connection::plain(self.gateway.http).request("GET", HOST, "/cart", fields, "").backend()
    }

    /// Returns how many of `of` requests each version receives without other load.
    fn counts(&self, of: usize) -> BTreeMap<String, usize> {
        let mut connection = Connection::plain(self.gateway.http);
        (0..of).fold(BTreeMap::new(), |mut counts, _| {
            *counts.entry(connection.get(HOST, "/cart").backend()).or_default() += 1;
            counts
        })
    }

    /// Asserts that the new version receives this percentage of all requests.
    fn expect_share(&self, load: &Load, percent: usize) {
        let seen = || (self.old.requests(), self.new.requests());
        let before = seen();
        load.await_requests(400);
        let after = seen();
        let (old, new) = (after.0 - before.0, after.1 - before.1);
        let expected = (old + new) * percent / 100;
        // Draws are exact per round of a hundred; the counts start and end within a round, with
        // requests in flight. Random draws would exceed this tolerance in every second run.
        assert!(new.abs_diff(expected) <= 8, "{new} of {}, {percent} %", old + new);
    }
}

/// Returns the canary Ingress that Argo Rollouts derives from `trafficRouting.nginx.stableIngress`.
fn argo(weight: u32) -> Ingress {
    Ingress::new("rollout-shop-canary")
        .path(HOST, "/", "canary")
        .annotation("canary", "true")
        .annotation("canary-weight", &weight.to_string())
}

/// Returns the canary Ingress that Flagger derives from `ingressRef`.
fn flagger(weight: u32) -> Ingress {
    Ingress::new("shop-canary")
        .path(HOST, "/", "canary")
        .annotation("canary", "true")
        .annotation("canary-weight", &weight.to_string())
}

#[test]
fn a_rollout_of_argo_loses_no_request_and_keeps_its_weights() {
    let shop = Shop::open(&argo(0));
    let load = Load::begin(&shop.gateway);
    for weight in [0, 20, 50, 100] {
        shop.step(&argo(weight), weight);
        shop.expect_share(&load, weight as usize);
    }
    // The promotion: the stable Service selects the new Pods, then the canary receives nothing.
    shop.folder.write("stable.yaml", endpoints("stable", &[&shop.new]));
    await_until("the new Pods", || {
        !shop.gateway.ask("/backends").text().contains(&shop.old.address.to_string())
    });
    shop.step(&argo(0), 0);
    shop.expect_share(&load, 100);
    load.end();
}

#[test]
fn weights_are_exact_over_every_hundred_requests() {
    let shop = Shop::open(&argo(0));
    for weight in [20, 50, 1, 99] {
        shop.step(&argo(weight), weight);
        let weight = weight as usize;
        let expected = BTreeMap::from([("new".to_owned(), weight), ("old".to_owned(), 100 - weight)]);
        for _ in 0..3 {
            assert_eq!(shop.counts(100), expected);
        }
    }
    for (weight, only) in [(100, "new"), (0, "old")] {
        shop.step(&argo(weight), weight);
        assert_eq!(shop.counts(50), BTreeMap::from([(only.to_owned(), 50)]));
    }
}

#[test]
fn an_analysis_of_flagger_goes_up_in_steps_and_back_at_once() {
    let shop = Shop::open(&flagger(0));
    let load = Load::begin(&shop.gateway);
    for weight in [10, 30, 50] {
        shop.step(&flagger(weight), weight);
        shop.expect_share(&load, weight as usize);
    }
    // The analysis fails: Flagger resets the weight, and the canary's Pods are removed.
    shop.step(&flagger(0), 0);
    shop.expect_share(&load, 0);
    shop.folder.remove("next.yaml");
    load.await_requests(50);
    load.end();
}

#[test]
fn an_experiment_of_flagger_routes_by_header_and_cookie() {
    let shop = Shop::open(&flagger(0));
    let load = Load::begin(&shop.gateway);
    let experiment = flagger(0)
        .annotation("canary-by-header", "x-user")
        .annotation("canary-by-header-value", "insider")
        .annotation("canary-by-cookie", "canary");
    shop.folder.write("canary.yaml", experiment.text());
    await_until("the experiment", || shop.get(&[("X-User", "insider")]) == "new");
    for (fields, version) in [
        (&[][..], "old"),
        (&[("X-User", "other")], "old"),
        (&[("Cookie", "canary=always")], "new"),
        (&[("X-User", "insider"), ("Cookie", "canary=never")], "new"),
    ] {
        assert_eq!(shop.get(fields), version, "{fields:?}");
    }
    // The end of the release: the annotations are removed.
    shop.folder.write("canary.yaml", flagger(0).text());
    await_until("the end", || shop.get(&[("X-User", "insider")]) == "old");
    load.end();
}

/// Older versions of Flagger disable the canary by an annotation, which makes it an ordinary
/// Ingress with the same host and path as the main one.
#[test]
fn a_canary_that_is_switched_off_leaves_the_main_ingress_alone() {
    let shop = Shop::open(&flagger(100));
    let load = Load::begin(&shop.gateway);
    let switched = flagger(0).created("2030-01-01T00:00:00Z").annotation("canary", "false");
    shop.folder.write("canary.yaml", switched.text());
    await_until("the main Ingress", || shop.get(&[]) == "old");
    shop.step(&flagger(50), 50);
    shop.expect_share(&load, 50);
    load.end();
}

#[test]
fn several_canaries_of_one_rule_have_a_share_each() {
    let shop = Shop::open(&argo(20));
    let third = Backend::echo("third");
    let other = Ingress::new("other")
        .path(HOST, "/", "third")
        .created("2030-01-01T00:00:00Z")
        .annotation("canary", "true")
        .annotation("canary-weight", "30")
        .annotation("canary-by-header", "x-third");
    shop.folder.write("third.yaml", other.text() + &service_with("third", &[&third]));
    await_until("both", || shop.canaries().as_array().is_some_and(|all| all.len() == 2));
    let expected = [("new", 40), ("old", 100), ("third", 60)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!(shop.counts(200), BTreeMap::from(expected));
    assert_eq!(shop.get(&[("X-Third", "always")]), "third");
    assert!((0..100).all(|_| shop.get(&[("X-Third", "never")]) != "third"));
    shop.folder.remove("third.yaml");
    await_until("one", || shop.canaries().as_array().is_some_and(|all| all.len() == 1));
    let expected = [("new", 40), ("old", 160)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!(shop.counts(200), BTreeMap::from(expected));
}
