//! The ConfigMap as a whole: live changes, and what reaches the routes.

use serde_json::json;
use sluice_config::{Change, NamespacedName};
use sluice_controller::store::Kind;
use sluice_controller::{Controller, Options};

use crate::support::*;

fn world() -> World {
    let configmap = Some(NamespacedName::new("default", "controller"));
    World::ready(Options { configmap, ..Options::default() })
}

#[test]
fn a_configmap_that_is_not_there_is_missed_and_taken_up() {
    let mut world = world();
    assert!(world.texts()[0].contains("Flag --configmap: default/controller"), "{:?}", world.texts());
    let update = world.put([config_map(json!({"proxy-read-timeout": "7", "hsts": "false"}))]);
    let delta = update.delta.unwrap();
    assert_eq!(world.mirror.settings.proxy_read_timeout.as_secs(), 7);
    assert_eq!(world.mirror.settings.hsts, None);
    assert!(delta.hosts.is_empty() && delta.groups.is_empty());
    assert_eq!(world.problems(), []);
}

#[test]
fn a_deleted_configmap_keeps_its_protections() {
    let mut world = world();
    let protections =
        json!({"denylist-source-range": "203.0.113.0/24", "global-auth-url": "http://10.0.0.1/check"});
    world.put([config_map(protections.clone()), ingress("plain", paths("plain.example", &["/"]))]);
    let before = world.mirror.clone();
    let faults = world.texts();
    assert!(before.settings.global_auth.is_some(), "{faults:?}");

    let update = world.delete(Kind::ConfigMap, "controller");
    assert_eq!((update.delta, &world.mirror), (None, &before));
    let texts = world.texts();
    let lost =
        "error: Flag --configmap: default/controller: this ConfigMap was deleted; its last settings stay";
    assert!(texts.iter().any(|text| text.starts_with(lost)), "{texts:?}");
    // Also for what is translated later.
    world.put([ingress("late", paths("late.example", &["/"]))]);
    world.delete(Kind::Ingress, "late");
    assert_eq!(world.mirror, before);

    assert_eq!(world.put([config_map(protections)]).delta, None);
    assert_eq!(world.texts(), faults);
    world.put([config_map(json!({}))]);
    assert_eq!(world.mirror.settings.global_auth, None, "an empty one has the defaults");
}

#[test]
fn addresses_change_the_listeners_alone() {
    let mut world = world();
    let update = world.put([config_map(json!({"bind-address": "127.0.0.1"}))]);
    let delta = update.delta.unwrap();
    assert_eq!((delta.groups.len(), delta.settings), (1, None));
    let group = world.mirror.groups.values().next().unwrap();
    assert_eq!(group.binds[0].addresses, [std::net::IpAddr::from([127, 0, 0, 1])]);
    assert_eq!((group.binds[0].port, group.binds[1].port, group.binds[1].declared_port), (80, 443, 443));
}

#[test]
fn where_to_listen_waits_for_a_configmap_that_may_say_it() {
    let mut plain = Controller::new(Options::default());
    assert_eq!(plain.startup_delta().groups.len(), 1, "a busy port is known at the start");
    let options =
        Options { configmap: Some(NamespacedName::new("default", "controller")), ..Options::default() };
    for (data, addresses) in [(json!({"bind-address": "127.0.0.1"}), 1), (json!({}), 2)] {
        let mut world = World::new(options.clone());
        assert_eq!(world.mirror.groups.len(), 0, "nothing is bound that may have to be closed again");
        assert_eq!(world.controller.update(Vec::new(), false).delta.map(|delta| delta.groups), None);
        let groups = world.put([config_map(data)]).delta.unwrap().groups;
        let [Change::Put(_, group)] = &groups[..] else { panic!("{groups:?}") };
        assert_eq!(group.binds[0].addresses.len(), addresses);
        assert_eq!(world.put([class("other", "else/where")]).delta.map_or(0, |delta| delta.groups.len()), 0);
    }
}

#[test]
fn an_unimplemented_protecting_key_closes_everything() {
    let mut world = world();
    world.put([ingress("shop", paths("shop.example", &["/"]))]);
    world.put([config_map(json!({"global-auth-snippet": "deny all;"}))]);
    assert_eq!(world.rules("shop.example"), ["/ -> web:http (http) denied 503"]);
    world.put([config_map(json!({}))]);
    assert_eq!(world.rules("shop.example"), ["/ -> web:http (http)"]);
}

#[test]
fn gates_for_annotations_apply_live() {
    let mut world = world();
    let risky = json!({"nginx.ingress.kubernetes.io/affinity-mode": "persistent"});
    world.put([annotated("shop", risky, paths("shop.example", &["/"]))]);
    assert!(world.host("shop.example").is_some());
    world.put([config_map(json!({"annotations-risk-level": "Low"}))]);
    assert_eq!(world.rules("shop.example"), ["/ -> web:http (http) denied 404"]);
    assert!(world.texts()[0].contains("annotations-risk-level"), "{:?}", world.texts());
    world.put([config_map(json!({"annotations-risk-level": "Medium"}))]);
    assert_eq!(world.rules("shop.example"), ["/ -> web:http (http)"]);
}
