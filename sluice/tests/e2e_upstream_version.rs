//! Endpoints that use HTTP/1.0 (`proxy-http-version`): one request per connection, no chunks, no
//! upgrades.

use crate::harness::client::Response;
use crate::harness::manifest::service_with;
use crate::harness::wire::Message;
use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, Reply, await_until, config_map, get};

const HOST: &str = "shop.example";
const CONFIG: &str = "ingress-nginx/controller";

fn shop(version: Option<&str>) -> String {
    let ingress = Ingress::new("shop").path(HOST, "/", "shop").annotation("proxy-request-buffering", "off");
    version.iter().fold(ingress, |ingress, version| ingress.annotation("proxy-http-version", version)).text()
}

fn start(backend: &Backend, version: Option<&str>) -> (Folder, Gateway) {
    let folder = Folder::with(service_with("shop", &[backend]));
    folder.write("shop.yaml", shop(version));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    (folder, gateway)
}

fn last(backend: &Backend) -> Message {
    backend.seen().pop().expect("a request")
}

/// Returns the request line that the endpoint receives for a GET.
fn asked(gateway: &Gateway, backend: &Backend) -> String {
    assert_eq!(get(gateway.http, HOST, "/").status, 200);
    last(backend).start
}

fn send(gateway: &Gateway, text: &str) -> Response {
    let mut connection = Connection::plain(gateway.http);
    connection.send(text);
    connection.response()
}

#[test]
fn each_request_has_a_connection_of_its_own_and_a_change_counts_at_once() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend, Some("1.0"));
    for _ in 0..3 {
        assert_eq!(asked(&gateway, &backend), "GET / HTTP/1.0");
        assert_eq!(last(&backend).all("connection"), ["close"]);
    }
    assert_eq!(backend.connections(), 3);
    folder.write("shop.yaml", shop(Some("1.1")));
    await_until("HTTP/1.1", || asked(&gateway, &backend) == "GET / HTTP/1.1");
    folder.write("config.yaml", config_map(CONFIG, &[("proxy-http-version", "1.0")]));
    folder.write("shop.yaml", shop(None));
    await_until("set by the operator", || asked(&gateway, &backend) == "GET / HTTP/1.0");
    folder.write("shop.yaml", shop(Some("1.1")));
    await_until("set by the Ingress", || asked(&gateway, &backend) == "GET / HTTP/1.1");
    folder.write("config.yaml", config_map(CONFIG, &[]));
    folder.write("shop.yaml", shop(None));
    await_until("the default", || {
        let before = backend.connections();
        (0..3).all(|_| asked(&gateway, &backend) == "GET / HTTP/1.1") && backend.connections() <= before + 1
    });
}

/// The gateway added `close` as another field.
#[test]
fn a_connection_field_of_the_rule_is_the_only_one() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend, None);
    let ingress = Ingress::new("shop").path(HOST, "/", "shop");
    let ingress = ingress.annotation("connection-proxy-header", "keep-alive");
    folder.write("shop.yaml", ingress.annotation("proxy-http-version", "1.0").text());
    await_until("HTTP/1.0", || asked(&gateway, &backend) == "GET / HTTP/1.0");
    assert_eq!(last(&backend).all("connection"), ["keep-alive"]);
}

#[test]
fn a_body_without_a_length_is_taken_whole_although_nothing_is_buffered() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend, Some("1.0"));
    let head = format!("POST / HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n");
    // In one part, and in two parts.
    let whole = send(&gateway, &format!("{head}3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"));
    let mut connection = Connection::plain(gateway.http);
    connection.send(format!("{head}3\r\none\r\n"));
    assert_eq!(backend.requests(), 1, "the endpoint must get its length");
    connection.send("3\r\ntwo\r\n0\r\n\r\n");
    for response in [whole, connection.response()] {
        assert_eq!((response.status, response.json()["body"].as_str()), (200, Some("onetwo")));
        assert_eq!(response.received("content-length"), ["6"]);
        assert_eq!(response.received("transfer-encoding"), Vec::<String>::new());
    }
}

#[test]
fn http_1_0_sends_continue_and_no_upgrade() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend, Some("1.0"));
    let mut connection = Connection::plain(gateway.http);
    let head =
        format!("POST / HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    connection.send(head);
    assert_eq!(connection.response().status, 100);
    connection.send("apple");
    let response = connection.response();
    assert_eq!(response.json()["body"], "apple");
    assert_eq!(response.received("expect"), Vec::<String>::new());
    let upgrade = "Connection: upgrade\r\nUpgrade: websocket\r\n";
    let response = send(&gateway, &format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n{upgrade}\r\n"));
    assert_eq!(response.status, 200);
    assert_eq!(response.received("upgrade"), Vec::<String>::new());
    assert_eq!(response.received("connection"), ["close"]);
}

#[test]
fn a_response_of_http_1_0_lasts_until_its_connection_ends() {
    let old = b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nold";
    let backend = Backend::with("shop", |_| Reply::Raw(old.to_vec()));
    let (_folder, gateway) = start(&backend, Some("1.0"));
    let mut connection = Connection::plain(gateway.http);
    for _ in 0..2 {
        let response = connection.get(HOST, "/");
        assert_eq!((response.status, response.text().as_str()), (200, "old"));
    }
}
