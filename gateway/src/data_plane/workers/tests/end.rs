//! Shutdown of the program from the perspective of HTTP/1 connections.

use std::future::poll_fn;
use std::time::Duration;

use sluice_testing::wait::until;

use super::backend::Backend;
use super::client::{Client, PATIENCE};
use super::gateway::Gateway;

#[tokio::test]
async fn while_draining_every_answer_is_the_last() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut old = gateway.client().await;
    assert!(old.get("/x").await.keeps_alive());
    gateway.drain.begin();
    assert!(!old.get("/x").await.keeps_alive());
    old.ends().await;
    let mut new = gateway.client().await;
    assert!(!new.get("/x").await.keeps_alive(), "new connections are still taken");
    new.ends().await;
    let mut own = gateway.client().await;
    own.send("GET / HTTP/1.1\r\nHost: unknown.example\r\n\r\n").await;
    assert!(!own.response().await.keeps_alive());
}

#[tokio::test]
async fn closing_ends_idle_connections_and_lets_requests_finish() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut fresh = gateway.client().await;
    let mut idle = gateway.client().await;
    assert_eq!(idle.get("/x").await.status, 200);
    let mut running = gateway.client().await;
    running.send("GET /wait HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    until("2 requests at the endpoint", || backend.requests() >= 2).await;
    gateway.drain.begin();
    gateway.close();
    fresh.ends().await;
    idle.ends().await;
    assert!(!gateway.drain.ended(Duration::ZERO).await);
    assert_eq!(gateway.drain.requests(), 1);
    backend.gate.add_permits(1);
    let response = running.response().await;
    assert!(response.status == 200 && !response.keeps_alive(), "{response:?}");
    running.ends().await;
    assert!(gateway.drain.ended(PATIENCE).await);
    assert!(tokio::net::TcpStream::connect(gateway.http).await.is_err(), "the socket is closed");
}

#[tokio::test]
async fn upgraded_connections_count_as_running() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        client.until("\r\n\r\n").await;
        client.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n").await;
        while client.read().await > 0 {
            let echo = std::mem::take(&mut client.buf);
            client.send(echo).await;
        }
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    client.send("GET /x HTTP/1.1\r\nHost: a.example\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n").await;
    assert_eq!(client.head().await.status, 101);
    gateway.drain.begin();
    gateway.close();
    client.send("hello").await;
    assert_eq!(client.exactly(5).await, "hello");
    assert!(!gateway.drain.ended(Duration::from_millis(20)).await);
    drop(client);
    assert!(gateway.drain.ended(PATIENCE).await);
}

#[tokio::test]
async fn connections_in_the_accept_queue_are_served() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    assert_eq!(gateway.client().await.get("/x").await.status, 200, "the worker accepts");
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = gateway.client().await;
        client.send("GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
        clients.push(client);
    }
    gateway.drain.begin();
    gateway.close();
    for client in &mut clients {
        assert_eq!(client.response().await.status, 200);
    }
    assert!(gateway.drain.ended(PATIENCE).await);
}

#[tokio::test]
async fn requests_beyond_the_timeout_are_cut_off_and_logged() {
    let backend = Backend::new().await;
    let mut gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    client.send("GET /wait HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    until("a request at the endpoint", || backend.requests() >= 1).await;
    gateway.drain.begin();
    gateway.close();
    assert!(!gateway.drain.ended(Duration::from_millis(10)).await);
    gateway.stop();
    client.ends().await;
    let lines = gateway.lines(1).await;
    assert!(lines[0].contains("\"GET /wait HTTP/1.1\" 499"), "{lines:?}");
}

/// In a container, data in the kernel's buffers is lost when the program exits.
#[tokio::test]
async fn unsent_bytes_were_lost_with_the_process() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        client.until("\r\n\r\n").await;
        // In one piece, because the kernel charges an overhead for each piece.
        let body = "x".repeat(LARGE);
        client.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n{body}")).await;
        client.read().await;
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut client = Client::over(socket.connect(gateway.http).await.unwrap());
    // The workers may not have seen the listeners yet.
    until("the connection", || gateway.drain.connections() == 1).await;
    gateway.drain.begin();
    client.send("GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    gateway.close();
    // The response is complete for the gateway as soon as the kernel has accepted it.
    gateway.lines(1).await;
    assert!(!gateway.drain.ended(Duration::from_millis(200)).await, "the client has not got it");
    let head = client.head().await;
    assert_eq!(head.status, 200);
    client.exactly(LARGE).await;
    assert!(gateway.drain.ended(PATIENCE).await);
}

/// More than the client's buffer holds, and less than the gateway's, which starts with 16 KiB.
const LARGE: usize = 12 * 1024;

#[tokio::test]
async fn an_unneeded_request_body_held_up_the_shutdown() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        client.until("\r\n\r\n").await;
        client.send("HTTP/1.1 413 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno").await;
        client.read().await;
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _connection) = super::http2::plain(&gateway).await;
    let request = http::Request::post("http://a.example/x").body(()).unwrap();
    let (response, mut send) = client.send_request(request, false).unwrap();
    send.send_data("x".into(), false).unwrap();
    assert_eq!(response.await.unwrap().status(), 413);
    let trickle = tokio::spawn(async move {
        // Sends as fast as the gateway reads, until it stops reading.
        loop {
            send.reserve_capacity(1);
            match poll_fn(|cx| send.poll_capacity(cx)).await {
                Some(Ok(_)) if send.send_data("x".into(), false).is_ok() => {}
                _ => break,
            }
        }
    });
    gateway.drain.begin();
    gateway.close();
    assert!(gateway.drain.ended(PATIENCE).await);
    trickle.abort();
}
