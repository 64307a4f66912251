//! Failing endpoints: retries, stale connections, bad and late responses.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use sluice_config::UpstreamProtocol;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::backend::{Backend, request};
use super::client::Client;
use super::gateway::Gateway;
use crate::worker::engine_choice::EngineChoice;

/// Returns an address without a listener.
async fn refusing() -> std::net::SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn a_refused_connection_is_tried_elsewhere() {
    let backend = Backend::new().await;
    for method in ["GET", "POST"] {
        let gateway = Gateway::to(&[refusing().await, backend.address]).await;
        for _ in 0..4 {
            let mut client = gateway.client().await;
            let head = format!("{method} /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello");
            client.send(head).await;
            let response = client.response().await;
            assert_eq!(response.status, 200, "{response:?}");
            assert!(response.body.ends_with("hello"));
        }
    }
}

#[tokio::test]
async fn without_a_reachable_endpoint_a_502_keeps_the_connection() {
    let gateway = Gateway::to(&[refusing().await]).await;
    let mut client = gateway.client().await;
    for _ in 0..2 {
        client.send("POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello").await;
        let response = client.response().await;
        assert_eq!(response.status, 502);
        assert!(response.body.contains("502 Bad Gateway") && response.keeps_alive(), "{response:?}");
    }
    let lines = gateway.lines(2).await;
    assert!(lines[0].contains("\"POST /x HTTP/1.1\" 502"), "{lines:?}");
}

#[tokio::test]
async fn a_stale_pooled_connection_never_shows() {
    // Closes every connection after its first response, without `Connection: close`.
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        if let Some((head, body)) = request(&mut client).await {
            let text = format!("{}{body}", head.lines().next().unwrap());
            client.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len())).await;
            // Closes the connection only when the next request has arrived: the worst moment.
            client.read().await;
        }
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    for count in 1..6 {
        client.send("PUT /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello").await;
        let response = client.response().await;
        assert_eq!((response.status, response.body.as_str()), (200, "put /x http/1.1hello"), "{count}");
    }
}

#[tokio::test]
async fn a_post_meets_no_connection_that_the_endpoint_has_closed() {
    let closed = Arc::new(Semaphore::new(0));
    let closing = closed.clone();
    let backend = Backend::scripted(move |_, stream| {
        let closing = closing.clone();
        async move {
            let mut client = Client::over(stream);
            request(&mut client).await;
            client.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
            drop(client);
            closing.add_permits(1);
        }
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    for count in 1..6 {
        client.send("POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello").await;
        assert_eq!(client.response().await.status, 200, "{count}");
        closed.acquire().await.unwrap().forget();
    }
}

#[tokio::test]
async fn a_post_that_a_pooled_connection_may_have_taken_is_not_sent_again() {
    let posts = Arc::new(AtomicUsize::new(0));
    let counted = posts.clone();
    let backend = Backend::scripted(move |_, stream| {
        let counted = counted.clone();
        async move {
            let mut client = Client::over(stream);
            for answer in ["HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", ""] {
                let Some((head, _)) = request(&mut client).await else { return };
                counted.fetch_add(usize::from(head.starts_with("post")), SeqCst);
                client.send(answer).await;
            }
        }
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    assert_eq!(client.get("/x").await.status, 200);
    client.send("POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello").await;
    // An engine that uses no pooled connection for a POST gets a response.
    let status = client.response().await.status;
    assert!(matches!(status, 502 | 200), "{status}");
    assert_eq!(posts.load(SeqCst), 1);
}

#[tokio::test]
async fn a_post_that_may_have_been_processed_is_not_sent_again() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        request(&mut client).await;
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    client.send("POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhello").await;
    assert_eq!(client.response().await.status, 502);
    assert_eq!(backend.connections(), 1);
    assert_eq!(client.get("/x").await.status, 502);
    assert!(backend.connections() > 2, "a GET is tried again");
}

#[tokio::test]
async fn nonsense_from_an_endpoint_is_502() {
    for nonsense in [
        "SSH-2.0-OpenSSH\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent Length: 2\r\n\r\nab",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nab",
        "hello",
    ] {
        let backend = Backend::scripted(move |_, stream| async move {
            let mut client = Client::over(stream);
            request(&mut client).await;
            client.send(nonsense).await;
        })
        .await;
        let gateway = Gateway::to(&[backend.address]).await;
        let mut client = gateway.client().await;
        let response = client.get("/x").await;
        assert_eq!(response.status, 502, "{nonsense:?} {response:?}");
        assert!(response.body.contains("502 Bad Gateway") && response.keeps_alive(), "{response:?}");
        assert!(!response.head.to_lowercase().contains("pingora"), "{response:?}");
    }
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_is_504() {
    let backend = Backend::new().await;
    let gateway = Gateway::tuned(&[backend.address], |settings| {
        settings.proxy_read_timeout = Duration::from_millis(50);
        settings.next_upstream_tries = 1;
    })
    .await;
    let mut client = gateway.client().await;
    let response = client.get("/wait").await;
    assert_eq!(response.status, 504);
    assert!(response.body.contains("504 Gateway Time-out") && response.keeps_alive(), "{response:?}");
}

#[tokio::test]
async fn a_response_that_breaks_off_breaks_off() {
    for head in ["Content-Length: 10", "Transfer-Encoding: chunked"] {
        let backend = Backend::scripted(move |_, stream| async move {
            let mut client = Client::over(stream);
            request(&mut client).await;
            client.send(format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n5\r\n")).await;
        })
        .await;
        let gateway = Gateway::to(&[backend.address]).await;
        let mut client = gateway.client().await;
        client.send("GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
        assert_eq!(client.head().await.status, 200);
        let rest = client.rest().await;
        assert!(rest.len() < 10 && !rest.ends_with("0\r\n\r\n"), "{rest}");
        let lines = gateway.lines(1).await;
        assert!(lines[0].contains("\" 200 "), "{lines:?}");
    }
}

#[tokio::test]
async fn an_early_answer_reaches_a_client_that_still_sends() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        client.until("\r\n\r\n").await;
        client
            .send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\nConnection: close\r\n\r\nstop")
            .await;
        client.read().await;
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    client.send("POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 10000000\r\n\r\nabc").await;
    let response = client.response().await;
    assert_eq!((response.status, response.body.as_str()), (413, "stop"));
    assert!(!response.keeps_alive());
}

#[tokio::test]
async fn https_endpoints_are_not_verified_and_get_no_name() {
    let backend = Backend::with_tls(|stream| async move {
        let name = format!("{:?}", stream.get_ref().1.server_name());
        let mut client = Client::over(stream);
        client.until("\r\n\r\n").await;
        client.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{name}", name.len())).await;
        client.read().await;
    })
    .await;
    let protocol = UpstreamProtocol::HttpsUnverified;
    let gateway = Gateway::with(&[backend.address], protocol, |_| ()).await;
    let response = gateway.client().await.get("/x").await;
    assert_eq!((response.status, response.body.as_str()), (200, "None"));
}

#[tokio::test]
async fn a_body_that_tls_ends_without_close_notify_is_passed_on_in_full() {
    let backend = Backend::with_tls(|stream| async move {
        let mut client = Client::over(stream);
        client.until("\r\n\r\n").await;
        client.send("HTTP/1.1 200 OK\r\n\r\nuntil the end").await;
        // A shutdown of the socket without one of TLS sends no close_notify.
        tokio::io::AsyncWriteExt::shutdown(&mut client.stream.into_inner().0).await.unwrap();
    })
    .await;
    let protocol = UpstreamProtocol::HttpsUnverified;
    let gateway = Gateway::driven(EngineChoice::Direct, &[backend.address], protocol, |_| ()).await;
    let response = gateway.client().await.get("/x").await;
    assert_eq!((response.status, response.body.as_str()), (200, "until the end"));
}

#[tokio::test]
async fn a_response_head_with_bare_line_feeds_is_passed_on() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        client.until("\r\n\r\n").await;
        client.send("HTTP/1.1 200 OK\nContent-Length: 2\nX-A: 1\n\nok").await;
        client.read().await;
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let response = gateway.client().await.get("/x").await;
    assert_eq!((response.status, response.field("x-a"), response.body.as_str()), (200, Some("1"), "ok"));
}

#[tokio::test]
async fn an_answer_that_is_retried_elsewhere_leaves_its_connection_in_the_pool() {
    let unavailable = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        while request(&mut client).await.is_some() {
            client.send("HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno").await;
        }
    })
    .await;
    let backend = Backend::new().await;
    let endpoints = [unavailable.address, backend.address];
    // Pingora closes a connection whose response is not relayed.
    let gateway = Gateway::driven(EngineChoice::Direct, &endpoints, UpstreamProtocol::Http, |settings| {
        settings.next_upstream.http_503 = true;
    })
    .await;
    // One connection, which one worker serves.
    let mut client = gateway.client().await;
    for _ in 0..10 {
        assert_eq!(client.get("/x").await.status, 200);
    }
    assert_eq!((unavailable.connections(), backend.connections()), (1, 1));
}
