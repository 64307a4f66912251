//! Introspection of the running gateway: JSON from the admin listener, tables from the subcommands.

use crate::harness::gateway::run;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, TestCertificate, await_until, get, manifest,
};

const HOST: &str = "shop.example";

fn start(backend: &Backend) -> (Folder, Gateway) {
    let objects = Ingress::new("shop")
        .path(HOST, "/cart", "shop")
        .path(HOST, "/lost", "missing")
        .annotation("ssl-redirect", "false")
        .tls(&[HOST], "shop-tls")
        .text()
        + &manifest::service_with("shop", &[backend])
        + &TestCertificate::new(&[HOST]).secret("shop-tls");
    let folder = Folder::with(objects);
    let gateway = Gateway::start(&folder);
    (folder, gateway)
}

const VIEWS: [(&str, &[&str]); 4] = [
    ("routes", &[HOST, "/cart", "shop"]),
    ("backends", &["shop", "127.0.0.1:"]),
    ("certs", &["shop-tls", HOST]),
    ("problems", &["missing"]),
];

#[test]
fn every_view_is_a_json_array() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    for (view, parts) in VIEWS {
        let response = gateway.ask(&format!("/{view}"));
        assert_eq!(response.status, 200, "{view}");
        assert!(response.header("content-type").unwrap().starts_with("application/json"), "{view}");
        assert!(response.json().as_array().is_some_and(|all| !all.is_empty()), "{view}: {}", response.text());
        for part in parts {
            assert!(response.text().contains(part), "{view}: {part}: {}", response.text());
        }
    }
}

#[test]
fn every_view_is_a_subcommand_in_two_forms() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    let admin = gateway.admin.to_string();
    for (view, parts) in VIEWS {
        let table = run(&[view, "--admin-address", &admin]);
        let text = String::from_utf8(table.stdout).unwrap();
        assert!(table.status.success() && text.lines().count() >= 2, "{view}: {text}");
        for part in parts {
            assert!(text.contains(part), "{view}: {part}: {text}");
        }
        let json = run(&[view, "-o", "json", "--admin-address", &admin]);
        let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
        assert!(value.is_array(), "{view}");
    }
}

#[test]
fn a_gateway_that_does_not_run_is_said_to_be_so() {
    let output = run(&["routes", "--admin-address", "127.0.0.1:1"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.lines().count() == 1 && text.contains("127.0.0.1:1"), "{text}");
}

#[test]
fn nothing_can_be_changed_and_no_key_is_shown() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    for method in ["POST", "PUT", "DELETE"] {
        let status = Connection::plain(gateway.admin).request(method, "admin", "/routes", &[], "").status;
        assert_eq!(status, 405, "{method}");
    }
    assert_eq!(gateway.ask("/nothing").status, 404);
    assert!(!gateway.ask("/certs").text().contains("PRIVATE KEY"));
}

#[test]
fn the_health_of_endpoints_is_shown() {
    let mut backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    assert_eq!(get(gateway.http, HOST, "/cart").status, 200);
    let healthy = gateway.ask("/backends").text();
    backend.stop();
    await_until("the endpoint to be shown as out", || {
        assert_eq!(get(gateway.http, HOST, "/cart").status, 502);
        gateway.ask("/backends").text() != healthy
    });
}

#[test]
fn liveness_readiness_and_metrics_have_their_own_port() {
    let gateway = Gateway::start(&Folder::with(""));
    for path in ["/healthz", "/livez", "/metrics"] {
        assert_eq!(gateway.probe(path).map(|response| response.status), Some(200), "{path}");
    }
    assert_eq!(
        gateway.probe("/routes").map(|response| response.status),
        Some(404),
        "not for the world to see"
    );
}
