//! The gateway's rights, which are exactly those that the values require, and its Lease.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::helm::{cases, objects, template_values};
use crate::rendered::{arguments, case, container, rendered};

/// Returns the rights of the gateway.
fn rights(all: &[Value], kind: &str, namespace: Option<&str>) -> BTreeSet<String> {
    rights_of(all, "controller", kind, namespace)
}

/// Returns the rights of a component's roles as `verb group/resource`, with a single name in
/// brackets.
pub(crate) fn rights_of(
    all: &[Value],
    component: &str,
    kind: &str,
    namespace: Option<&str>,
) -> BTreeSet<String> {
    let roles = all.iter().filter(|object| {
        object["kind"] == kind
            && object["metadata"]["labels"]["app.kubernetes.io/component"] == component
            && namespace.is_none_or(|name| object["metadata"]["namespace"] == name)
    });
    let mut rights = BTreeSet::new();
    for rule in roles.flat_map(|role| role["rules"].as_array().expect("rules")) {
        let texts = |field: &str| -> Vec<&str> {
            rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
        };
        let only = texts("resourceNames").first().map(|name| format!(" [{name}]")).unwrap_or_default();
        for resource in texts("resources") {
            for verb in texts("verbs") {
                rights.insert(format!("{verb} {}/{resource}{only}", texts("apiGroups")[0]));
            }
        }
    }
    rights
}

const CLASSES: [&str; 2] =
    ["list networking.k8s.io/ingressclasses", "watch networking.k8s.io/ingressclasses"];

#[test]
fn a_gateway_of_one_namespace_reads_no_secret_of_another() {
    let all = case("one-namespace");
    let cluster = rights(&all, "ClusterRole", None);
    assert_eq!(cluster, CLASSES.map(str::to_owned).into());
    assert!(rights(&all, "Role", Some("shop")).contains("list /secrets"));
    let mut certificates: BTreeSet<String> =
        ["list", "watch"].map(|verb| format!("{verb} /secrets [wildcard]")).into();
    // Events about the Secret are written in its namespace.
    certificates.extend(["create /events", "patch /events"].map(str::to_owned));
    assert_eq!(rights(&all, "Role", Some("certificates")), certificates);
    let own = rights(&all, "Role", Some("edge"));
    assert!(own.contains("watch /configmaps [gateway-sluice-controller]"), "{own:?}");
    assert!(own.contains("list /services [gateway-sluice-defaultbackend]"), "{own:?}");
    assert!(
        !own.iter().any(|right| right.ends_with("/secrets") || right.ends_with("/configmaps")),
        "{own:?}"
    );
}

/// Without this right a terminating replica cannot distinguish an upgrade from an uninstallation.
#[test]
fn the_gateway_may_read_its_own_workload_and_no_other() {
    for (name, path) in cases() {
        let all = rendered(path.to_str().expect("a path"));
        let is_workload = |object: &&Value| {
            let component = &object["metadata"]["labels"]["app.kubernetes.io/component"];
            component == "controller" && (object["kind"] == "Deployment" || object["kind"] == "DaemonSet")
        };
        let workload = all.iter().find(is_workload).expect("a workload");
        let kind = workload["kind"].as_str().expect("a kind").to_lowercase();
        let object = workload["metadata"]["name"].as_str().expect("a name");
        let expected = format!("get apps/{kind}s [{object}]");
        let rights = rights(&all, "Role", None);
        let found: Vec<&String> = rights.iter().filter(|right| right.contains(" apps/")).collect();
        assert_eq!(found, [&expected], "{name}");
    }
}

#[test]
fn without_rights_to_the_cluster_there_are_roles_alone() {
    let all = case("no-cluster-rights");
    assert!(rights(&all, "ClusterRole", None).is_empty());
    let of_the_gateway =
        |object: &Value| object["metadata"]["labels"]["app.kubernetes.io/component"] == "controller";
    assert!(!all.iter().any(|object| object["kind"] == "ClusterRoleBinding" && of_the_gateway(object)));
    assert!(rights(&all, "Role", Some("edge")).contains("watch networking.k8s.io/ingresses"));
    assert!(arguments(&all).contains(&"--ingress-class-by-name=true"));
}

#[test]
fn only_a_zone_aware_gateway_has_its_node_name_and_reads_nodes() {
    let nodes = ["list /nodes", "watch /nodes"];
    for (name, path) in cases() {
        let all = rendered(path.to_str().expect("a path"));
        let is_aware = arguments(&all).contains(&"--enable-topology-aware-routing=true");
        assert_eq!(is_aware, name == "zones-values");
        let rights = rights(&all, "ClusterRole", None);
        assert_eq!(nodes.iter().all(|right| rights.contains(*right)), is_aware, "{name}: {rights:?}");
        let environment = container(&all)["env"].as_array().expect("an environment");
        let node = environment.iter().find(|one| one["name"] == "NODE_NAME");
        let field = node.map(|node| &node["valueFrom"]["fieldRef"]["fieldPath"]);
        assert_eq!(field, is_aware.then_some(&json!("spec.nodeName")), "{name}");
    }
}

/// Only `false` was read as off, so the gateway had rights that it did not use, or lacked others.
#[test]
fn a_switch_is_off_in_every_spelling_of_false() {
    let with = |flag: &str, value: &str| {
        let values =
            format!("controller: {{image: {{repository: r/sluice}}, extraArgs: {{{flag}: {value}}}}}");
        objects(&template_values(&values).unwrap_or_else(|message| panic!("{values}\n{message}")))
    };
    for (off, spelled) in [
        (true, ["false", "\"false\"", "FALSE", "False", "F", "f", "0"]),
        (false, ["true", "\"true\"", "TRUE", "True", "T", "1", "\"\""]),
    ] {
        for value in spelled {
            let all = with("update-status", value);
            let status =
                rights(&all, "ClusterRole", None).contains("patch networking.k8s.io/ingresses/status");
            let all = with("update-status-on-shutdown", value);
            let clears =
                rights(&all, "Role", None).contains("get apps/deployments [gateway-sluice-controller]");
            let all = with("disable-leader-election", value);
            let elects = rights(&all, "Role", None).contains("create coordination.k8s.io/leases");
            let all = with("enable-topology-aware-routing", value);
            let nodes = rights(&all, "ClusterRole", None).contains("watch /nodes");
            assert_eq!((status, clears, elects, nodes), (!off, !off, off, !off), "{value}");
            if !off {
                // It is on by default, and refused only if it is off.
                with("profiling", value);
            }
        }
    }
}

#[test]
fn the_published_service_may_be_watched_with_a_scope() {
    let values = "controller: {image: {repository: r/sluice}, scope: {enabled: true, namespace: shop}}";
    let all = objects(&template_values(values).expect("it renders"));
    let rights = rights(&all, "Role", Some("edge"));
    for verb in ["get", "watch"] {
        let right = format!("{verb} /services [gateway-sluice-controller]");
        assert!(rights.contains(&right), "{right}: {rights:?}");
    }
}

/// A Lease created by the program would outlive the release.
#[test]
fn the_lease_is_an_object_of_the_release_without_a_holder() {
    for (name, path) in cases() {
        let all = rendered(path.to_str().expect("a path"));
        let arguments = arguments(&all);
        let id =
            arguments.iter().find_map(|argument| argument.strip_prefix("--election-id=")).expect("a name");
        let leases: Vec<&Value> = all.iter().filter(|object| object["kind"] == "Lease").collect();
        assert_eq!(leases.len(), 1, "{name}");
        assert_eq!(leases[0]["metadata"]["name"], id, "{name}");
        assert_eq!(leases[0]["spec"], Value::Null, "{name}: an upgrade would take it from its holder");
    }
}

#[test]
fn no_rule_has_a_star_and_none_may_write_what_it_serves() {
    for (name, path) in cases() {
        let all = rendered(path.to_str().expect("a path"));
        for right in rights(&all, "ClusterRole", None).union(&rights(&all, "Role", None)) {
            assert!(!right.contains('*') && !right.contains("delete"), "{name}: {right}");
            let writes = ["create ", "update ", "patch "].iter().any(|verb| right.starts_with(verb));
            let allowed = [" /events", "networking.k8s.io/ingresses/status", "coordination.k8s.io/leases"];
            assert!(!writes || allowed.iter().any(|what| right.contains(what)), "{name}: {right}");
        }
    }
}
