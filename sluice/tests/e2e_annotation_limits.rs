//! Restrictions of annotations and paths by the operator: `annotations-risk-level`,
//! `annotation-value-word-blocklist` and `strict-validate-path-type`.

use crate::harness::manifest::service_with;
use crate::harness::{Backend, Folder, Gateway, Ingress, await_until, config_map, get};

const HOST: &str = "shop.example";
const CONFIG: &str = "ingress-nginx/controller";

fn start(ingress: &Ingress) -> (Backend, Folder, Gateway) {
    let backend = Backend::echo("shop");
    let folder = Folder::with(ingress.text() + &service_with("shop", &[&backend]));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    (backend, folder, gateway)
}

fn operator(folder: &Folder, keys: &[(&str, &str)]) {
    folder.write("config.yaml", config_map(CONFIG, keys));
}

fn status(gateway: &Gateway) -> u16 {
    get(gateway.http, HOST, "/").status
}

#[test]
fn an_annotation_of_a_higher_risk_rejects_its_ingress_until_it_is_allowed() {
    // The annotation has a high risk, which is allowed by default.
    let ingress = Ingress::new("shop").path(HOST, "/", "shop").annotation("upstream-hash-by", "$request_uri");
    let (_backend, folder, gateway) = start(&ingress);
    assert_eq!(status(&gateway), 200);
    operator(&folder, &[("annotations-risk-level", "Medium")]);
    await_until("it to be rejected", || status(&gateway) == 404);
    let problems = gateway.problems();
    assert!(
        problems.contains("upstream-hash-by") && problems.contains("annotations-risk-level"),
        "{problems}"
    );
    operator(&folder, &[("annotations-risk-level", "Critical")]);
    await_until("it to be allowed", || status(&gateway) == 200);
    await_until("the problem to be resolved", || !gateway.problems().contains("upstream-hash-by"));
}

#[test]
fn a_word_of_the_blocklist_rejects_the_ingress_that_has_it() {
    let ingress = Ingress::new("shop").path(HOST, "/", "shop").annotation("auth-realm", "the by_lua vault");
    let (_backend, folder, gateway) = start(&ingress);
    assert_eq!(status(&gateway), 200);
    operator(&folder, &[("annotation-value-word-blocklist", "load_module,by_lua")]);
    await_until("it to be rejected", || status(&gateway) == 404);
    let problems = gateway.problems();
    assert!(problems.contains("auth-realm") && problems.contains("by_lua"), "{problems}");
    operator(&folder, &[("annotation-value-word-blocklist", "load_module")]);
    await_until("it to be served", || status(&gateway) == 200);
}

#[test]
fn paths_with_unusual_characters_are_served_with_a_problem() {
    let ingress = Ingress::new("shop").typed_path(HOST, "/a(b", "Prefix", "shop");
    let (_backend, folder, gateway) = start(&ingress);
    let is_reported = || gateway.problems().contains("Ingress default/shop");
    assert!(is_reported() && gateway.problems().contains("/a(b"), "{}", gateway.problems());
    operator(&folder, &[("strict-validate-path-type", "false")]);
    await_until("no problem", || gateway.problems().is_empty());
    assert_eq!(get(gateway.http, HOST, "/a(b").status, 200);
    operator(&folder, &[]);
    await_until("the problem again", is_reported);
}
