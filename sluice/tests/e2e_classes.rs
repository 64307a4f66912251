//! Selection of Ingresses by class: every row of the reference's class table.

use serde_json::json;

use crate::harness::manifest::{default_class, document, service_with};
use crate::harness::{Backend, Folder, Gateway, Ingress, await_until, class, get};

const OURS: &str = "k8s.io/ingress-nginx";
const THEIRS: &str = "example.com/other";
const ANNOTATION: &str = "kubernetes.io/ingress.class";

/// Serves a host by an Ingress with this class field and annotation. Returns whether the Ingress is
/// served.
fn taken(classes: &str, field: Option<&str>, annotation: Option<&str>, flags: &[&str]) -> bool {
    let backend = Backend::echo("web");
    let mut ingress = Ingress::new("web").class(field).path("web.example", "/", "web");
    if let Some(annotation) = annotation {
        ingress = ingress.raw_annotation(ANNOTATION, annotation);
    }
    let folder = Folder::empty();
    folder.write("all.yaml", classes.to_owned() + &ingress.text() + &service_with("web", &[&backend]));
    let gateway = Gateway::with(&folder, flags);
    match get(gateway.http, "web.example", "/").status {
        200 => true,
        404 => false,
        status => panic!("{status}"),
    }
}

#[test]
fn a_field_counts_by_the_controller_of_its_class() {
    assert!(taken(&class("any-name", OURS), Some("any-name"), None, &[]));
    assert!(!taken(&class("any-name", THEIRS), Some("any-name"), None, &[]));
    let flags = ["--controller-class", THEIRS];
    assert!(taken(&class("any-name", THEIRS), Some("any-name"), None, &flags));
}

#[test]
fn ingresses_of_a_missing_class_are_not_served() {
    assert!(!taken("", Some("nginx"), None, &[]));
}

#[test]
fn a_class_matches_by_name_only_if_enabled() {
    assert!(!taken(&class("nginx", THEIRS), Some("nginx"), None, &[]));
    assert!(taken(&class("nginx", THEIRS), Some("nginx"), None, &["--ingress-class-by-name"]));
    assert!(!taken(&class("other", THEIRS), Some("other"), None, &["--ingress-class-by-name"]));
    let flags = ["--ingress-class-by-name", "--ingress-class=other"];
    assert!(taken(&class("other", THEIRS), Some("other"), None, &flags));
}

#[test]
fn an_annotation_counts_where_there_is_no_field() {
    assert!(taken("", None, Some("nginx"), &[]));
    assert!(!taken("", None, Some("other"), &[]));
    assert!(taken("", None, Some("other"), &["--ingress-class", "other"]));
}

#[test]
fn the_field_decides_over_the_annotation() {
    let classes = class("ours", OURS) + &class("theirs", THEIRS);
    assert!(taken(&classes, Some("ours"), Some("other"), &[]));
    assert!(!taken(&classes, Some("theirs"), Some("nginx"), &[]));
}

#[test]
fn ingresses_without_a_class_are_served_only_if_enabled() {
    assert!(!taken(&class("nginx", OURS), None, None, &[]));
    assert!(taken("", None, None, &["--watch-ingress-without-class"]));
}

#[test]
fn the_default_class_applies_as_an_api_server_would_fill_it_in() {
    assert!(taken(&default_class("nginx", OURS), None, None, &[]));
    assert!(!taken(&default_class("other", THEIRS), None, None, &[]));
    assert!(!taken(&default_class("nginx", OURS), None, Some("other"), &[]), "an annotation is a choice");
}

#[test]
fn parameters_of_a_class_are_ignored() {
    let class = document(&json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IngressClass", "metadata": {"name": "nginx"},
        "spec": {"controller": OURS, "parameters": {"kind": "ConfigMap", "name": "x"}},
    }));
    assert!(taken(&class, Some("nginx"), None, &[]));
}

#[test]
fn routes_come_and_go_with_the_controller_of_the_class() {
    let backend = Backend::echo("web");
    let ingress = Ingress::new("web").path("web.example", "/", "web");
    let folder = Folder::with(service_with("web", &[&backend]));
    folder.write("ingress.yaml", ingress.text());
    let gateway = Gateway::start(&folder);
    let status =
        |status: u16| await_until("the status", || get(gateway.http, "web.example", "/").status == status);
    status(200);
    folder.write("ingress.yaml", ingress.clone().class(None).text());
    status(404);
    folder.write("ingress.yaml", ingress.text());
    status(200);
    folder.write("class.yaml", class("nginx", THEIRS));
    status(404);
    folder.remove("class.yaml");
    await_until("the problem", || gateway.problems().contains("does not exist, so no controller"));
    assert_eq!(get(gateway.http, "web.example", "/").status, 404, "it was not ours");
    folder.write("class.yaml", class("nginx", OURS));
    status(200);
}

#[test]
fn a_deleted_class_opens_no_path() {
    let backend = Backend::echo("web");
    let folder = Folder::with(service_with("web", &[&backend]));
    let protected = Ingress::new("admin").class(Some("second")).path("web.example", "/admin", "web");
    let protected = protected.annotation("whitelist-source-range", "203.0.113.1");
    folder.write(
        "ingress.yaml",
        Ingress::new("web").path("web.example", "/", "web").text() + &protected.text(),
    );
    folder.write("second.yaml", class("second", OURS));
    let gateway = Gateway::start(&folder);
    let status = |path| get(gateway.http, "web.example", path).status;
    assert_eq!((status("/"), status("/admin")), (200, 403));
    folder.remove("second.yaml");
    await_until("the problem", || gateway.problems().contains("IngressClass \"second\" was deleted"));
    assert_eq!((status("/"), status("/admin")), (200, 403));
    folder.write("second.yaml", class("second", OURS));
    await_until("the problem to go", || !gateway.problems().contains("IngressClass \"second\""));
    assert_eq!(status("/admin"), 403);
    folder.remove("second.yaml");
    await_until("the problem", || gateway.problems().contains("IngressClass \"second\" was deleted"));
    folder.write("second.yaml", class("second", THEIRS));
    await_until("the other controller", || status("/admin") == 200);
}

#[test]
fn one_namespace_may_be_watched_alone() {
    let backend = Backend::echo("web");
    let objects = crate::harness::site("web", "web.example", &[&backend]);
    let folder = Folder::with(objects);
    let gateway = Gateway::with(&folder, &["--watch-namespace", "elsewhere"]);
    assert_eq!(get(gateway.http, "web.example", "/").status, 404);
    let gateway = Gateway::with(&folder, &["--watch-namespace", "default"]);
    assert_eq!(get(gateway.http, "web.example", "/").status, 200);
}

#[test]
fn namespaces_are_chosen_by_their_labels_live() {
    let namespace = |team: &str| {
        document(&json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": {"team": team}},
        }))
    };
    let backend = Backend::echo("web");
    let folder = Folder::with(crate::harness::site("web", "web.example", &[&backend]));
    folder.write("namespace.yaml", namespace("red"));
    let gateway = Gateway::with(&folder, &["--watch-namespace-selector", "team in(blue,green)"]);
    assert_eq!(get(gateway.http, "web.example", "/").status, 404);
    folder.write("namespace.yaml", namespace("blue"));
    await_until("the namespace to be served", || get(gateway.http, "web.example", "/").status == 200);
    folder.write("namespace.yaml", namespace("red"));
    await_until("the namespace to be left out", || get(gateway.http, "web.example", "/").status == 404);
}
