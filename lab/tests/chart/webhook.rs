//! The Ingresses that the API server sends to the webhook: only those that the gateway can serve,
//! because changes of others must not depend on it.

use serde_json::{Value, json};

use crate::helm::{helm, object, objects, template_values};
use crate::rendered::workload;

fn webhook(more: &str) -> Value {
    let values = format!("controller:\n  image: {{repository: r/sluice}}\n{more}");
    let all = objects(&template_values(&values).unwrap_or_else(|message| panic!("{values}\n{message}")));
    object(&all, "ValidatingWebhookConfiguration", "edge-gateway-sluice-admission")["webhooks"][0].clone()
}

#[test]
fn the_webhook_reviews_the_namespaces_that_are_served() {
    let selector = |more: &str| webhook(more)["namespaceSelector"].clone();
    assert_eq!(selector(""), Value::Null);
    let one = |name: &str| json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
    assert_eq!(selector("  scope: {enabled: true}\n"), one("edge"));
    assert_eq!(selector("  scope: {enabled: true, namespace: shop}\n"), one("shop"));
    assert_eq!(selector("  extraArgs: {watch-namespace: shop}\n"), one("shop"));
    let own = "  scope: {enabled: true}\n  admissionWebhooks: {namespaceSelector: {matchLabels: {a: b}}}\n";
    assert_eq!(selector(own), json!({"matchLabels": {"a": "b"}}));
}

#[test]
fn the_webhook_reviews_the_namespaces_that_a_selector_selects() {
    let expressions = |selector: &str| {
        let of_scope = webhook(&format!("  scope: {{namespaceSelector: '{selector}'}}\n"));
        let of_flag = webhook(&format!("  extraArgs: {{watch-namespace-selector: '{selector}'}}\n"));
        assert_eq!(of_scope["namespaceSelector"], of_flag["namespaceSelector"]);
        of_scope["namespaceSelector"]["matchExpressions"].clone()
    };
    let is = |key: &str, operator: &str, values: Option<&[&str]>| match values {
        Some(values) => json!({"key": key, "operator": operator, "values": values}),
        None => json!({"key": key, "operator": operator}),
    };
    for (selector, expected) in [
        ("env=prod", vec![is("env", "In", Some(&["prod"]))]),
        (
            "env == prod , tier!=db",
            vec![is("env", "In", Some(&["prod"])), is("tier", "NotIn", Some(&["db"]))],
        ),
        (
            "a.example/env in(prod, test),b notin (x)",
            vec![is("a.example/env", "In", Some(&["prod", "test"])), is("b", "NotIn", Some(&["x"]))],
        ),
        ("in in (in)", vec![is("in", "In", Some(&["in"]))]),
        ("notin", vec![is("notin", "Exists", None)]),
        ("edge,!legacy", vec![is("edge", "Exists", None), is("legacy", "DoesNotExist", None)]),
        ("empty=", vec![is("empty", "In", Some(&[""]))]),
        // Object selectors cannot compare numbers: the gateway itself ignores those namespaces.
        ("age>3,edge", vec![is("edge", "Exists", None)]),
    ] {
        assert_eq!(expressions(selector), Value::from(expected), "{selector}");
    }
}

#[test]
fn the_webhook_reviews_the_classes_that_are_served() {
    let condition = |more: &str| {
        let conditions = webhook(more)["matchConditions"].clone();
        assert_eq!(conditions.as_array().expect("conditions").len(), 1);
        conditions[0]["expression"].as_str().expect("an expression").to_owned()
    };
    let field = |names: &str| format!("object.spec.ingressClassName in {names})");
    let annotation =
        |texts: &str| format!("object.metadata.annotations[\"kubernetes.io/ingress.class\"] in {texts})");
    let plain = condition("");
    assert!(plain.contains(&field(r#"["nginx"]"#)) && plain.contains(&annotation(r#"["nginx"]"#)), "{plain}");
    assert!(!plain.contains("|| (!("), "an Ingress without a class is not served: {plain}");
    let more = condition(
        "  ingressClass: web\n  ingressClassResource: {name: public, aliases: [old]}\n  \
         admissionWebhooks: {additionalClasses: [mine]}\n",
    );
    assert!(more.contains(&field(r#"["public","old","mine"]"#)), "{more}");
    assert!(more.contains(&annotation(r#"["web"]"#)), "{more}");
    let by_name = condition("  ingressClass: web\n  ingressClassByName: true\n");
    assert!(by_name.contains(&field(r#"["nginx","web"]"#)), "{by_name}");
    for classless in
        ["  watchIngressWithoutClass: true\n", "  extraArgs: {watch-ingress-without-class: \"\"}\n"]
    {
        let condition = condition(classless);
        assert!(condition.contains(&annotation(r#"["nginx",""]"#)), "{condition}");
        assert!(condition.contains("|| (!("), "{condition}");
    }
}

/// Secrets for ingress-nginx have the keys `cert` and `key`.
#[test]
fn a_secret_of_the_operator_is_mounted_with_its_own_keys() {
    let volume = |more: &str| {
        let values =
            format!("controller:\n  image: {{repository: r/sluice}}\n  admissionWebhooks: {{{more}}}\n");
        let all = objects(&template_values(&values).unwrap_or_else(|message| panic!("{values}\n{message}")));
        let volumes =
            workload(&all)["spec"]["template"]["spec"]["volumes"].as_array().expect("volumes").clone();
        volumes.into_iter().find(|volume| volume["name"] == "webhook-cert").expect("a volume")
    };
    let name = "gateway-sluice-admission";
    let items = json!([{"key": "tls.crt", "path": "cert"}, {"key": "tls.key", "path": "key"}]);
    let own = volume("patch: {enabled: false}");
    assert_eq!(
        own["projected"]["sources"],
        json!([
            {"secret": {"name": name, "optional": true}},
            {"secret": {"name": name, "optional": true, "items": items}},
        ])
    );
    for more in ["", "patch: {enabled: false}, certManager: {enabled: true}"] {
        assert_eq!(volume(more)["secret"], json!({"secretName": name, "optional": true, "items": items}));
    }
}

/// API servers before 1.28 reject the field.
#[test]
fn an_old_api_server_gets_no_conditions() {
    let before = ["template", "gateway", "--kube-version", "1.27.0"];
    let rendered = helm(&before, &["--set", "controller.image.repository=r/sluice"]).expect("it renders");
    assert!(rendered.contains("ValidatingWebhookConfiguration") && !rendered.contains("matchConditions"));
}
