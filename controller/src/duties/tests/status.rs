//! Writes of the status of Ingresses, their rate, and the cleanup by a terminating replica.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use serde_json::{Value, json};
use sluice_config::{NamespacedName, Uid};
use tokio::time::{Instant, sleep};

use super::api::{Failure, SimulatedApi};
use super::{NAMESPACE, Replica, options, seconds};
use crate::cluster::DutyOptions;
use crate::store::{Address, IngressChange, IngressChanges};

/// Creates an Ingress with these addresses in its status and returns its path.
pub(super) fn ingress(api: &SimulatedApi, namespace: &str, name: &str, ips: &[&str]) -> String {
    let path = format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses/{name}");
    let addresses: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    let metadata = json!({"name": name, "namespace": namespace, "uid": format!("{namespace}/{name}")});
    let status = json!({"loadBalancer": {"ingress": addresses}});
    let kind = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress"});
    let mut object = json!({"metadata": metadata, "status": status});
    object.as_object_mut().unwrap().extend(kind.as_object().unwrap().clone());
    api.put(&path, object);
    path
}

/// Returns the change that a watch reports for an Ingress.
fn seen(object: &Value) -> IngressChange {
    let meta = |field: &str| object["metadata"][field].as_str().unwrap();
    let ingress = object["status"]["loadBalancer"]["ingress"].as_array().unwrap();
    let address = |one: &Value| Address { ip: one["ip"].as_str().unwrap().into(), hostname: Box::default() };
    let addresses: Arc<[Address]> = ingress.iter().map(address).collect();
    IngressChange::Seen {
        name: NamespacedName::new(meta("namespace"), meta("name")),
        uid: Some(Uid::new(meta("uid"))),
        addresses,
        version: meta("resourceVersion").parse().ok(),
        edited: false,
    }
}

/// Returns the Ingresses with `part` in their path as served ones.
pub(super) fn served(api: &SimulatedApi, part: &str) -> Vec<IngressChange> {
    let all = api.objects(part);
    let changes = all.iter().map(seen).flat_map(|change| {
        let IngressChange::Seen { name, .. } = &change else { panic!() };
        let name = name.clone();
        [change, IngressChange::Served(name, true)]
    });
    changes.collect()
}

pub(super) fn report(replica: &Replica, changes: Vec<IngressChange>, first: bool) {
    replica.news.ingresses(IngressChanges { first, changes });
}

/// Sends a replica the initial list, and later changes with the delay `lag`.
fn watched(api: &SimulatedApi, replica: &Replica, lag: Duration) {
    report(replica, served(api, "/ingresses/"), true);
    let (news, mut changes) = (replica.news.clone(), Box::pin(api.follow("/ingresses/")));
    tokio::spawn(async move {
        while let Some((_, object)) = changes.next().await {
            let news = news.clone();
            tokio::spawn(async move {
                sleep(lag).await;
                news.ingresses(IngressChanges { first: false, changes: vec![seen(&object)] });
            });
        }
    });
}

fn statuses(api: &SimulatedApi) -> BTreeSet<String> {
    let of = |object: Value| {
        let all = object["status"]["loadBalancer"]["ingress"].as_array().unwrap().clone();
        all.iter().map(|one| one["ip"].as_str().unwrap()).collect::<Vec<_>>().join(",")
    };
    api.objects("/ingresses/").into_iter().map(of).collect()
}

fn only(text: &str) -> BTreeSet<String> {
    [text.to_owned()].into()
}

/// All writes were repeated up to five times, which was reported as a contest with another writer.
#[tokio::test(start_paused = true)]
async fn every_status_is_written_once_also_with_a_slow_api_and_a_late_watch() {
    for lag in [0, 5, 30] {
        let api = SimulatedApi::new();
        api.set_latency(Duration::from_millis(20));
        for n in 0..400 {
            ingress(&api, &format!("n{}", n % 4), &format!("i{n}"), &[]);
        }
        let begun = Instant::now();
        let mut replica = Replica::start(&api, "a", options());
        replica.until_it_leads().await;
        watched(&api, &replica, Duration::from_secs(lag));
        while statuses(&api) != only("192.0.2.7") {
            sleep(Duration::from_millis(100)).await;
            assert!(begun.elapsed() < Duration::from_secs(60));
        }
        println!("400 written in {:?} with a lag of {lag} s", begun.elapsed());
        seconds(600).await;
        assert_eq!(api.asked(None, "PATCH", begun).len(), 400, "lag {lag}");
        assert_eq!(replica.problems(), "", "lag {lag}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_contest_is_one_problem_in_the_same_words_and_few_writes() {
    let api = SimulatedApi::new();
    let path = ingress(&api, "shop", "web", &[]);
    ingress(&api, "shop", "quiet", &[]);
    let mut replica = Replica::start(&api, "a", options());
    replica.until_it_leads().await;
    watched(&api, &replica, Duration::ZERO);
    let (other, begun) = (api.clone(), Instant::now());
    let rival = tokio::spawn(async move {
        let mut changes = Box::pin(other.follow(&path));
        while let Some((_, mut object)) = changes.next().await {
            let ingress = &mut object["status"]["loadBalancer"]["ingress"];
            if *ingress != json!([{"ip": "198.51.100.1"}]) {
                *ingress = json!([{"ip": "198.51.100.1"}]);
                other.put(&path, object);
            }
        }
    });
    let mut told = BTreeSet::new();
    for _ in 0..3600 {
        seconds(1).await;
        told.insert(replica.problems());
    }
    told.remove("");
    assert_eq!(told.len(), 1, "{told:?}");
    let problem = told.first().unwrap();
    assert!(problem.contains("[StatusContested]") && problem.lines().count() == 1, "{problem}");
    let count = api.asked(None, "PATCH", begun).len();
    assert!((50..=80).contains(&count), "{count} writes in an hour");
    rival.abort();
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_hangs_or_refuses_delays_the_status_of_no_other() {
    let right = "ingresses.networking.k8s.io \"i\" is forbidden: User \"a\" cannot patch resource";
    for failure in [
        Failure::Hang,
        Failure::Status(500, None, "failed calling webhook"),
        Failure::Status(429, Some(20), "later"),
        Failure::Status(403, None, right),
    ] {
        let api = SimulatedApi::new();
        for n in 0..50 {
            ingress(&api, "bad", &format!("i{n}"), &[]);
            ingress(&api, "shop", &format!("i{n}"), &[]);
        }
        api.fail(None, "/namespaces/bad/ingresses", failure.clone());
        let mut replica = Replica::start(&api, "a", options());
        replica.until_it_leads().await;
        watched(&api, &replica, Duration::ZERO);
        let begun = Instant::now();
        seconds(1).await;
        assert_eq!(api.asked(None, "/namespaces/shop/ingresses", begun).len(), 50, "{failure:?}");
        seconds(600).await;
        let count = api.asked(None, "/namespaces/bad/ingresses", begun).len();
        assert!((4..=20).contains(&count), "{failure:?}: {count} attempts in ten minutes");
        api.heal();
        seconds(400).await;
        assert_eq!(statuses(&api), only("192.0.2.7"), "{failure:?}");
        assert_eq!(replica.problems(), "", "{failure:?}");
    }
}

const LABELS: [(&str, &str); 3] = [
    ("app.kubernetes.io/name", "sluice"),
    ("app.kubernetes.io/instance", "edge"),
    ("app.kubernetes.io/component", "controller"),
];

/// Creates a Pod of the release with a version of the chart, on a node.
fn pod(api: &SimulatedApi, name: &str, version: &str, node: &str, ready: bool) -> String {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}");
    let mut labels = json!({"helm.sh/chart": format!("sluice-{version}"), "app.kubernetes.io/version": version,
        "pod-template-hash": version});
    labels.as_object_mut().unwrap().extend(LABELS.map(|(name, value)| (name.to_owned(), json!(value))));
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("edge-{version}"), "uid": version,
        "controller": true}]);
    let ready = if ready { "True" } else { "False" };
    api.put(
        &path,
        json!({"metadata": {"name": name, "namespace": NAMESPACE, "labels": labels, "ownerReferences": owner},
            "spec": {"nodeName": node, "containers": []},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}}),
    );
    path
}

fn deployment(api: &SimulatedApi, replicas: u32) {
    let path = format!("/apis/apps/v1/namespaces/{NAMESPACE}/deployments/edge");
    let template = json!({"metadata": {}, "spec": {"containers": []}});
    let spec = json!({"replicas": replicas, "selector": {}, "template": template});
    api.put(&path, json!({"metadata": {"name": "edge", "namespace": NAMESPACE}, "spec": spec}));
}

/// Starts a leader as Pod `a` with one Ingress, whose status it writes.
async fn leader(api: &SimulatedApi) -> Replica {
    ingress(api, "shop", "web", &[]);
    let mut replica = Replica::start(api, "a", options());
    replica.until_it_leads().await;
    watched(api, &replica, Duration::ZERO);
    seconds(5).await;
    assert_eq!(statuses(api), only("192.0.2.7"));
    replica
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_of_the_chart_does_not_clear_the_status() {
    let api = SimulatedApi::new();
    pod(&api, "a", "1.0.0", "n1", true);
    deployment(&api, 1);
    let replica = leader(&api).await;
    pod(&api, "b", "1.1.0", "n1", true);
    replica.end().await;
    assert_eq!(statuses(&api), only("192.0.2.7"));
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_ends_the_old_pod_first_does_not_clear_the_status() {
    let api = SimulatedApi::new();
    pod(&api, "a", "1.0.0", "n1", true);
    deployment(&api, 1);
    leader(&api).await.end().await;
    assert_eq!(statuses(&api), only("192.0.2.7"));
}

#[tokio::test(start_paused = true)]
async fn a_forced_deletion_and_missing_rights_do_not_clear_the_status() {
    let api = SimulatedApi::new();
    let own = pod(&api, "a", "1.0.0", "n1", true);
    deployment(&api, 0);
    let replica = leader(&api).await;
    api.delete(&own);
    replica.end().await;
    assert_eq!(statuses(&api), only("192.0.2.7"));

    for part in ["/pods", "/deployments"] {
        for failure in [Failure::Status(403, None, "no"), Failure::Status(500, None, "no"), Failure::Hang] {
            let api = SimulatedApi::new();
            pod(&api, "a", "1.0.0", "n1", true);
            deployment(&api, 0);
            api.fail(None, part, failure.clone());
            leader(&api).await.end().await;
            assert_eq!(statuses(&api), only("192.0.2.7"), "{part}: {failure:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_replica_of_all_clears_the_status() {
    let api = SimulatedApi::new();
    pod(&api, "a", "1.0.0", "n1", true);
    deployment(&api, 0);
    leader(&api).await.end().await;
    assert_eq!(statuses(&api), only(""));
}

#[tokio::test(start_paused = true)]
async fn a_rollout_keeps_all_node_addresses_across_a_leader_change() {
    let api = SimulatedApi::new();
    for n in 1..=3 {
        let addresses = json!([{"type": "InternalIP", "address": format!("10.0.0.{n}")}]);
        api.put(
            &format!("/api/v1/nodes/n{n}"),
            json!({"metadata": {"name": format!("n{n}")}, "status": {"addresses": addresses}}),
        );
    }
    let old: Vec<_> =
        (1..=3).map(|n| pod(&api, &format!("old{n}"), "1.0.0", &format!("n{n}"), true)).collect();
    deployment(&api, 3);
    ingress(&api, "shop", "web", &[]);
    let options = DutyOptions { status_update_interval: Duration::from_secs(5), ..DutyOptions::default() };
    let mut first = Replica::start(&api, "old1", options.clone());
    first.until_it_leads().await;
    watched(&api, &first, Duration::ZERO);
    seconds(10).await;
    let all = only("10.0.0.1,10.0.0.2,10.0.0.3");
    assert_eq!(statuses(&api), all);
    let begun = Instant::now();
    // The Pods of one node after the other are replaced, starting with the leader's.
    let mut leader = Some(first);
    for (n, old) in (1..=3).zip(old) {
        if let Some(first) = leader.take_if(|_| n == 1) {
            first.end().await;
        }
        api.delete(&old);
        let name = format!("new{n}");
        pod(&api, &name, "1.1.0", &format!("n{n}"), false);
        if n == 1 {
            let mut second = Replica::start(&api, "new1", options.clone());
            second.until_it_leads().await;
            watched(&api, &second, Duration::ZERO);
            leader = Some(second);
        }
        seconds(30).await;
        pod(&api, &name, "1.1.0", &format!("n{n}"), true);
        seconds(10).await;
    }
    assert_eq!(statuses(&api), all);
    assert_eq!(api.asked(None, "PATCH", begun).len(), 0, "no status was written");
    // A node that stays without a Pod is removed.
    api.delete(&format!("/api/v1/namespaces/{NAMESPACE}/pods/new3"));
    seconds(90).await;
    assert_eq!(statuses(&api), only("10.0.0.1,10.0.0.2"));
}
