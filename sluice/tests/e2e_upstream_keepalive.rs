//! Reuse of connections to endpoints: `upstream-keepalive-*` for requests, `auth-keepalive*` for
//! subrequests to an authorisation service.

use crate::harness::manifest::service_with;
use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, await_until, config_map, site};

const HOST: &str = "shop.example";
const CONFIG: &str = "ingress-nginx/controller";

/// Sends requests of a new client, which one worker serves, and returns how many connections the
/// backend accepted for them.
fn made_for(requests: usize, gateway: &Gateway, backend: &Backend) -> usize {
    made_by(&mut Connection::plain(gateway.http), requests, backend)
}

/// The same for an existing client, which stays with its worker.
fn made_by(client: &mut Connection, requests: usize, backend: &Backend) -> usize {
    let before = backend.connections();
    for _ in 0..requests {
        assert_eq!(client.get(HOST, "/").status, 200);
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

/// The value was refused.
#[test]
fn an_idle_timeout_of_zero_keeps_no_connection_to_an_endpoint() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend);
    folder.write("config.yaml", config_map(CONFIG, &[("upstream-keepalive-timeout", "0")]));
    await_until("one for each", || made_for(4, &gateway, &backend) == 4);
    assert_eq!(gateway.problems(), "");
    folder.write("config.yaml", config_map(CONFIG, &[]));
    await_until("as before", || made_for(9, &gateway, &backend) <= 1);
}

/// Makes a change and waits until it applies to all further requests.
fn change(folder: &Folder, gateway: &Gateway, file: &str, text: String) {
    let before = gateway.generation();
    folder.write(file, text);
    await_until("the change in force", || gateway.generation() > before);
}

#[test]
fn a_connection_to_an_endpoint_ends_when_it_is_idle_or_old() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend);
    // One client, so that only one worker has a connection.
    let mut client = Connection::plain(gateway.http);
    assert_eq!(made_by(&mut client, 1, &backend), 1);
    let config = config_map(CONFIG, &[("upstream-keepalive-timeout", "1")]);
    change(&folder, &gateway, "config.yaml", config);
    assert_eq!(made_by(&mut client, 1, &backend), 0, "one that is kept for a minute, until it is used again");
    backend.await_closed();
    folder.write("config.yaml", config_map(CONFIG, &[("upstream-keepalive-time", "1s")]));
    // The connection is in constant use, and replaced nevertheless.
    await_until("one to be kept", || made_by(&mut client, 2, &backend) == 0);
    await_until("an old one to be replaced", || made_by(&mut client, 2, &backend) == 1);
}

#[test]
fn the_ingress_sets_the_keep_alive_of_its_authorisation_service() {
    let (shop, auth) = (Backend::echo("shop"), Backend::echo("auth"));
    let folder = Folder::with(service_with("shop", &[&shop]));
    let ingress = |own: &[(&str, &str)]| {
        let url = format!("http://{}/check", auth.address);
        Ingress::new("shop").path(HOST, "/", "shop").annotation("auth-url", &url).annotations(own).text()
    };
    folder.write("shop.yaml", ingress(&[]));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    assert!(made_for(6, &gateway, &auth) <= 1);
    folder.write("shop.yaml", ingress(&[("auth-keepalive", "5"), ("auth-keepalive-requests", "2")]));
    await_until("two for each", || made_for(6, &gateway, &auth) == 3);
    folder.write("shop.yaml", ingress(&[("auth-keepalive-requests", "2")]));
    await_until("it to mean nothing alone", || made_for(6, &gateway, &auth) <= 1);
}

#[test]
fn a_connection_to_an_authorisation_service_ends_when_it_is_idle() {
    let (shop, auth) = (Backend::echo("shop"), Backend::echo("auth"));
    let folder = Folder::with(service_with("shop", &[&shop]));
    let ingress = |timeout: &str| {
        let url = format!("http://{}/check", auth.address);
        let ingress = Ingress::new("shop").path(HOST, "/", "shop").annotation("auth-url", &url);
        ingress.annotation("auth-keepalive", "5").annotation("auth-keepalive-timeout", timeout).text()
    };
    folder.write("shop.yaml", ingress("60"));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    let mut client = Connection::plain(gateway.http);
    assert_eq!(client.get(HOST, "/").status, 200);
    change(&folder, &gateway, "shop.yaml", ingress("1"));
    assert_eq!(client.get(HOST, "/").status, 200);
    auth.await_closed();
}
