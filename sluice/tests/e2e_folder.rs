//! The folder of manifests: what is read of it, and what becomes of edits.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use crate::harness::manifest::{document, service_with};
use crate::harness::{Backend, Folder, Gateway, Ingress, await_until, class, get, site};

fn serves(gateway: &Gateway, host: &str) -> bool {
    get(gateway.http, host, "/").status == 200
}

#[test]
fn files_that_are_added_edited_and_removed_take_effect() {
    let backend = Backend::echo("web");
    let folder = Folder::with(service_with("web", &[&backend]));
    let gateway = Gateway::start(&folder);
    folder.write("a.yaml", Ingress::new("a").path("a.example", "/", "web").text());
    await_until("the new file", || serves(&gateway, "a.example"));
    folder.write("a.yaml", Ingress::new("a").path("b.example", "/", "web").text());
    await_until("the edit", || serves(&gateway, "b.example") && !serves(&gateway, "a.example"));
    folder.remove("a.yaml");
    await_until("the removal", || !serves(&gateway, "b.example"));
}

#[test]
fn a_file_written_in_place_takes_effect_when_it_is_closed() {
    let backend = Backend::echo("web");
    let folder = Folder::with(service_with("web", &[&backend]));
    let gateway = Gateway::start(&folder);
    fs::write(folder.file("a.yaml"), Ingress::new("a").path("a.example", "/", "web").text()).unwrap();
    await_until("the new file", || serves(&gateway, "a.example"));
}

#[test]
fn one_object_of_many_in_a_file_can_go() {
    let backend = Backend::echo("web");
    let [a, b] =
        ["a", "b"].map(|name| Ingress::new(name).path(&format!("{name}.example"), "/", "web").text());
    let folder = Folder::with(service_with("web", &[&backend]));
    folder.write("both.yaml", a.clone() + &b);
    let gateway = Gateway::start(&folder);
    assert!(serves(&gateway, "a.example") && serves(&gateway, "b.example"));
    folder.write("both.yaml", a);
    await_until("one to go", || !serves(&gateway, "b.example"));
    assert!(serves(&gateway, "a.example"));
}

#[test]
fn a_broken_file_keeps_its_last_good_objects_and_harms_nobody() {
    let backend = Backend::echo("web");
    let folder = Folder::with(service_with("web", &[&backend]));
    let ingress = |host: &str| Ingress::new("a").path(host, "/", "web").text();
    folder.write("a.yaml", ingress("a.example"));
    let gateway = Gateway::start(&folder);
    assert!(serves(&gateway, "a.example"));
    folder.write("a.yaml", "kind: Ingress\nmetadata:\n  name: [broken\n");
    await_until("the problem", || gateway.problems().contains("a.yaml"));
    assert!(serves(&gateway, "a.example"));
    folder.write("b.yaml", Ingress::new("b").path("b.example", "/", "web").text());
    await_until("the rest to go on", || serves(&gateway, "b.example"));
    folder.write("a.yaml", ingress("c.example"));
    await_until("the repair", || serves(&gateway, "c.example") && !serves(&gateway, "a.example"));
    await_until("the problem to vanish", || !gateway.problems().contains("a.yaml"));
}

#[test]
fn a_file_that_is_broken_from_the_start_is_reported_with_its_line() {
    let backend = Backend::echo("web");
    let folder = Folder::with(site("web", "web.example", &[&backend]));
    folder.write("broken.yaml", "kind: Service\nmetadata:\n  name: a\n bad: indent\n");
    let gateway = Gateway::start(&folder);
    assert!(serves(&gateway, "web.example"));
    let problems = gateway.problems();
    assert!(problems.contains("broken.yaml") && problems.contains("line"), "{problems}");
}

#[test]
fn lists_json_and_kinds_that_are_not_served_are_fine() {
    let backend = Backend::echo("web");
    let strip = |text: String| -> serde_json::Value {
        serde_json::from_str(text.trim_start_matches("---\n")).unwrap()
    };
    let ingress = strip(Ingress::new("web").path("web.example", "/", "web").text());
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"}, "spec": {"anything": ["goes"]},
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [ingress, deployment]});
    let folder = Folder::with(service_with("web", &[&backend]) + &document(&deployment));
    folder.write("list.json", list.to_string());
    folder.write("empty.yaml", "---\n---\n# nothing\n");
    let gateway = Gateway::start(&folder);
    assert!(serves(&gateway, "web.example"));
    assert!(!gateway.problems().contains("Deployment"), "{}", gateway.problems());
}

#[test]
fn other_files_are_ignored() {
    let backend = Backend::echo("web");
    let folder = Folder::with(service_with("web", &[&backend]));
    for name in ["notes.txt", ".hidden.yaml", "backup.yaml~", ".a.yaml.swp"] {
        fs::write(folder.file(name), Ingress::new("web").path("web.example", "/", "web").text()).unwrap();
    }
    fs::write(folder.file("broken.txt"), "{").unwrap();
    let gateway = Gateway::start(&folder);
    assert!(!serves(&gateway, "web.example"));
    assert!(!gateway.problems().contains("broken.txt"));
}

#[test]
fn the_swap_of_a_mounted_config_map_is_followed() {
    let backend = Backend::echo("web");
    let folder = Folder::empty();
    let version = |name: &str, host: &str| {
        fs::create_dir(folder.file(name)).unwrap();
        let text = class("nginx", "k8s.io/ingress-nginx") + &site("web", host, &[&backend]);
        fs::write(folder.file(name).join("site.yaml"), text).unwrap();
    };
    // As the kubelet mounts a ConfigMap: data in a hidden folder, one link swapped for all files at once.
    version("..one", "one.example");
    symlink("..one", folder.file("..data")).unwrap();
    symlink("..data/site.yaml", folder.file("site.yaml")).unwrap();
    let gateway = Gateway::start(&folder);
    assert!(serves(&gateway, "one.example"));
    version("..two", "two.example");
    symlink("..two", folder.file("..data_tmp")).unwrap();
    fs::rename(folder.file("..data_tmp"), folder.file("..data")).unwrap();
    fs::remove_dir_all(folder.file("..one")).unwrap();
    await_until("the swap", || serves(&gateway, "two.example") && !serves(&gateway, "one.example"));
}

#[test]
fn many_edits_in_a_row_end_with_the_newest() {
    let backend = Backend::echo("web");
    let folder = Folder::with(service_with("web", &[&backend]));
    let gateway = Gateway::start(&folder);
    for number in 0..200 {
        folder.write("a.yaml", Ingress::new("a").path(&format!("h{number}.example"), "/", "web").text());
    }
    await_until("the newest", || serves(&gateway, "h199.example"));
    assert!(!serves(&gateway, "h198.example"));
}

#[test]
fn endpoints_that_are_not_ready_are_left_out() {
    let [ready, not, ending] = ["ready", "not", "ending"].map(Backend::echo);
    let one = |name: &str, backend: &Backend, conditions: serde_json::Value| {
        let endpoints = [json!({"addresses": ["127.0.0.1"], "conditions": conditions})];
        crate::harness::manifest::slice_of(name, "web", &endpoints, backend.address.port())
    };
    let folder = Folder::with(
        Ingress::new("web").path("web.example", "/", "web").text() + &crate::harness::service("web"),
    );
    let up = one("a", &ready, json!({}));
    let down = one("b", &not, json!({"ready": false, "serving": false}));
    let leaving = one("c", &ending, json!({"ready": false, "serving": true, "terminating": true}));
    folder.write("endpoints.yaml", up + &down + &leaving);
    let gateway = Gateway::start(&folder);
    for _ in 0..6 {
        assert_eq!(get(gateway.http, "web.example", "/").backend(), "ready");
    }
    folder.write("endpoints.yaml", down + &leaving);
    await_until("the terminating one, when there is no other", || {
        get(gateway.http, "web.example", "/").backend() == "ending"
    });
    assert_eq!(not.requests(), 0);
}
