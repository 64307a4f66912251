//! WebSocket over HTTP/2 (RFC 8441), with a real client and a real endpoint.

use std::net::SocketAddr;

use sluice_testing::websocket::{EchoEndpoint, WebSocket};

use crate::harness::h2::run;
use crate::harness::manifest::{service, slice};
use crate::harness::{Folder, Gateway, Ingress, config_map, until};

const HOST: &str = "chat.example";

fn objects(ingress: &Ingress, address: SocketAddr) -> String {
    ingress.text() + &service("chat") + &slice("chat", "chat", &[&address.ip().to_string()], address.port())
}

fn ingress() -> Ingress {
    Ingress::new("chat").path(HOST, "/", "chat")
}

#[test]
fn messages_pass_between_a_stream_and_an_endpoint_of_http1() {
    run(async {
        let endpoint = EchoEndpoint::start().await;
        let folder = Folder::with(objects(&ingress(), endpoint.address));
        let gateway = Gateway::with(&folder, &["--enable-metrics"]);
        let mut socket = WebSocket::connect(gateway.https, HOST, "/chat").await.unwrap();
        for text in ["hello", &"x".repeat(300_000), ""] {
            assert_eq!(socket.echo(text).await, text);
        }
        let mut other = WebSocket::connect(gateway.https, HOST, "/chat").await.unwrap();
        assert_eq!(other.echo("other").await, "other");
        socket.close().await;
        drop(other);
        let line = gateway.await_access("GET /chat HTTP/2.0");
        assert!(line.contains("\" 200 "), "{line}");
        let metrics = gateway.metrics();
        let counted = |line: &str| {
            line.starts_with("nginx_ingress_controller_requests{") && line.contains("status=\"200\"")
        };
        assert!(metrics.lines().any(counted), "{metrics}");
    });
}

#[test]
fn checks_apply_before_a_stream_becomes_a_tunnel() {
    run(async {
        let endpoint = EchoEndpoint::start().await;
        let ingress = ingress().annotation("denylist-source-range", "127.0.0.0/8");
        let gateway = Gateway::start(&Folder::with(objects(&ingress, endpoint.address)));
        let refused = WebSocket::connect(gateway.https, HOST, "/chat").await.map(drop);
        assert_eq!(refused, Err(403));
        let missing = WebSocket::connect(gateway.https, "other.example", "/chat").await.map(drop);
        assert_eq!(missing, Err(404));
    });
}

#[test]
fn an_open_stream_survives_changes_and_a_shutdown_waits_for_it() {
    run(async {
        let endpoint = EchoEndpoint::start().await;
        let folder = Folder::with(objects(&ingress(), endpoint.address));
        let mut gateway = Gateway::start(&folder);
        let mut socket = WebSocket::connect(gateway.https, HOST, "/chat").await.unwrap();
        let generation = gateway.generation();
        folder.write("objects.yaml", service("chat"));
        until("the route to go", || gateway.generation() > generation).await;
        assert_eq!(socket.echo("still here").await, "still here");
        gateway.terminate();
        until("the shutdown to begin", || gateway.health() != Some(200)).await;
        assert_eq!(socket.echo("and here").await, "and here");
        socket.close().await;
        assert!(gateway.await_exit().success());
    });
}

#[test]
fn an_open_stream_does_not_delay_shutdown_past_the_timeout() {
    run(async {
        let endpoint = EchoEndpoint::start().await;
        let folder = Folder::with(objects(&ingress(), endpoint.address));
        let keys = config_map("edge/config", &[("worker-shutdown-timeout", "1s")]);
        folder.write("config.yaml", keys);
        let mut gateway = Gateway::with(&folder, &["--configmap", "edge/config"]);
        let mut socket = WebSocket::connect(gateway.https, HOST, "/chat").await.unwrap();
        assert_eq!(socket.echo("open").await, "open");
        gateway.terminate();
        assert!(gateway.await_exit().success());
    });
}
