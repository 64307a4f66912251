//! The end of the program, seen from HTTP/1 connections.

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
async fn closing_ends_what_is_idle_and_lets_what_runs_finish() {
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
async fn who_does_not_end_in_time_is_cut_off_and_logged() {
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
