//! TLS: selection of certificates, and the effect of certificate changes on other connections.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use sluice_config::{Delta, HostName, HostPattern};
use sluice_testing::trust::trusting;
use sluice_testing::wait::until;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::backend::Backend;
use super::client::Client;
use super::gateway::Gateway;
use crate::pipeline::tests::fixture::{exact, forward, rule};

pub(super) async fn handshake(
    gateway: &Gateway,
    name: Option<&str>,
    alpn: &[&str],
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> TlsStream<TcpStream> {
    let protocols: Vec<&[u8]> = alpn.iter().map(|protocol| protocol.as_bytes()).collect();
    let mut config = trusting(versions, &protocols);
    config.enable_sni = name.is_some();
    let name = ServerName::try_from(name.unwrap_or("none").to_owned()).unwrap();
    let stream = TcpStream::connect(gateway.https).await.unwrap();
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

async fn connect(gateway: &Gateway, name: Option<&str>) -> TlsStream<TcpStream> {
    handshake(gateway, name, &[], &[&rustls::version::TLS13]).await
}

fn certificate(stream: &TlsStream<TcpStream>) -> Vec<u8> {
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

async fn serves(stream: impl AsyncRead + AsyncWrite + Unpin) {
    let response = Client::over(stream).get("/x").await;
    assert_eq!(response.status, 200, "{response:?}");
    assert!(response.body.contains("\r\nx-forwarded-proto: https\r\n"), "{response:?}");
    assert!(response.field("strict-transport-security").is_some(), "{response:?}");
}

#[tokio::test]
async fn every_name_gets_its_certificate() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let exact = gateway.certificate("exact", "a.example", exact("a.example"));
    let wild = gateway.certificate("wild", "*.b.example", HostPattern::OneLabel(HostName::new("b.example")));
    for (name, expected) in [("a.example", &exact), ("A.Example", &exact), ("x.b.example", &wild)] {
        let stream = connect(&gateway, Some(name)).await;
        assert_eq!(certificate(&stream), expected.der, "{name}");
        serves(stream).await;
    }
    for name in [Some("b.example"), Some("y.x.b.example"), Some("unknown.example"), None] {
        let stream = connect(&gateway, name).await;
        let fallback = certificate(&stream);
        assert!(fallback != exact.der && fallback != wild.der, "{name:?}");
        let text = String::from_utf8_lossy(&fallback).into_owned();
        assert!(text.contains("Kubernetes Ingress Controller Fake Certificate") && text.contains("Acme Co"));
        serves(stream).await;
    }
}

#[tokio::test]
async fn a_new_certificate_touches_no_connection() {
    let backend = Backend::new().await;
    let mut gateway = Gateway::to(&[backend.address]).await;
    let old = gateway.certificate("tls", "a.example", exact("a.example"));
    let stream = connect(&gateway, Some("a.example")).await;
    assert_eq!(certificate(&stream), old.der);
    let mut client = Client::over(stream);
    assert_eq!(client.get("/x").await.status, 200);
    let new = gateway.certificate("tls", "a.example", exact("a.example"));
    assert_eq!(certificate(&connect(&gateway, Some("a.example")).await), new.der);
    assert_eq!(client.get("/x").await.status, 200);
    gateway.plane.apply(Delta::default());
    assert_eq!(client.get("/x").await.status, 200);
}

#[tokio::test]
async fn the_end_is_announced_by_close_notify() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut stream = connect(&gateway, Some("a.example")).await;
    stream.write_all(b"GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut text = String::new();
    // rustls returns an error if close_notify is missing.
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
}

#[tokio::test]
async fn versions_and_protocols() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let stream =
        handshake(&gateway, Some("a.example"), &["h2", "http/1.1"], &[&rustls::version::TLS13]).await;
    let connection = stream.get_ref().1;
    assert_eq!(connection.alpn_protocol(), Some(&b"h2"[..]));
    let group = connection.negotiated_key_exchange_group().unwrap().name();
    assert_eq!(group, rustls::NamedGroup::X25519MLKEM768, "post-quantum");
    let stream = handshake(&gateway, Some("a.example"), &["http/1.1"], &[&rustls::version::TLS12]).await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
    serves(stream).await;
}

#[tokio::test]
async fn plain_text_on_a_tls_port_ends_and_is_counted() {
    let gateway = Gateway::to(&[]).await;
    let mut client = Client::connect(gateway.https).await;
    client.send("GET / HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    client.rest().await;
    until("no open connection", || gateway.drain.connections() == 0).await;
    let metrics = gateway.plane.metrics();
    assert!(metrics.contains("sluice_tls_handshake_failures_total 1"), "{metrics}");
}

#[tokio::test]
async fn a_refused_host_with_a_new_certificate_serves_nothing_of_before() {
    let backend = Backend::new().await;
    let mut gateway = Gateway::to(&[backend.address]).await;
    let first = gateway.certificate("first", "a.example", exact("a.example"));
    let stream = connect(&gateway, Some("a.example")).await;
    assert_eq!(certificate(&stream), first.der);
    serves(stream).await;
    // An open connection is affected too, because the routes are closed.
    let mut open = Client::over(connect(&gateway, Some("a.example")).await);
    assert_eq!(open.get("/x").await.status, 200);
    let broken = vec![rule("/guarded", forward("unknown")), rule("/", forward("web"))];
    let refused = gateway.plane.host(exact("a.example"), true, broken);
    assert_eq!(refused[0].subject.to_string(), "host a.example");
    let seen = backend.requests();
    for path in ["/x", "/", "/guarded"] {
        assert_eq!(open.get(path).await.status, 503, "{path}");
        let mut client = Client::over(connect(&gateway, Some("a.example")).await);
        assert_eq!(client.get(path).await.status, 503, "{path}");
    }
    assert_eq!(backend.requests(), seen, "no pool of before is used any more");
    gateway.certificate("second", "a.example", exact("a.example"));
    assert_eq!(open.get("/x").await.status, 200, "a good version opens it again");
}
