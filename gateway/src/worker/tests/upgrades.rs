//! WebSocket and every other upgrade.

use super::backend::Backend;
use super::client::Client;
use super::gateway::Gateway;

/// Switches protocols, then sends everything back in upper case.
async fn shouting() -> Backend {
    Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        let head = client.until("\r\n\r\n").await.to_ascii_lowercase();
        assert!(head.contains("connection: upgrade\r\n"), "{head}");
        // The first words of the new protocol come right behind the head.
        client
            .send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat/2\r\n\r\nready;")
            .await;
        loop {
            let shout = std::mem::take(&mut client.buf).to_ascii_uppercase();
            client.send(shout).await;
            if client.read().await == 0 {
                return;
            }
        }
    })
    .await
}

const UPGRADE: &str =
    "GET /chat HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: chat/2\r\n\r\n";

#[tokio::test]
async fn an_upgrade_passes_both_ways() {
    let backend = shouting().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    client.send(UPGRADE).await;
    let head = client.head().await;
    assert_eq!((head.status, head.field("upgrade")), (101, Some("chat/2")), "{head:?}");
    assert_eq!(client.until(";").await, "ready;");
    for word in ["hello;", "GET / HTTP/1.1\r\n\r\n;"] {
        client.send(word).await;
        assert_eq!(client.until(";").await, word.to_ascii_uppercase());
    }
    drop(client);
    let lines = gateway.lines(1).await;
    assert!(lines[0].contains("\"GET /chat HTTP/1.1\" 101"), "{lines:?}");
}

#[tokio::test]
async fn what_a_client_says_before_the_switch_arrives_after_it() {
    let backend = shouting().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    client.send(format!("{UPGRADE}hello;")).await;
    assert_eq!(client.head().await.status, 101);
    assert_eq!(client.until(";").await, "ready;");
    assert_eq!(client.until(";").await, "HELLO;");
}

#[tokio::test]
async fn a_refused_upgrade_is_a_request_like_any_other() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    client.send(UPGRADE).await;
    assert_eq!(client.response().await.status, 200);
    assert_eq!(client.get("/x").await.status, 200);
}

#[tokio::test]
async fn the_end_of_an_endpoint_is_the_end_of_the_connection() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        client.until("\r\n\r\n").await;
        client
            .send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat/2\r\n\r\nbye")
            .await;
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    client.send(UPGRADE).await;
    assert_eq!(client.head().await.status, 101);
    assert_eq!(client.rest().await, "bye");
}
