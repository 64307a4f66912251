//! How long connections to endpoints are kept: `upstream-keepalive-*` for requests, `auth-keepalive*` for questions to an
//! authorisation service.

use crate::harness::manifest::service_with;
use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, await_until, config_map, site};

const HOST: &str = "shop.example";
const CONFIG: &str = "ingress-nginx/controller";

/// Requests of one client, which one worker serves, and how many connections to the backend came of them.
fn made_for(requests: usize, gateway: &Gateway, backend: &Backend) -> usize {
    let before = backend.connections();
    let mut connection = Connection::plain(gateway.http);
    for _ in 0..requests {
        assert_eq!(connection.get(HOST, "/").status, 200);
    }
    backend.connections() - before
}

fn start(backend: &Backend) -> (Folder, Gateway) {
    let folder = Folder::with(site("shop", HOST, &[backend]));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    (folder, gateway)
}

#[test]
fn a_connection_to_an_endpoint_has_so_many_requests() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend);
    assert!(made_for(9, &gateway, &backend) <= 1);
    folder.write("config.yaml", config_map(CONFIG, &[("upstream-keepalive-requests", "3")]));
    await_until("three for each", || made_for(9, &gateway, &backend) == 3);
    folder.write("config.yaml", config_map(CONFIG, &[("upstream-keepalive-requests", "1")]));
    await_until("one for each", || made_for(4, &gateway, &backend) == 4);
    folder.write("config.yaml", config_map(CONFIG, &[]));
    await_until("as before", || made_for(9, &gateway, &backend) <= 1);
}

#[test]
fn a_connection_to_an_endpoint_ends_when_it_is_idle_or_old() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    folder.write("config.yaml", config_map(CONFIG, &[("upstream-keepalive-timeout", "1")]));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    assert_eq!(made_for(3, &gateway, &backend), 1);
    backend.await_closed();
    folder.write("config.yaml", config_map(CONFIG, &[("upstream-keepalive-time", "1s")]));
    // Busy all the time, and replaced all the same.
    await_until("an old one to be replaced", || made_for(50, &gateway, &backend) == 0);
    await_until("an old one to be replaced", || made_for(50, &gateway, &backend) == 1);
}

#[test]
fn connections_to_an_authorisation_service_are_kept_as_the_ingress_says() {
    let (shop, auth) = (Backend::echo("shop"), Backend::echo("auth"));
    let folder = Folder::with(service_with("shop", &[&shop]));
    let ingress = |own: &[(&str, &str)]| {
        let url = format!("http://{}/check", auth.address);
        let ingress = Ingress::new("shop").path(HOST, "/", "shop").annotation("auth-url", &url);
        own.iter().fold(ingress, |ingress, (name, value)| ingress.annotation(name, value)).text()
    };
    folder.write("shop.yaml", ingress(&[]));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    assert!(made_for(6, &gateway, &auth) <= 1);
    folder.write("shop.yaml", ingress(&[("auth-keepalive", "5"), ("auth-keepalive-requests", "2")]));
    await_until("two for each", || made_for(6, &gateway, &auth) == 3);
    folder.write("shop.yaml", ingress(&[("auth-keepalive-requests", "2")]));
    await_until("it to mean nothing alone", || made_for(6, &gateway, &auth) <= 1);
    folder.write("shop.yaml", ingress(&[("auth-keepalive", "5"), ("auth-keepalive-timeout", "1")]));
    let idle = Gateway::with(&folder, &["--configmap", CONFIG]);
    drop(gateway);
    assert_eq!(made_for(3, &idle, &auth), 1);
    auth.await_closed();
}
