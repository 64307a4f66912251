//! An edit costs what it changes, however much else there is.

use serde_json::{Value, json};
use sluice_controller::{Options, Stats};

use crate::support::*;

const OTHERS: usize = 1000;

fn crowded() -> World {
    let mut world = World::ready(Options::default());
    let certificate = tls_secret("shop-tls", &pair(&["shop.example"]));
    let mut shop = paths("shop.example", &["/"]);
    shop["tls"] = json!([{"hosts": ["shop.example"], "secretName": "shop-tls"}]);
    let others = (0..OTHERS).map(|n| ingress(&format!("other-{n}"), paths(&format!("h{n}.example"), &["/"])));
    let objects: Vec<Value> = others.chain([certificate, ingress("shop", shop)]).collect();
    let update = world.put(objects);
    assert_eq!((update.stats.ingresses, update.stats.hosts), (OTHERS + 1, OTHERS + 1));
    assert_eq!((update.stats.endpoints, update.stats.pools, update.stats.certificates), (1, 1, 1));
    world
}

#[test]
fn one_edit_recomputes_only_its_own_nodes() {
    let mut world = crowded();

    let addresses = json!(["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    let update =
        world.put([slice("web-1", "web", json!([{"name": "http", "port": 8080}]), addresses.clone())]);
    assert_eq!(update.stats, Stats { endpoints: 1, ..Stats::default() }, "1,001 Ingresses share the Service");
    let delta = update.delta.unwrap();
    assert_eq!(delta.endpoint_sets.len(), 1);
    assert!(delta.pools.is_empty() && delta.hosts.is_empty());

    let update = world.put([slice("web-1", "web", json!([{"name": "http", "port": 8080}]), addresses)]);
    assert_eq!((update.stats, update.delta), (Stats::default(), None), "nothing is different");

    let update = world.put([ingress("other-7", paths("h7.example", &["/", "/more"]))]);
    assert_eq!(update.stats, Stats { ingresses: 1, hosts: 1, ..Stats::default() });
    assert_eq!(update.delta.unwrap().hosts.len(), 1);

    let update = world.put([tls_secret("shop-tls", &pair(&["shop.example"]))]);
    assert_eq!(update.stats, Stats { certificates: 1, hosts: 1, ..Stats::default() });
    assert_eq!(update.delta.unwrap().certificates.len(), 1);

    let update = world.put([tls_secret("unrelated", &pair(&["shop.example"]))]);
    assert_eq!((update.stats, update.delta), (Stats::default(), None));

    let update = world.put([class("unrelated", "example.com/other")]);
    assert_eq!((update.stats, update.delta), (Stats::default(), None));
}

#[test]
fn nothing_is_translated_before_everything_is_known() {
    let mut world = World::new(Options::default());
    let object = world.event(ingress("shop", paths("shop.example", &["/"]))).unwrap();
    let update = world.controller.update(vec![object], false);
    assert!(update.delta.is_none() && update.problems.is_empty());
    assert_eq!(world.problems(), []);
    let update = world.put([]);
    assert!(update.delta.unwrap().complete && !update.problems.is_empty());
    assert!(world.controller.update(Vec::new(), true).delta.is_none());
}
