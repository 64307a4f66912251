//! The agent of the web application firewall beside the gateway.

use serde_json::{Value, json};

use crate::helm::{objects, template_values};
use crate::rendered::{arguments, case, workload};

fn pod(all: &[Value]) -> &Value {
    &workload(all)["spec"]["template"]["spec"]
}

#[test]
fn the_agent_starts_before_the_gateway_without_any_rights() {
    let all = case("waf");
    assert!(arguments(&all).contains(&"--waf-agent=127.0.0.1:9913"));
    let agent = &pod(&all)["initContainers"][0];
    assert_eq!((&agent["name"], &agent["restartPolicy"]), (&json!("waf-agent"), &json!("Always")));
    assert_eq!(agent["args"], json!(["--listen=127.0.0.1:9913", "--max-configurations=32"]));
    let context = &agent["securityContext"];
    assert_eq!(context["readOnlyRootFilesystem"], true);
    assert_eq!(
        (&context["runAsNonRoot"], &context["allowPrivilegeEscalation"]),
        (&json!(true), &json!(false))
    );
    assert_eq!(context["capabilities"], json!({"drop": ["ALL"]}));
    assert_eq!(agent["resources"]["limits"]["memory"], "1Gi");
    assert_eq!(agent["volumeMounts"], json!([{"name": "sluice-waf-bodies", "mountPath": "/tmp"}]));
    let volumes = pod(&all)["volumes"].as_array().expect("volumes");
    assert!(volumes.contains(&json!({"name": "sluice-waf-bodies", "emptyDir": {"sizeLimit": "256Mi"}})));
}

#[test]
fn without_the_switch_there_is_no_agent() {
    let all = case("default");
    assert!(!arguments(&all).iter().any(|argument| argument.contains("waf")));
    assert!(pod(&all)["initContainers"].is_null());
}

#[test]
fn init_containers_of_the_operator_come_first() {
    let values = "controller:\n  image: {repository: registry.example/sluice}\n  extraInitContainers: [{name: mine, image: x}]\n\
                  waf: {enabled: true, port: 9999, image: {registry: registry.example}}\n";
    let all = objects(&template_values(values).unwrap_or_else(|message| panic!("{message}")));
    let containers = pod(&all)["initContainers"].as_array().expect("containers");
    let names: Vec<&Value> = containers.iter().map(|container| &container["name"]).collect();
    assert_eq!(names, ["mine", "waf-agent"]);
    assert_eq!(containers[1]["image"], "registry.example/sluice-waf-agent:0.1.0");
    assert!(arguments(&all).contains(&"--waf-agent=127.0.0.1:9999"));
}

#[test]
fn an_agent_without_an_image_is_refused() {
    let values = "controller: {image: {repository: registry.example/sluice}}\nwaf: {enabled: true}\n";
    let refused = template_values(values).expect_err("no image");
    assert!(refused.contains("waf.image.repository"), "{refused}");
}
