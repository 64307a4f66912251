//! TCP and UDP services: ports, ConfigMaps, rights and NetworkPolicy, with the values of chart
//! 4.15.1.

use serde_json::{Value, json};

use crate::helm::{object, objects, template_values};
use crate::rendered::{arguments, container, workload};
use crate::rights::rights_of;

fn render(values: &str) -> Vec<Value> {
    let image = "controller: {image: {repository: registry.example/sluice}}\n";
    let text = if values.contains("controller:") { values.to_owned() } else { format!("{image}{values}") };
    objects(&template_values(&text).unwrap_or_else(|message| panic!("{message}")))
}

const BOTH: &str = "tcp: {\"5432\": \"shop/db:5432\", \"6379\": \"shop/redis:6379:PROXY\"}\n\
                    udp: {\"53\": '{{ printf \"%s/dns\" .Release.Namespace }}:53'}\nportNamePrefix: edge\n";

#[test]
fn each_service_is_an_entry_of_a_configmap_that_a_flag_names() {
    let all = render(BOTH);
    let flags = arguments(&all);
    let of = |flag: &str| flags.iter().find_map(|argument| argument.strip_prefix(flag)).expect(flag);
    let [tcp, udp] = ["--tcp-services-configmap=", "--udp-services-configmap="].map(of);
    let map = |flag: &str| object(&all, "ConfigMap", flag.strip_prefix("$(POD_NAMESPACE)/").expect(flag));
    assert_eq!(map(tcp)["data"], json!({"5432": "shop/db:5432", "6379": "shop/redis:6379:PROXY"}));
    let namespace = workload(&all)["metadata"]["namespace"].as_str().expect("a namespace");
    assert_eq!(map(udp)["data"], json!({"53": format!("{namespace}/dns:53")}), "entries are templates");
    let none = render("tcp: {}\n");
    assert!(arguments(&none).iter().all(|argument| !argument.contains("-services-configmap")));
}

#[test]
fn each_service_has_its_port_in_pod_services_and_policy() {
    let values = format!(
        "controller:\n  image: {{repository: registry.example/sluice}}\n  hostPort: {{enabled: true}}\n  \
         networkPolicy: {{enabled: true}}\n  service:\n    type: NodePort\n    nodePorts:\n      \
         tcp: {{\"5432\": 30432}}\n      udp: {{\"53\": 30053}}\n    internal:\n      enabled: true\n      \
         annotations: {{a: b}}\n      nodePorts: {{tcp: {{\"6379\": 30379}}}}\n{BOTH}"
    );
    let all = render(&values);
    let port = |ports: &Value, name: &str| {
        let ports = ports.as_array().expect("ports");
        ports.iter().find(|port| port["name"] == name).unwrap_or_else(|| panic!("no {name}")).clone()
    };
    let own = &container(&all)["ports"];
    assert_eq!(
        port(own, "edge-53-udp"),
        json!({"name": "edge-53-udp", "protocol": "UDP", "containerPort": 53, "hostPort": 53})
    );
    assert_eq!(port(own, "edge-5432-tcp")["containerPort"], 5432);
    let main = &object(&all, "Service", "gateway-sluice-controller")["spec"]["ports"];
    let internal = &object(&all, "Service", "gateway-sluice-controller-internal")["spec"]["ports"];
    assert_eq!(
        port(main, "edge-5432-tcp"),
        json!({"name": "edge-5432-tcp", "protocol": "TCP", "port": 5432, "targetPort": "edge-5432-tcp",
            "nodePort": 30432})
    );
    assert_eq!(port(main, "edge-53-udp")["nodePort"], 30053);
    assert_eq!(port(main, "edge-6379-tcp")["nodePort"], Value::Null);
    assert_eq!(port(internal, "edge-6379-tcp")["nodePort"], 30379);
    let policy = &object(&all, "NetworkPolicy", "gateway-sluice-controller")["spec"]["ingress"][0]["ports"];
    for admitted in [json!({"protocol": "UDP", "port": 53}), json!({"protocol": "TCP", "port": 6379})] {
        assert!(policy.as_array().expect("ports").contains(&admitted), "{policy}");
    }
}

#[test]
fn a_low_port_of_a_service_can_be_bound() {
    let high = "controller:\n  image: {repository: registry.example/sluice}\n  \
                containerPort: {http: 8080, https: 8443}\n";
    let sysctls = |values: &str| {
        workload(&render(values))["spec"]["template"]["spec"]["securityContext"]["sysctls"].clone()
    };
    assert_eq!(sysctls(high), Value::Null);
    let start = json!([{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]);
    assert_eq!(sysctls(&format!("{high}udp: {{\"53\": a/b:53}}\n")), start);
    // Without a port of its own, HTTPS is served on 443.
    assert_eq!(sysctls(&high.replace("8443", "8080")), start);
}

/// A ConfigMap there exists already and does not belong to the release, so Helm refused to install.
#[test]
fn a_configmap_elsewhere_is_the_operators_and_can_be_read_there() {
    let all = render(
        "controller:\n  image: {repository: registry.example/sluice}\n  scope: {enabled: true}\n  \
         configMapNamespace: routing\n  tcp: {configMapNamespace: routing, annotations: {team: edge}}\n\
         tcp: {\"5432\": shop/db:5432}\n",
    );
    let rights = rights_of(&all, "controller", "Role", Some("routing"));
    for (flag, name) in
        [("configmap", "gateway-sluice-controller"), ("tcp-services-configmap", "gateway-sluice-tcp")]
    {
        let map = object(&all, "ConfigMap", name);
        assert_eq!(map["metadata"]["namespace"], "edge", "{name}");
        assert!(arguments(&all).contains(&format!("--{flag}=routing/{name}").as_str()), "{name}");
        for verb in ["list", "watch"] {
            assert!(rights.contains(&format!("{verb} /configmaps [{name}]")), "{rights:?}");
        }
    }
    let map = object(&all, "ConfigMap", "gateway-sluice-tcp");
    assert_eq!(map["metadata"]["annotations"], json!({"team": "edge"}));
}

#[test]
fn a_low_port_of_the_webhook_can_be_bound() {
    let high = "  image: {repository: registry.example/sluice}\n  containerPort: {http: 8080, https: 8443}\n";
    let pod = |more: &str, below: &str| {
        let all = render(&format!("controller:\n{high}{more}{below}"));
        workload(&all)["spec"]["template"]["spec"].clone()
    };
    assert_eq!(pod("", "")["securityContext"]["sysctls"], Value::Null);
    let start = json!([{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]);
    for (more, below) in [
        ("  admissionWebhooks: {port: 443}\n", ""),
        ("  metrics: {port: 900}\n", ""),
        ("  extraArgs: {healthz-port: 900}\n", ""),
        ("  extraArgs: {admin-address: \"127.0.0.1:900\"}\n", ""),
        ("", "replicaLimits: {enabled: true, port: 900}\n"),
    ] {
        assert_eq!(pod(more, below)["securityContext"]["sysctls"], start, "{more}{below}");
    }
    let on_host = pod("  hostNetwork: true\n  admissionWebhooks: {port: 443}\n", "");
    let context = &on_host["containers"][0]["securityContext"];
    assert_eq!(
        (&context["runAsUser"], &context["capabilities"]["add"][0]),
        (&0.into(), &"NET_BIND_SERVICE".into())
    );
}
