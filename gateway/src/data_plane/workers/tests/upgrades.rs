//! WebSocket and other upgrades.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_config::UpstreamProtocol;
use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::backend::{Backend, request};
use super::client::{Client, PATIENCE};
use super::gateway::{Gateway, through_proxy};
use super::tls::handshake;

/// The endpoint's answer to a request to switch protocols.
fn accept(head: &str) -> String {
    assert!(head.to_ascii_lowercase().contains("connection: upgrade\r\n"), "{head}");
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat/2\r\n\r\n".to_owned()
}

const UPGRADE: &str =
    "GET /chat HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: chat/2\r\n\r\n";

#[tokio::test]
async fn an_upgrade_passes_both_ways() {
    let backend = Backend::shouting(accept).await;
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
async fn bytes_sent_before_the_switch_arrive_after_it() {
    let backend = Backend::shouting(accept).await;
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

/// Starts a backend that switches protocols for every client and then runs a script.
async fn switching<F>(script: impl Fn(Client) -> F + Clone + Send + 'static) -> Backend
where
    F: Future<Output = ()> + Send + 'static,
{
    Backend::scripted(move |_, stream| {
        let script = script.clone();
        async move {
            let mut client = Client::over(stream);
            client.until("\r\n\r\n").await;
            client
                .send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat/2\r\n\r\n")
                .await;
            script(client).await;
        }
    })
    .await
}

/// Returns a client after the upgrade.
async fn upgraded(gateway: &Gateway) -> Client {
    let mut client = gateway.client().await;
    client.send(UPGRADE).await;
    assert_eq!(client.head().await.status, 101);
    client
}

#[tokio::test]
async fn bytes_are_counted_both_ways() {
    let backend = Backend::shouting(accept).await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    client.send(format!("{UPGRADE}one;")).await;
    assert_eq!(client.head().await.status, 101);
    assert_eq!(client.until("ONE;").await, "ready;ONE;");
    client.send("two;").await;
    assert_eq!(client.until(";").await, "TWO;");
    drop(client);
    let line = gateway.lines(1).await.remove(0);
    assert!(line.contains("\" 101 14 "), "what the client got: {line}");
    assert!(line.contains(&format!("\" {} ", UPGRADE.len() + 8)), "what it sent: {line}");
    assert!(line.contains(&format!(" {} 14 ", backend.address)), "what the endpoint sent: {line}");
}

#[tokio::test]
async fn the_end_of_a_client_is_passed_on() {
    let backend = switching(|mut client| async move {
        assert_eq!(client.rest().await, "question");
        client.send("answer").await;
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = upgraded(&gateway).await;
    client.send("question").await;
    client.stream.shutdown().await.unwrap();
    if !through_proxy() {
        // Through Pingora, the end of either side ends both.
        assert_eq!(client.rest().await, "answer");
    }
    assert!(gateway.lines(1).await[0].contains("\" 101 "));
}

#[tokio::test]
async fn the_end_of_an_endpoint_is_passed_on() {
    let (heard, mut hears) = tokio::sync::mpsc::channel(1);
    let backend = switching(move |mut client| {
        let heard = heard.clone();
        async move {
            client.send("bye").await;
            client.stream.shutdown().await.unwrap();
            heard.send(client.rest().await).await.unwrap();
        }
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = upgraded(&gateway).await;
    assert_eq!(client.rest().await, "bye");
    if !through_proxy() {
        client.send("and you").await;
        drop(client);
        assert_eq!(hears.recv().await.unwrap(), "and you");
    }
    assert!(gateway.lines(1).await[0].contains("\" 101 3 "));
}

/// Closes a connection with a reset.
fn reset(client: Client) {
    SockRef::from(&client.stream).set_linger(Some(Duration::ZERO)).unwrap();
}

#[tokio::test]
async fn a_reset_of_either_side_ends_both() {
    let (ended, mut ends) = tokio::sync::mpsc::channel(1);
    let backend = switching(move |mut client| {
        let ended = ended.clone();
        async move {
            if client.until(";").await == "go;" {
                return reset(client);
            }
            client.send("ready;").await;
            ended.send(client.rest().await).await.unwrap();
        }
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = upgraded(&gateway).await;
    client.send("go;").await;
    client.ends().await;
    let mut client = upgraded(&gateway).await;
    client.send("stay;").await;
    assert_eq!(client.until(";").await, "ready;");
    reset(client);
    assert_eq!(timeout(PATIENCE, ends.recv()).await.unwrap().unwrap(), "");
    gateway.lines(2).await;
    // Neither reset affects the health of the endpoint.
    assert_eq!(gateway.plane.state.registry.health().ejected, 0);
}

/// Writes until the peer accepts no more data. Returns the number of accepted bytes.
async fn fill(client: &mut Client) -> usize {
    let (piece, mut taken) = (vec![b'x'; 64 * 1024], 0);
    while let Ok(written) = timeout(Duration::from_millis(500), client.stream.write(&piece)).await {
        taken += written.unwrap();
    }
    taken
}

/// More than the sockets on the way can hold, whatever the sizes of the kernel's buffers.
const TOO_MUCH: usize = 64 * 1024 * 1024;

#[tokio::test]
async fn nothing_is_read_for_a_client_that_does_not_read() {
    let (filled, mut fills) = tokio::sync::mpsc::channel(1);
    let backend = switching(move |mut client| {
        let filled = filled.clone();
        async move {
            filled.send(fill(&mut client).await).await.unwrap();
        }
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = upgraded(&gateway).await;
    let sent = fills.recv().await.unwrap();
    assert!(sent < TOO_MUCH, "{sent}");
    assert_eq!(client.rest().await.len(), sent, "and nothing is lost");
}

#[tokio::test]
async fn nothing_is_read_for_an_endpoint_that_does_not_read() {
    let gate = Arc::new(Semaphore::new(0));
    let opens = gate.clone();
    let backend = switching(move |mut client| {
        let gate = gate.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            let mut seen = 0;
            while seen == 0 || !client.buf.ends_with(b";") {
                client.buf.clear();
                seen += client.read().await;
            }
            client.send(format!("{seen};")).await;
            client.read().await;
        }
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = upgraded(&gateway).await;
    let sent = fill(&mut client).await;
    assert!(sent < TOO_MUCH, "{sent}");
    opens.add_permits(1);
    client.send(";").await;
    assert_eq!(client.until(";").await, format!("{};", sent + 1), "and nothing is lost");
}

#[tokio::test]
async fn an_endpoint_that_accepts_nothing_ends_it_after_the_send_timeout() {
    if through_proxy() {
        // Pingora continues to read from the endpoint, and ends the connection after the read
        // timeout.
        return;
    }
    let backend = switching(|client| async move {
        let _open = client;
        std::future::pending::<()>().await;
    })
    .await;
    let gateway = Gateway::tuned(&[backend.address], |settings| {
        settings.proxy_send_timeout = Duration::from_millis(300)
    })
    .await;
    let mut client = upgraded(&gateway).await;
    let piece = vec![b'x'; 64 * 1024];
    let broken = async { while client.stream.write(&piece).await.is_ok() {} };
    timeout(PATIENCE / 2, broken).await.expect("it ends");
    assert!(gateway.lines(1).await[0].contains("\" 101 0 "));
}

#[tokio::test]
async fn much_passes_both_ways_at_once() {
    let backend = Backend::shouting(accept).await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    let word = format!("{};", "hello".repeat(100_000));
    client.send(format!("{UPGRADE}{word}")).await;
    assert_eq!(client.head().await.status, 101);
    assert_eq!(client.until(";").await, "ready;");
    assert!(client.until(";").await == word.to_ascii_uppercase());
}

#[tokio::test]
async fn a_refused_upgrade_leaves_both_connections_framed() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        while let Some((head, _)) = request(&mut client).await {
            let status = if head.contains("upgrade: ") { "403 Forbidden" } else { "200 OK" };
            client.send(format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nok")).await;
        }
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = gateway.client().await;
    client.send(format!("{UPGRADE}GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n")).await;
    for status in [403, 200] {
        let response = client.response().await;
        assert_eq!((response.status, response.body.as_str()), (status, "ok"));
        assert!(response.keeps_alive(), "{response:?}");
    }
    assert_eq!(backend.connections(), 1);
}

#[tokio::test]
async fn an_upgraded_connection_serves_no_other_request() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        while let Some((head, _)) = request(&mut client).await {
            match head.contains("connection: upgrade\r\n") {
                true => {
                    let head =
                        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";
                    client.send(head).await;
                    assert_eq!(client.rest().await, "", "no request");
                }
                false => client.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await,
            }
        }
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    assert_eq!(gateway.client().await.get("/x").await.status, 200);
    drop(upgraded(&gateway).await);
    gateway.lines(2).await;
    assert_eq!(gateway.client().await.get("/x").await.status, 200);
    assert!(backend.connections() >= 2);
}

#[tokio::test]
async fn an_upgrade_is_requested_without_keep_alive_too() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        let head = client.until("\r\n\r\n").await.to_ascii_lowercase();
        client.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{head}", head.len())).await;
        client.read().await;
    })
    .await;
    let gateway =
        Gateway::tuned(&[backend.address], |settings| settings.upstream_keepalive_connections = 0).await;
    let mut client = gateway.client().await;
    client.send(UPGRADE).await;
    let body = client.response().await.body;
    assert!(body.contains("\r\nconnection: upgrade\r\n") && !body.contains("close"), "{body}");
}

#[tokio::test]
async fn silence_of_both_sides_ends_after_the_read_timeout() {
    let backend = Backend::shouting(accept).await;
    let limit = Duration::from_millis(100);
    let gateway = Gateway::tuned(&[backend.address], |settings| settings.proxy_read_timeout = limit).await;
    let mut client = gateway.client().await;
    let began = Instant::now();
    client.send(UPGRADE).await;
    assert_eq!(client.head().await.status, 101);
    assert_eq!(client.rest().await, "ready;");
    assert!(began.elapsed() >= limit, "{:?}", began.elapsed());
    assert!(gateway.lines(1).await[0].contains("\" 101 6 "));
}

#[tokio::test]
async fn the_time_for_a_body_is_none_for_an_upgraded_connection() {
    let backend = Backend::shouting(accept).await;
    let limit = Duration::from_millis(10);
    let gateway = Gateway::tuned(&[backend.address], |settings| settings.client_body_timeout = limit).await;
    let mut client = upgraded(&gateway).await;
    assert_eq!(client.until(";").await, "ready;");
    for _ in 0..3 {
        sleep(2 * limit).await;
        client.send("x;").await;
        assert_eq!(client.until(";").await, "X;");
    }
}

#[tokio::test]
async fn an_upgrade_passes_through_tls_on_both_sides() {
    let backend = Backend::with_tls(|stream| async move {
        let mut client = Client::over(stream);
        client.until("\r\n\r\n").await;
        let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat/2\r\n\r\n";
        client.send(format!("{head}ready;")).await;
        let word = client.until(";").await;
        client.send(word.to_ascii_uppercase()).await;
        client.stream.shutdown().await.unwrap();
        client.rest().await;
    })
    .await;
    let gateway = Gateway::with(&[backend.address], UpstreamProtocol::HttpsUnverified, |_| ()).await;
    let stream = handshake(&gateway, Some("a.example"), &[], &[&rustls::version::TLS13]).await;
    let mut client = Client::over(stream);
    client.send(UPGRADE).await;
    assert_eq!(client.head().await.status, 101);
    assert_eq!(client.until(";").await, "ready;");
    let word = format!("{};", "hello".repeat(50_000));
    client.send(&word).await;
    assert!(client.until(";").await == word.to_ascii_uppercase());
    let mut byte = [0];
    assert_eq!(client.stream.read(&mut byte).await.unwrap(), 0, "TLS ends in order");
}

#[tokio::test]
async fn an_upgrade_may_have_a_body() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        let (_, body) = request(&mut client).await.unwrap();
        let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: chat/2\r\n\r\n";
        client.send(format!("{head}{body};")).await;
        let word = client.until(";").await;
        client.send(word).await;
        client.read().await;
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    for body in
        ["Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]
    {
        let mut client = gateway.client().await;
        client
            .send(format!(
                "POST /x HTTP/1.1\r\nHost: a.example\r\nConnection: upgrade\r\nUpgrade: chat/2\r\n{body}"
            ))
            .await;
        assert_eq!(client.head().await.status, 101);
        assert_eq!(client.until(";").await, "hello;");
        client.send("more;").await;
        assert_eq!(client.until(";").await, "more;");
    }
}

#[tokio::test]
async fn one_that_is_cut_off_is_logged() {
    let backend = Backend::shouting(accept).await;
    let mut gateway = Gateway::to(&[backend.address]).await;
    let mut client = upgraded(&gateway).await;
    assert_eq!(client.until(";").await, "ready;");
    gateway.drain.begin();
    gateway.close();
    assert!(!gateway.drain.ended(Duration::from_millis(10)).await);
    gateway.stop();
    client.ends().await;
    let line = gateway.lines(1).await.remove(0);
    // Through Pingora, the request counts as aborted by the client: 499.
    assert!(through_proxy() || line.contains("\" 101 6 "), "{line}");
}

#[tokio::test]
async fn a_client_may_upgrade_while_the_program_ends() {
    let backend = Backend::shouting(accept).await;
    let gateway = Gateway::to(&[backend.address]).await;
    gateway.drain.begin();
    let mut client = upgraded(&gateway).await;
    assert_eq!(client.until(";").await, "ready;");
    gateway.close();
    client.send("on;").await;
    assert_eq!(client.until(";").await, "ON;");
    assert_eq!(gateway.drain.requests(), 1);
    drop(client);
    assert!(gateway.drain.ended(PATIENCE).await);
}
