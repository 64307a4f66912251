//! Requests and responses, sequential and concurrent.

use sluice_testing::wait::until;

use super::backend::Backend;
use super::client::Client;
use super::gateway::Gateway;

#[tokio::test]
async fn a_connection_serves_one_request_after_another() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    for path in ["/one", "/two?q", "/three"] {
        let response = client.get(path).await;
        assert_eq!(response.status, 200);
        assert!(response.keeps_alive(), "{response:?}");
        assert!(response.head.contains("\r\nDate: ") && response.field("server").is_some(), "{response:?}");
        assert!(response.body.starts_with(&format!("get {path} http/1.1\r\n")), "{response:?}");
        assert!(response.body.contains("\r\nhost: a.example\r\n"), "{response:?}");
        assert!(response.body.contains("\r\nx-forwarded-for: 127.0.0.1\r\n"), "{response:?}");
    }
    assert_eq!(backend.connections(), 1, "the upstream connection is reused");
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    client
        .send(
            "GET /1 HTTP/1.1\r\nHost: a.example\r\n\r\n\
             POST /2 HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello\
             POST /3 HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
             \r\nGET /4 HTTP/1.1\r\nHost: unknown.example\r\n\r\n\
             GET /5 HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n",
        )
        .await;
    for (path, body) in [("get /1", ""), ("post /2", "hello"), ("post /3", "abc")] {
        let response = client.response().await;
        assert!(
            response.body.starts_with(path) && response.body.ends_with(&format!("\r\n\r\n{body}")),
            "{response:?}"
        );
    }
    assert_eq!(client.response().await.status, 404);
    let last = client.response().await;
    assert!(last.body.starts_with("get /5") && !last.keeps_alive(), "{last:?}");
    client.ends().await;
}

#[tokio::test]
async fn a_request_that_arrives_while_another_is_served_waits() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    client.send("GET /wait HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    until("a request at the endpoint", || backend.requests() >= 1).await;
    client.send("GET /second HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    backend.gate.add_permits(1);
    assert!(client.response().await.body.starts_with("get /wait"));
    assert!(client.response().await.body.starts_with("get /second"));
}

#[tokio::test]
async fn head_and_body_leave_in_one_piece() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    for (path, end) in [("/length", "\r\n\r\n"), ("/chunked", "5\r\nhello\r\n0\r\n\r\n")] {
        // The backend sends its response in one piece, so all of it is available when the head is
        // written.
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n")).await;
        client.read().await;
        let seen = String::from_utf8(std::mem::take(&mut client.buf)).unwrap();
        assert!(seen.starts_with("HTTP/1.1 200 OK\r\n") && seen.ends_with(end), "{seen}");
    }
}

#[tokio::test]
async fn a_stream_is_forwarded_as_it_arrives() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    client.send("GET /stream HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    assert_eq!(client.head().await.status, 200);
    backend.gate.add_permits(1);
    assert_eq!(client.until("hello\r\n").await, "5\r\nhello\r\n");
    backend.gate.add_permits(1);
    assert_eq!(client.chunked().await, "world");
    assert_eq!(client.get("/next").await.status, 200);
}

#[tokio::test]
async fn http_1_0_gets_what_it_can_read() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    client.send("GET /chunked HTTP/1.0\r\nHost: a.example\r\n\r\n").await;
    let response = client.head().await;
    assert_eq!((response.status, response.field("transfer-encoding")), (200, None), "{response:?}");
    assert_eq!(client.rest().await, "hello");

    let mut client = gateway.client().await;
    client.send("GET /x HTTP/1.0\r\nHost: a.example\r\n\r\n").await;
    assert!(!client.response().await.keeps_alive());
    client.ends().await;

    let mut client = gateway.client().await;
    client.send("GET /chunked HTTP/1.0\r\nHost: a.example\r\nConnection: keep-alive\r\n\r\n").await;
    assert!(!client.head().await.keeps_alive(), "the end of the connection is the end of the body");
    assert_eq!(client.rest().await, "hello");

    let mut client = gateway.client().await;
    for _ in 0..2 {
        client.send("GET /x HTTP/1.0\r\nHost: a.example\r\nConnection: keep-alive\r\n\r\n").await;
        assert!(client.response().await.keeps_alive());
    }
    client.send("GET /x HTTP/1.0\r\n\r\n").await;
    assert_eq!(client.response().await.status, 404, "no host, no rule");
}

#[tokio::test]
async fn heads_without_bodies() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    for host in ["a.example", "unknown.example"] {
        client.send(format!("HEAD /x HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
        let head = client.head().await;
        assert_ne!(head.field("content-length"), Some("0"), "{head:?}");
        assert!(head.keeps_alive());
    }
    assert_eq!(client.get("/x").await.status, 200);
}

#[tokio::test]
async fn the_absolute_form_decides_the_host() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    client.send("GET http://a.example/p?q HTTP/1.1\r\nHost: other.example\r\n\r\n").await;
    let response = client.response().await;
    assert!(response.body.starts_with("get /p?q http/1.1\r\n"), "{response:?}");
    assert!(response.body.contains("\r\nhost: a.example\r\n"), "{response:?}");
}

#[tokio::test]
async fn answers_of_our_own_keep_the_connection() {
    let gateway = Gateway::to(&[]).await;
    let mut client = gateway.client().await;
    for _ in 0..2 {
        let response = client.get("/").await;
        assert_eq!(response.status, 503, "no endpoints");
        assert!(response.keeps_alive(), "{response:?}");
        assert!(response.body.contains("503 Service Temporarily Unavailable"));
        assert_eq!(response.field("server"), Some("sluice"));
        client.send("GET / HTTP/1.1\r\nHost: unknown.example\r\n\r\n").await;
        let response = client.response().await;
        assert_eq!(response.status, 404);
        assert!(response.keeps_alive());
    }
    // Requests for hosts that are not configured are not logged.
    let lines = gateway.lines(2).await;
    assert!(lines[0].contains("\"GET / HTTP/1.1\" 503"), "{lines:?}");
}

#[tokio::test]
async fn a_client_that_goes_away_is_logged_as_such() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    client.send("GET /wait HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    until("a request at the endpoint", || backend.requests() >= 1).await;
    drop(client);
    let lines = gateway.lines(1).await;
    assert!(lines[0].contains("\"GET /wait HTTP/1.1\" 499 0"), "{lines:?}");
    assert_eq!(Client::connect(gateway.http).await.get("/x").await.status, 200);
}
