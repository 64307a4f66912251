//! Checks against small servers on loopback.

use std::net::SocketAddr;

use sluice_config::HealthCheck as Config;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::registry::prober::backend;

fn config(kind: CheckKind) -> Config {
    Config {
        kind,
        port: None,
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(30),
        healthy: 2,
        unhealthy: 3,
    }
}

async fn passes(kind: CheckKind, address: SocketAddr) -> bool {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let policy = make(&config(kind), false).unwrap();
    policy.check.check(&backend(address)).await.is_ok()
}

fn http(path: &str, statuses: &[(u16, u16)]) -> CheckKind {
    let statuses = statuses.iter().map(|(first, last)| StatusRange { first: *first, last: *last });
    CheckKind::Http { path: path.into(), host: "shop.example".into(), statuses: statuses.collect() }
}

/// A server whose response status is the one in the path.
async fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let head = String::from_utf8(head).unwrap();
            let lower = head.to_ascii_lowercase();
            assert!(
                lower.contains("host: shop.example") && lower.contains("user-agent: sluice-health-check"),
                "{head}"
            );
            let status = head.split(['/', ' ']).nth(2).unwrap();
            let answer = format!("HTTP/1.1 {status} x\r\nContent-Length: 2\r\n\r\nok");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    address
}

#[tokio::test]
async fn an_http_check_accepts_the_configured_statuses() {
    let address = server().await;
    for (path, statuses, passed) in [
        ("/200", &[(200, 399)][..], true),
        ("/302", &[(200, 399)], true),
        ("/404", &[(200, 399)], false),
        ("/404", &[(200, 299), (404, 404)], true),
        ("/503", &[(200, 299), (404, 404)], false),
    ] {
        assert_eq!(passes(http(path, statuses), address).await, passed, "{path} {statuses:?}");
    }
}

#[tokio::test]
async fn a_tcp_check_requires_a_connection_only() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    assert!(passes(CheckKind::Tcp, address).await);
    drop(listener);
    assert!(!passes(CheckKind::Tcp, address).await);
    assert!(!passes(http("/200", &[(200, 399)]), address).await);
    assert!(!passes(grpc(""), address).await);
}

fn grpc(service: &str) -> CheckKind {
    CheckKind::Grpc { host: "shop.example".into(), service: service.into() }
}

/// A health service with the whole server (serving) and `cart` (not serving).
async fn health_service() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((mut request, mut respond))) = connection.accept().await {
                    assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
                    assert_eq!(request.uri().authority().unwrap(), "shop.example");
                    tokio::spawn(async move {
                        let mut asked = Vec::new();
                        while let Some(Ok(piece)) = request.body_mut().data().await {
                            asked.extend_from_slice(&piece);
                        }
                        let head = http::Response::builder().header("content-type", "application/grpc");
                        let status = match &asked[..] {
                            [0, 0, 0, 0, 0] => 1,
                            [0, 0, 0, 0, 6, 0x0a, 4, b'c', b'a', b'r', b't'] => 2,
                            _ => {
                                let head = head.header("grpc-status", "5").body(()).unwrap();
                                respond.send_response(head, true).unwrap();
                                return;
                            }
                        };
                        let mut body = respond.send_response(head.body(()).unwrap(), false).unwrap();
                        body.send_data(vec![0, 0, 0, 0, 2, 0x08, status].into(), false).unwrap();
                        let trailers = [("grpc-status", "0")];
                        let trailers = trailers.map(|(name, value)| {
                            (http::HeaderName::from_static(name), HeaderValue::from_static(value))
                        });
                        body.send_trailers(trailers.into_iter().collect()).unwrap();
                    });
                }
            });
        }
    });
    address
}

#[tokio::test]
async fn grpc_asks_the_standard_health_service() {
    let address = health_service().await;
    for (service, passed) in [("", true), ("cart", false), ("unknown", false)] {
        assert_eq!(passes(grpc(service), address).await, passed, "{service:?}");
    }
    // An HTTP/1.1 server is not a gRPC server.
    assert!(!passes(grpc(""), server_of_nothing().await).await);
}

/// A server that does not speak HTTP/2.
async fn server_of_nothing() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
        }
    });
    address
}

#[test]
fn thresholds_follow_the_settings_and_an_invalid_path_is_refused() {
    for kind in [CheckKind::Tcp, http("/", &[(200, 200)]), grpc("")] {
        let policy = make(&config(kind), false).unwrap();
        assert_eq!((policy.check.health_threshold(true), policy.check.health_threshold(false)), (2, 3));
    }
    let CheckKind::Http { statuses, .. } = http("/", &[]) else { unreachable!() };
    for (path, host) in [("a b", "shop.example"), ("/", "a\nb")] {
        let kind = CheckKind::Http { path: path.into(), host: host.into(), statuses: statuses.clone() };
        assert!(make(&config(kind), false).is_err(), "{path:?} {host:?}");
    }
    assert!(make(&config(CheckKind::Grpc { host: "a b".into(), service: "".into() }), false).is_err());
}
