//! Zone-aware routing: which endpoints hints leave, and when they do not count.

use serde_json::{Value, json};
use sluice_controller::Options;
use sluice_controller::store::Kind;

use crate::support::*;

fn options() -> Options {
    Options { enable_topology_aware_routing: true, node_name: Some("node-1".into()), ..Options::default() }
}

fn node(zone: Option<&str>) -> Value {
    let labels = zone.map(|zone| json!({"topology.kubernetes.io/zone": zone}));
    json!({"kind": "Node", "metadata": {"name": "node-1", "labels": labels}})
}

/// An endpoint with hints for zones and nodes, both between spaces.
fn endpoint(last: u8, zones: &str, nodes: &str) -> Value {
    let named =
        |names: &str| -> Vec<Value> { names.split_whitespace().map(|name| json!({"name": name})).collect() };
    json!({"addresses": [format!("10.0.0.{last}")], "zone": "any",
        "hints": {"forZones": named(zones), "forNodes": named(nodes)}})
}

fn web(endpoints: &[Value]) -> Value {
    slice("web-1", "web", json!([{"name": "http", "port": 8080}]), json!(endpoints))
}

/// The last numbers of the addresses that are used.
fn used(world: &World) -> String {
    let addresses = world.endpoints("web", "http").unwrap();
    let last = |address: &String| address.split(['.', ':']).nth(3).unwrap().to_owned();
    addresses.iter().map(last).collect::<Vec<_>>().join(" ")
}

fn world(options: Options) -> World {
    let mut world = World::ready(options);
    world.put([node(Some("a")), ingress("shop", paths("shop.example", &["/"]))]);
    world
}

#[test]
fn hints_select_the_own_zone_if_all_endpoints_have_some() {
    let mut world = world(options());
    for (endpoints, expected) in [
        (vec![endpoint(1, "a", ""), endpoint(2, "b", ""), endpoint(3, "b a", "")], "1 3"),
        (vec![endpoint(1, "b", ""), endpoint(2, "b", "")], "1 2"),
        (vec![endpoint(1, "a", ""), json!({"addresses": ["10.0.0.2"]})], "1 2"),
        (vec![endpoint(1, "a", ""), endpoint(2, "", "")], "1 2"),
        // Nodes come first, and zones count where no node does.
        (vec![endpoint(1, "a", "node-1"), endpoint(2, "a", "node-2")], "1"),
        (vec![endpoint(1, "a", "node-3"), endpoint(2, "b", "node-2")], "1"),
        (vec![endpoint(1, "a", "node-1"), endpoint(2, "b", "")], "1"),
        (vec![endpoint(1, "b", "node-1"), endpoint(2, "b", "")], "1 2"),
    ] {
        world.put([web(&endpoints)]);
        assert_eq!(used(&world), expected, "{endpoints:?}");
    }
    assert_eq!(world.problems(), []);
}

#[test]
fn only_ready_endpoints_count_and_hints_of_all_slices_together() {
    let mut world = world(options());
    let state = |mut endpoint: Value, ready: bool, terminating: bool| {
        endpoint["conditions"] = json!({"ready": ready, "serving": true, "terminating": terminating});
        endpoint
    };
    let (near, far) = (endpoint(1, "a", ""), endpoint(2, "b", ""));
    world.put([web(&[state(near.clone(), false, false), far.clone()])]);
    assert_eq!(used(&world), "2", "the near one is not ready");
    world.put([web(&[near.clone(), state(json!({"addresses": ["10.0.0.9"]}), false, false), far.clone()])]);
    assert_eq!(used(&world), "1", "one that is not ready needs no hint");
    world.put([web(&[state(near.clone(), false, true), state(far.clone(), false, true)])]);
    assert_eq!(used(&world), "1 2", "those that are being ended, if there is no other, wherever they are");
    let mut other = web(&[endpoint(3, "a", "")]);
    other["metadata"]["name"] = "web-2".into();
    world.put([web(&[near, far]), other.clone()]);
    assert_eq!(used(&world), "1 3");
    other["endpoints"][0]["hints"] = Value::Null;
    world.put([other]);
    assert_eq!(used(&world), "1 2 3", "an endpoint of another slice has no hint");
}

#[test]
fn the_zone_follows_the_node_and_without_one_all_are_used() {
    let mut world = World::ready(options());
    world.put([
        ingress("shop", paths("shop.example", &["/"])),
        web(&[endpoint(1, "a", ""), endpoint(2, "b", "")]),
    ]);
    assert_eq!(used(&world), "1 2");
    assert!(world.texts()[0].contains("Node node-1 does not exist or cannot be read"), "{:?}", world.texts());
    world.put([node(Some("b"))]);
    assert_eq!((used(&world).as_str(), world.problems()), ("2", vec![]));
    let update = world.put([node(Some("a"))]);
    assert_eq!((used(&world).as_str(), update.stats.endpoints, update.stats.hosts), ("1", 1, 0));
    world.put([node(None)]);
    assert_eq!(used(&world), "1 2");
    assert!(world.texts()[0].contains("has no label topology.kubernetes.io/zone"), "{:?}", world.texts());
    world.put([node(Some("a"))]);
    world.delete(Kind::Node, "node-1");
    assert_eq!(used(&world), "1 2");
    let unnamed = World::ready(Options { node_name: None, ..options() });
    assert!(unnamed.texts()[0].contains("NODE_NAME is not set"), "{:?}", unnamed.texts());
}

#[test]
fn without_the_flag_hints_and_nodes_mean_nothing() {
    let mut world = world(Options { enable_topology_aware_routing: false, ..options() });
    world.put([web(&[endpoint(1, "a", ""), endpoint(2, "b", "")])]);
    assert_eq!(used(&world), "1 2");
    let update = world.put([node(Some("b"))]);
    assert_eq!((update.stats.endpoints, update.stats.settings), (0, 0));
    assert_eq!(world.problems(), []);
}
