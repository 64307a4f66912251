//! Request bodies: forwarding, and bodies that the endpoint does not read.

use tokio::io::AsyncWriteExt;

use super::backend::Backend;
use super::client::{Client, PATIENCE};
use super::gateway::Gateway;

#[tokio::test]
async fn a_body_may_come_in_pieces() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    client.send("POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10\r\n\r\nhel").await;
    client.send("loworl").await;
    client.send("dGET /next HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    assert!(client.response().await.body.ends_with("\r\n\r\nhelloworld"));
    assert!(client.response().await.body.starts_with("get /next"));
    for piece in [
        "POST /x HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n",
        "5",
        "\r\nhel",
        "lo\r",
        "\n0\r\n",
        "\r",
    ] {
        client.send(piece).await;
    }
    client.send("\nGET /next HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    let response = client.response().await;
    assert!(
        response.body.contains("transfer-encoding: chunked") && response.body.ends_with("\r\n\r\nhello"),
        "{response:?}"
    );
    assert!(client.response().await.body.starts_with("get /next"));
}

#[tokio::test]
async fn a_large_body_passes_both_ways() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    let body = "0123456789abcdef".repeat(64 * 1024);
    let head = format!("POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: {}\r\n\r\n", body.len());
    client.send(head + &body).await;
    let response = client.response().await;
    assert!(response.body.ends_with(&body));
    assert_eq!(client.get("/next").await.status, 200);
}

#[tokio::test]
async fn a_client_may_wait_for_100_continue() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    for _ in 0..2 {
        client
            .send("POST /x HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
            .await;
        assert_eq!(client.head().await.status, 100);
        client.send("hello").await;
        let response = client.response().await;
        assert!(response.body.ends_with("\r\n\r\nhello"), "{response:?}");
        assert!(response.keeps_alive(), "{response:?}");
    }
}

#[tokio::test]
async fn an_answer_before_the_body_keeps_the_connection_where_little_is_left() {
    let gateway = Gateway::to(&[]).await;
    let mut client = gateway.client().await;
    for host in ["unknown.example", "a.example"] {
        client.send(format!("POST /x HTTP/1.1\r\nHost: {host}\r\nContent-Length: 5\r\n\r\n")).await;
        let response = client.response().await;
        assert!(response.status >= 404 && response.keeps_alive(), "{response:?}");
        client.send("hello").await;
        assert_eq!(client.get("/").await.status, 503, "the body was read and dropped");
    }
}

#[tokio::test]
async fn an_answer_before_a_long_body_ends_the_connection_but_can_be_read() {
    let gateway = Gateway::to(&[]).await;
    for head in [
        "POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1000000\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: unknown.example\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST /x HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
    ] {
        let mut client = gateway.client().await;
        client.send(head).await;
        client.send("1000\r\n").await;
        client.send("x".repeat(200_000)).await;
        let response = client.response().await;
        assert!(response.status >= 404 && !response.keeps_alive(), "{response:?}");
        client.ends().await;
    }
}

#[tokio::test]
async fn a_client_that_reads_when_it_has_sent_everything_gets_the_answer() {
    const LENGTH: usize = 32 << 20;
    let refuses = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        client.until("\r\n\r\n").await;
        client.send("HTTP/1.1 413 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno").await;
        client.read().await;
    })
    .await;
    let gateway = Gateway::to(&[refuses.address]).await;
    for (host, status) in [("unknown.example", 404), ("a.example", 413)] {
        let mut client = gateway.client().await;
        client.send(format!("POST /x HTTP/1.1\r\nHost: {host}\r\nContent-Length: {LENGTH}\r\n\r\n")).await;
        for _ in 0..LENGTH >> 20 {
            client.send(vec![b'x'; 1 << 20]).await;
        }
        let response = client.response().await;
        assert!(response.status == status && !response.keeps_alive(), "{response:?}");
        client.ends().await;
    }
}

#[tokio::test]
async fn an_endless_upload_does_not_delay_the_shutdown() {
    let gateway = Gateway::to(&[]).await;
    let mut client = gateway.client().await;
    let head = "POST /x HTTP/1.1\r\nHost: unknown.example\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(head).await;
    assert_eq!(client.response().await.status, 404);
    let sends = tokio::spawn(async move { while client.stream.write_all(b"x").await.is_ok() {} });
    gateway.drain.begin();
    gateway.close();
    let began = std::time::Instant::now();
    assert!(gateway.drain.ended(PATIENCE).await);
    // Less than the 30 s of the default limit, however slow the machine is.
    assert!(began.elapsed() < std::time::Duration::from_secs(20));
    sends.abort();
}

#[tokio::test]
async fn an_endpoint_that_never_sends_100_gets_the_body() {
    let silent = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        let head = client.until("\r\n\r\n").await.to_ascii_lowercase();
        let body = client.exactly(5).await;
        client
            .send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}{body}", head.len() + 5))
            .await;
    })
    .await;
    let gateway = Gateway::to(&[silent.address]).await;
    let mut client = gateway.client().await;
    client
        .send("POST /x HTTP/1.1\r\nHost: a.example\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        .await;
    assert_eq!(client.head().await.status, 100);
    client.send("hello").await;
    let response = client.response().await;
    assert!(response.status == 200 && response.body.ends_with("hello"), "{response:?}");
    assert!(!response.body.contains("expect"), "the gateway has answered it: {response:?}");
}

#[tokio::test]
async fn a_broken_chunk_is_400_ends_the_connection_and_never_becomes_a_request() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let head = "POST /x HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n";
    let smuggled = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: a.example\r\n\r\n";
    let bodies = ["5 \r\nhello\r\n", "5\r\nhello\r\nx\r\n", "0\r\nno colon\r\n\r\n", "ffffffffffffffff\r\n"];
    for (count, body) in bodies.into_iter().enumerate() {
        let mut client = gateway.client().await;
        // Once together with the head, once after it.
        if count % 2 == 0 {
            client.send([head, body, smuggled].concat()).await;
        } else {
            client.send(head).await;
            client.send([body, smuggled].concat()).await;
        }
        let response = client.response().await;
        assert_eq!(response.status, 400, "{body:?} {response:?}");
        assert!(response.body.contains("400 Bad Request") && !response.keeps_alive(), "{response:?}");
        client.ends().await;
        let lines = gateway.lines(count + 1).await;
        assert!(lines[count].contains("\"POST /x HTTP/1.1\" 400"), "{lines:?}");
    }
    assert_eq!(backend.requests(), 0);
    let metrics = gateway.plane.metrics();
    assert!(metrics.contains("sluice_requests_refused_total{status=\"400\"} 4"), "{metrics}");
}

#[tokio::test]
async fn a_body_that_stops_coming_is_408() {
    let backend = Backend::new().await;
    let gateway = Gateway::tuned(&[backend.address], |settings| {
        settings.client_body_timeout = std::time::Duration::from_millis(50);
    })
    .await;
    let mut client = gateway.client().await;
    client.send("POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhel").await;
    let response = client.response().await;
    assert_eq!(response.status, 408, "{response:?}");
    let lines = gateway.lines(1).await;
    assert!(lines[0].contains("\"POST /x HTTP/1.1\" 408"), "{lines:?}");
}
