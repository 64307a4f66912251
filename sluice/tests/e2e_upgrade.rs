//! WebSocket and other upgrades, across configuration changes.

use crate::harness::manifest::{endpoints, service};
use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, Reply, await_until, get};

const HOST: &str = "chat.example";

/// Starts a backend that accepts upgrades and echoes other requests.
fn chat(name: &str) -> Backend {
    Backend::with(
        name,
        |request| if request.header("upgrade").is_some() { Reply::Upgrade } else { Reply::Echo },
    )
}

fn upgrade(connection: &mut Connection, protocol: &str) -> u16 {
    let fields = [("Upgrade", protocol), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13")];
    connection.request("GET", HOST, "/chat", &fields, "").status
}

#[track_caller]
fn says(connection: &mut Connection, text: &str) {
    connection.send(text);
    assert_eq!(String::from_utf8_lossy(&connection.bytes(text.len())), text);
}

#[test]
fn an_upgrade_reaches_the_backend_and_bytes_flow_both_ways() {
    let backend = chat("one");
    let gateway = Gateway::start(&Folder::with(crate::harness::site("chat", HOST, &[&backend])));
    for protocol in ["websocket", "anything/1"] {
        let mut connection = Connection::plain(gateway.http);
        assert_eq!(upgrade(&mut connection, protocol), 101);
        assert_eq!(connection.bytes(4), b"one\n");
        says(&mut connection, "hello");
        says(&mut connection, &"x".repeat(100_000));
    }
    let seen = &backend.seen()[0];
    assert_eq!(seen.header("upgrade"), Some("websocket"));
    assert!(seen.header("connection").unwrap().eq_ignore_ascii_case("upgrade"));
    assert_eq!(seen.header("sec-websocket-version"), Some("13"));
}

#[test]
fn bytes_sent_right_after_the_head_are_not_lost() {
    let backend = chat("one");
    let gateway = Gateway::start(&Folder::with(crate::harness::site("chat", HOST, &[&backend])));
    let mut connection = Connection::plain(gateway.http);
    connection.send(format!(
        "GET /chat HTTP/1.1\r\nHost: {HOST}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nearly"
    ));
    assert_eq!(connection.response().status, 101);
    assert_eq!(connection.bytes(9), b"one\nearly");
}

#[test]
fn an_open_websocket_survives_changes_of_endpoints_and_routes() {
    let [old, new] = ["old", "new"].map(chat);
    let ingress = Ingress::new("chat").path(HOST, "/", "chat");
    let folder = Folder::with(service("chat"));
    folder.write("ingress.yaml", ingress.text());
    folder.write("endpoints.yaml", endpoints("chat", &[&old]));
    let gateway = Gateway::start(&folder);
    let mut socket = Connection::plain(gateway.http);
    assert_eq!(upgrade(&mut socket, "websocket"), 101);
    assert_eq!(socket.bytes(4), b"old\n");
    folder.write("endpoints.yaml", endpoints("chat", &[&new]));
    await_until("the new endpoint", || get(gateway.http, HOST, "/").backend() == "new");
    says(&mut socket, "still here");
    folder.write("ingress.yaml", ingress.path(HOST, "/more", "chat").text());
    folder.remove("ingress.yaml");
    await_until("the route to go", || get(gateway.http, HOST, "/").status == 404);
    says(&mut socket, "and here");
}

#[test]
fn a_refused_upgrade_is_a_response_like_any_other() {
    let backend = Backend::with("no", |_| Reply::status(403));
    let gateway = Gateway::start(&Folder::with(crate::harness::site("chat", HOST, &[&backend])));
    let mut connection = Connection::plain(gateway.http);
    assert_eq!(upgrade(&mut connection, "websocket"), 403);
    assert_eq!(connection.get(HOST, "/").status, 403, "the connection goes on");
}
