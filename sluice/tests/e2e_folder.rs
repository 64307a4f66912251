//! The folder of manifests: the files that are read, and the effect of edits.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;

use serde_json::json;

use crate::harness::manifest::{document, opaque_secret, service_with};
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

const SHOP: &str = "shop.example";

/// Manifests whose last part protects a path of the first.
fn shop() -> (String, String) {
    let shop = Ingress::new("shop").path(SHOP, "/", "web").text() + &opaque_secret("others", &USERS);
    let admin = Ingress::new("admin").path(SHOP, "/admin", "web").annotation("auth-type", "basic");
    (shop, admin.annotation("auth-secret", "users").text())
}

const USERS: [(&str, &str); 1] = [("auth", "u:$apr1$mI7SilJz$CWwYJyYKbhVDNl26sdUSh/")];

fn protected_shop() -> (Backend, Folder, Gateway) {
    let backend = Backend::echo("web");
    let folder = Folder::with(service_with("web", &[&backend]) + &opaque_secret("users", &USERS));
    let (first, rest) = shop();
    folder.write("shop.yaml", first + &rest);
    let gateway = Gateway::start(&folder);
    assert_eq!(get(gateway.http, SHOP, "/admin").status, 401);
    (backend, folder, gateway)
}

/// Writes the first part of the shop's manifests in place.
fn half_written(folder: &Folder) -> fs::File {
    let mut file = fs::File::create(folder.file("shop.yaml")).unwrap();
    file.write_all(shop().0.as_bytes()).unwrap();
    file
}

#[test]
fn a_half_written_file_is_not_read_because_another_folder_changed() {
    let (_backend, folder, gateway) = protected_shop();
    let mut half = half_written(&folder);
    fs::create_dir(folder.file("other")).unwrap();
    // Notified after the folder.
    folder.write("a.yaml", Ingress::new("a").path("a.example", "/", "web").text());
    await_until("the other file", || serves(&gateway, "a.example"));
    assert_eq!(get(gateway.http, SHOP, "/admin").status, 401);
    let last = Ingress::new("b").path("b.example", "/", "web").text();
    half.write_all((shop().1 + &last).as_bytes()).unwrap();
    drop(half);
    await_until("the whole file", || serves(&gateway, "b.example"));
    assert_eq!(get(gateway.http, SHOP, "/admin").status, 401);
}

#[test]
fn a_half_written_file_is_not_read_because_its_secret_is_referenced() {
    let (_backend, folder, gateway) = protected_shop();
    let mut half = half_written(&folder);
    let refers = Ingress::new("a").path("a.example", "/", "web").annotation("auth-type", "basic");
    folder.write("a.yaml", refers.annotation("auth-secret", "others").text());
    await_until("the other file", || get(gateway.http, "a.example", "/").status == 503);
    assert_eq!(get(gateway.http, SHOP, "/admin").status, 401);
    half.write_all(shop().1.as_bytes()).unwrap();
    drop(half);
    await_until("the Secret", || get(gateway.http, "a.example", "/").status == 401);
    assert_eq!(get(gateway.http, SHOP, "/admin").status, 401);
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
fn a_broken_file_keeps_its_last_good_objects_and_affects_no_other() {
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
    // Like a ConfigMap mounted by the kubelet: the data is in a hidden folder, and a single link is
    // swapped for all files at once.
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

#[test]
fn links_that_form_cycles_or_large_trees_are_left_out_by_name() {
    let backend = Backend::echo("web");
    let folder = Folder::with(service_with("web", &[&backend]));
    // Each of the two links doubles the number of visible folders at every level.
    symlink(".", folder.file("one")).unwrap();
    symlink(".", folder.file("two")).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    for number in 0..10_001 {
        fs::File::create(elsewhere.path().join(format!("{number}.yaml"))).unwrap();
    }
    symlink(elsewhere.path(), folder.file("large")).unwrap();
    let manifests = tempfile::tempdir().unwrap();
    let ingress = |host: &str| Ingress::new("linked").path(host, "/", "web").text();
    fs::write(manifests.path().join("a.yaml"), ingress("linked.example")).unwrap();
    symlink(manifests.path(), folder.file("small")).unwrap();
    let mut gateway = Gateway::start(&folder);
    let problems = gateway.problems();
    for (link, what) in
        [("one", "folder of --manifests itself"), ("two", "itself"), ("large", "more than 10000")]
    {
        let file = folder.file(link).display().to_string();
        assert!(
            problems.lines().any(|line| line.contains(&file) && line.contains(what)),
            "{link}: {problems}"
        );
    }
    assert!(serves(&gateway, "linked.example"), "a link to manifests is followed");
    folder.write("a.yaml", Ingress::new("a").path("a.example", "/", "web").text());
    await_until("an edit", || serves(&gateway, "a.example"));
    fs::write(manifests.path().join("a.yaml"), ingress("moved.example")).unwrap();
    await_until("an edit behind a link", || serves(&gateway, "moved.example"));
    folder.remove("one");
    folder.remove("two");
    folder.remove("large");
    await_until("the problems to go", || !gateway.problems().contains("File "));
    gateway.terminate();
    assert_eq!(gateway.await_exit().code(), Some(0));
}

#[test]
fn nested_brackets_and_aliases_affect_one_file_only() {
    let backend = Backend::echo("web");
    let folder = Folder::with(service_with("web", &[&backend]));
    let mut gateway = Gateway::start(&folder);
    for (name, bracket) in [("square.yaml", "["), ("curly.yaml", "{a: "), ("quoted.yaml", "[']',")] {
        folder.write(name, format!("apiVersion: v1\nkind: Secret\ndata: {}", bracket.repeat(400_000)));
        await_until("the problem", || gateway.problems().contains(name));
    }
    // A few KiB of aliases that would expand to gigabytes.
    let [one, two, three] =
        [("x,", 4000), ("*a,", 1000), ("*b,", 90)].map(|(item, times)| item.repeat(times));
    let list = format!("apiVersion: v1\nx: &a [{one}]\ny: &b [{two}]\nitems: [{three}]\nkind: \"List\"\n");
    folder.write("aliases.yaml", list);
    await_until("the problem", || gateway.problems().contains("aliases repeat more than 4 MiB"));
    folder.write("a.yaml", Ingress::new("a").path("a.example", "/", "web").text());
    await_until("an edit", || serves(&gateway, "a.example"));
    gateway.terminate();
    assert_eq!(gateway.await_exit().code(), Some(0));
}

#[test]
fn names_and_values_that_others_write_cannot_forge_a_line_of_any_log() {
    const FORGED: &str = "x\n2026-01-01T00:00:00Z ERROR forged: the gateway is broken";
    let backend = Backend::echo("web");
    let folder = Folder::with(service_with("web", &[&backend]));
    let named = |name: &str| {
        let ingress = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name},
            "spec": {"ingressClassName": "nginx"},
        });
        document(&ingress)
    };
    folder.write("name.yaml", named(FORGED));
    folder.write(
        "kind.yaml",
        document(&json!({"apiVersion": "x/v1", "kind": FORGED, "metadata": {"name": "a"}})),
    );
    folder.write("file\nERROR forged.yaml", "kind: [");
    let backends = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "odd", "annotations": {
            "nginx.ingress.kubernetes.io/proxy-read-timeout": "9".repeat(1 << 20),
            format!("nginx.ingress.kubernetes.io/{FORGED}"): FORGED,
        }},
        "spec": {"ingressClassName": "nginx", "rules": [{"host": "odd.example", "http": {"paths": [{
            "path": "/", "pathType": "Prefix",
            "backend": {"service": {"name": "x] [] forged\nforged - - line", "port": {"name": FORGED}}},
        }]}}]},
    });
    folder.write("backends.yaml", document(&backends));
    let mut gateway = Gateway::start(&folder);
    assert_eq!(get(gateway.http, "odd.example", "/?marked").status, 503);
    let line = gateway.await_access("marked");
    assert!(!line.contains("[] forged"), "{line}");
    let problems = gateway.problems();
    for part in
        ["metadata.name", "is not a kind of object", "forged.yaml", "proxy-read-timeout", "unknown to Sluice"]
    {
        assert!(problems.contains(part), "{part}: {problems}");
    }
    assert!(problems.len() < 20_000, "{}", problems.len());
    let check = crate::harness::gateway::run(&["check", "--manifests", folder.path().to_str().unwrap()]);
    let address = gateway.admin.to_string();
    let shown = ["problems", "routes", "backends"]
        .map(|view| crate::harness::gateway::run(&[view, "--admin-address", &address]).stdout);
    gateway.terminate();
    assert_eq!(gateway.await_exit().code(), Some(0));
    let logs = gateway.program_log().into_iter().chain(gateway.access_log());
    let printed =
        [&check.stdout].into_iter().chain(&shown).map(|text| String::from_utf8_lossy(text).into_owned());
    for text in logs.chain(printed) {
        for line in text.lines() {
            assert!(!line.starts_with("2026-01-01") && !line.starts_with("ERROR"), "{line}");
            assert!(!line.starts_with("forged") && line.len() < 10_000, "{line}");
        }
    }
}
