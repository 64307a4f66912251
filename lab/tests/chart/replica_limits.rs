//! Limits of clients that apply to all replicas together.

use serde_json::{Value, json};

use crate::helm::{objects, template_values};
use crate::rendered::{arguments, case};

const NAME: &str = "gateway-sluice-controller-replicas";

fn find<'a>(all: &'a [Value], kind: &str, name: &str) -> Option<&'a Value> {
    all.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
}

#[test]
fn replicas_find_each_other_and_share_a_certificate() {
    let all = case("replica-limits");
    let service = find(&all, "Service", NAME).expect("the Service");
    assert_eq!(service["spec"]["clusterIP"], "None");
    assert_eq!(service["spec"]["publishNotReadyAddresses"], true);
    let port = json!({"name": "replicas", "protocol": "TCP", "port": 10253, "targetPort": "replicas"});
    assert_eq!(service["spec"]["ports"], json!([port]));
    let secret = find(&all, "Secret", NAME).expect("the Secret");
    assert_eq!(secret["type"], "kubernetes.io/tls");
    for key in ["ca.crt", "tls.crt", "tls.key"] {
        assert!(secret["data"][key].as_str().is_some_and(|text| text.len() > 500), "{key}");
    }
    let arguments = arguments(&all);
    for argument in [
        "--replica-service=$(POD_NAMESPACE)/gateway-sluice-controller-replicas",
        "--replica-secret=$(POD_NAMESPACE)/gateway-sluice-controller-replicas",
        "--replica-address=:10253",
    ] {
        assert!(arguments.contains(&argument), "{argument}: {arguments:?}");
    }
    let config = find(&all, "ConfigMap", "gateway-sluice-controller").expect("the ConfigMap");
    assert_eq!(config["data"]["limit-across-replicas"], "true");
}

#[test]
fn only_replicas_may_connect_to_the_port() {
    let all = case("replica-limits");
    let policy = find(&all, "NetworkPolicy", "gateway-sluice-controller").expect("the NetworkPolicy");
    let rules = policy["spec"]["ingress"].as_array().expect("rules");
    let with_port: Vec<&Value> = rules
        .iter()
        .filter(|rule| {
            rule["ports"].as_array().is_some_and(|ports| ports.iter().any(|port| port["port"] == 10253))
        })
        .collect();
    assert_eq!(with_port.len(), 1);
    let selector = &with_port[0]["from"][0]["podSelector"]["matchLabels"];
    assert_eq!(selector["app.kubernetes.io/component"], "controller");
}

#[test]
fn a_secret_of_the_operator_is_used_and_none_is_created() {
    let values = "controller: {image: {repository: registry.example/sluice}}\n\
                  replicaLimits: {enabled: true, secretName: mine}\n";
    let all = objects(&template_values(values).unwrap_or_else(|message| panic!("{message}")));
    assert!(arguments(&all).contains(&"--replica-secret=$(POD_NAMESPACE)/mine"));
    assert!(find(&all, "Secret", NAME).is_none());
    let none = case("default");
    assert!(find(&none, "Service", NAME).is_none());
    assert!(!arguments(&none).iter().any(|argument| argument.contains("replica")));
}

#[test]
fn a_gateway_that_does_not_see_its_replicas_is_refused() {
    let values = "controller: {image: {repository: registry.example/sluice}, scope: {enabled: true, namespace: shop}}\n\
                  replicaLimits: {enabled: true}\n";
    let refused = template_values(values).expect_err("another namespace");
    assert!(refused.contains("replicaLimits.enabled"), "{refused}");
}
