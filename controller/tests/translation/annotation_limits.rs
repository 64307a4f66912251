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

#[test]
fn rules_for_the_engine_of_the_configmap_close_while_snippets_are_off() {
    let configmap = Some(NamespacedName::new("default", "controller"));
    let waf_agent = Some("127.0.0.1:9913".parse().unwrap());
    let mut world = World::ready(Options { configmap, waf_agent, ..Options::default() });
    let rule = "SecRule ARGS \"@contains evil\" \"id:1,phase:2,deny\"";
    let shop = |annotations: &[(&str, &str)]| with("shop", annotations, paths("shop.example", &["/"]));
    let firewall = |engine: &str| json!({"enable-modsecurity": "true", "modsecurity-snippet": engine});
    let (open, closed) = ("/ -> web:http (http)", "/ -> web:http (http) denied 503");
    world.put([config_map(firewall("SecRuleEngine DetectionOnly")), shop(&[("modsecurity-snippet", rule)])]);
    assert_eq!(world.rules("shop.example"), [open], "nothing would be refused");
    world.put([config_map(firewall("SecRuleEngine On"))]);
    assert_eq!(world.rules("shop.example"), [closed]);
    let texts = world.texts();
    assert!(texts.iter().any(|text| text.contains("of the ConfigMap switches the engine on")), "{texts:?}");
    let include = "Include /etc/other.conf";
    for (annotations, expected) in [
        (&[("modsecurity-snippet", include)][..], closed),
        (&[("modsecurity-snippet", "SecRuleUpdateActionById 942100 \"deny\"")], closed),
        (&[("modsecurity-snippet", "SecRuleRemoveById 942100\nSecAuditEngine Off")], open),
        (&[("modsecurity-snippet", &format!("SecRuleEngine DetectionOnly\n{rule}"))], open),
        (&[("modsecurity-snippet", rule), ("enable-modsecurity", "false")], open),
        (&[("modsecurity-snippet", rule), ("enable-modsecurity", "true")], closed),
    ] {
        world.put([shop(annotations)]);
        assert_eq!(world.rules("shop.example"), [expected], "{annotations:?}");
    }
    let mut data = firewall("SecRuleEngine On");
    data["allow-snippet-annotations"] = "true".into();
    data["annotations-risk-level"] = "Critical".into();
    world.put([config_map(data)]);
    assert_eq!(world.rules("shop.example"), [open], "its rules are in force");
    world.put([
        config_map(json!({"modsecurity-snippet": "SecRuleEngine On"})),
        shop(&[("modsecurity-snippet", rule)]),
    ]);
    assert_eq!(world.rules("shop.example"), [open], "the ConfigMap has no firewall");
}
