//! WebSocket over HTTP/2 (RFC 8441): streams whose endpoints switch protocols.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use h2::client::SendRequest;
use h2::ext::Protocol;
use h2::{RecvStream, SendStream};
use http::{Method, Request, Response};
use sluice_testing::wait::until;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::backend::Backend;
use super::client::{Client, PATIENCE};
use super::gateway::Gateway;
use super::http2::{ask, plain};

const URL: &str = "http://a.example/chat";
/// Time without window after which a stream counts as blocked.
const SILENCE: Duration = Duration::from_millis(300);
/// Maximum window of a stream.
const STREAM_WINDOW: usize = 256 * 1024;

/// The endpoint's answer to the handshake in `head`.
fn accept(head: &str) -> String {
    let key = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("sec-websocket-key").then_some(value)
    });
    let text = format!("{}258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key.expect("a key"));
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    format!(
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Accept: {}\r\nSec-WebSocket-Protocol: chat\r\n\r\n",
        STANDARD.encode(hash)
    )
}

/// Answers handshakes with these bytes.
async fn answering(answer: &'static str) -> Backend {
    Backend::scripted(move |_, stream| async move {
        let mut client = Client::over(stream);
        client.until("\r\n\r\n").await;
        client.send(answer).await;
        client.read().await;
    })
    .await
}

/// Accepts handshakes and then reads nothing until the gate opens. Answers uploads.
async fn deaf(gate: &Arc<Semaphore>) -> Backend {
    let gate = gate.clone();
    Backend::scripted(move |_, stream| {
        let gate = gate.clone();
        async move {
            let mut client = Client::over(stream);
            let head = client.until("\r\n\r\n").await;
            if head.starts_with("GET /chat") {
                client.send(accept(&head)).await;
                let _ = gate.acquire().await;
            } else {
                let length: usize = head
                    .to_ascii_lowercase()
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
                    .unwrap_or(0);
                client.exactly(length).await;
                client.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok").await;
            }
        }
    })
    .await
}

fn request(protocol: &'static str) -> Request<()> {
    let mut request = Request::builder()
        .method(Method::CONNECT)
        .uri(URL)
        .header("sec-websocket-version", "13")
        .header("sec-websocket-protocol", "chat")
        .body(())
        .unwrap();
    request.extensions_mut().insert(Protocol::from_static(protocol));
    request
}

/// Opens a stream; the SETTINGS of the gateway must have arrived.
async fn connect(
    client: &mut SendRequest<Bytes>,
    request: Request<()>,
) -> Result<(Response<RecvStream>, SendStream<Bytes>), h2::Error> {
    until("extended CONNECT", || client.is_extended_connect_protocol_enabled()).await;
    let (response, send) = client.clone().ready().await?.send_request(request, false)?;
    Ok((timeout(PATIENCE, response).await.expect("in time")?, send))
}

/// Reads from a stream until `end`.
async fn read_until(stream: &mut RecvStream, end: &str) -> String {
    let mut text = String::new();
    while !text.ends_with(end) {
        let piece = timeout(PATIENCE, stream.data()).await.expect("in time").expect("more").unwrap();
        stream.flow_control().release_capacity(piece.len()).unwrap();
        text += str::from_utf8(&piece).unwrap();
    }
    text
}

#[tokio::test]
async fn a_stream_becomes_a_tunnel_to_an_endpoint_of_http1() {
    let backend = Backend::shouting(accept).await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let (response, mut send) = connect(&mut client, request("websocket")).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["sec-websocket-protocol"], "chat");
    for name in ["sec-websocket-accept", "upgrade", "connection"] {
        assert!(!response.headers().contains_key(name), "{name}");
    }
    let mut stream = response.into_body();
    assert_eq!(read_until(&mut stream, ";").await, "ready;");
    for word in ["hello;", "again;"] {
        send.send_data(word.into(), false).unwrap();
        assert_eq!(read_until(&mut stream, ";").await, word.to_ascii_uppercase());
    }
    // The end of the stream ends the endpoint's connection.
    send.send_data("bye;".into(), true).unwrap();
    assert_eq!(read_until(&mut stream, ";").await, "BYE;");
    // An empty frame has the end.
    while let Some(piece) = timeout(PATIENCE, stream.data()).await.expect("in time") {
        assert_eq!(piece.expect("the stream ends in order"), "");
    }
    let lines = gateway.lines(1).await;
    assert!(lines[0].contains("\"GET /chat HTTP/2.0\" 200"), "{lines:?}");
}

#[tokio::test]
async fn many_bytes_pass_both_ways() {
    let backend = Backend::shouting(accept).await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let (response, mut send) = connect(&mut client, request("websocket")).await.unwrap();
    let mut stream = response.into_body();
    assert_eq!(read_until(&mut stream, ";").await, "ready;");
    let all = "x".repeat(2_000_000) + ";";
    let sent = all.clone();
    let sending = async move {
        let mut rest = Bytes::from(sent);
        while !rest.is_empty() {
            send.reserve_capacity(rest.len());
            let room = poll_fn(|cx| send.poll_capacity(cx)).await.unwrap().unwrap();
            send.send_data(rest.split_to(room.min(rest.len())), false).unwrap();
        }
        send
    };
    let (_send, echoed) = tokio::join!(sending, read_until(&mut stream, ";"));
    assert!(echoed == all.to_ascii_uppercase(), "{} bytes", echoed.len());
}

#[tokio::test]
async fn an_endpoint_that_refuses_answers_the_stream() {
    let backend =
        answering("HTTP/1.1 403 Forbidden\r\nX-Reason: origin\r\nContent-Length: 2\r\n\r\nno").await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let (response, _send) = connect(&mut client, request("websocket")).await.unwrap();
    let reason = response.headers()["x-reason"].to_str().unwrap();
    assert_eq!((response.status().as_u16(), reason), (403, "origin"));
    assert_eq!(read_until(&mut response.into_body(), "no").await, "no");
}

#[tokio::test]
async fn an_answer_that_is_no_handshake_is_502_and_never_200() {
    for answer in [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: AAAA\r\n\r\n",
    ] {
        let backend = answering(answer).await;
        let gateway = Gateway::to(&[backend.address]).await;
        let (mut client, _) = plain(&gateway).await;
        let (response, _send) = connect(&mut client, request("websocket")).await.unwrap();
        assert_eq!(response.status(), 502, "{answer:?}");
    }
}

#[tokio::test]
async fn other_protocols_are_501() {
    let backend = Backend::shouting(accept).await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let (response, _send) = connect(&mut client, request("connect-udp")).await.unwrap();
    assert_eq!((response.status().as_u16(), backend.connections()), (501, 0));
    assert_eq!(ask(&mut client, Method::CONNECT, "a.example:443", "").await.unwrap().0, 405);
}

/// Sends until the windows are used up, and returns how much that was.
async fn fill(send: &mut SendStream<Bytes>) -> usize {
    let mut sent = 0;
    loop {
        send.reserve_capacity(64 * 1024);
        let Ok(room) = timeout(SILENCE, poll_fn(|cx| send.poll_capacity(cx))).await else { break };
        let room = room.unwrap().unwrap();
        send.send_data(vec![b'x'; room].into(), false).unwrap();
        sent += room;
    }
    // Otherwise the client would keep the next window for this stream, which does not use it.
    send.reserve_capacity(0);
    sent
}

/// Sends a request with a body of this length. Returns the status of the response.
async fn upload(client: &mut SendRequest<Bytes>, length: usize) -> u16 {
    let request = Request::post("http://a.example/up").header("content-length", length).body(()).unwrap();
    let (response, mut send) = client.clone().ready().await.unwrap().send_request(request, false).unwrap();
    let mut rest = Bytes::from(vec![b'y'; length]);
    while !rest.is_empty() {
        send.reserve_capacity(rest.len());
        let room = timeout(PATIENCE, poll_fn(|cx| send.poll_capacity(cx))).await;
        let room = room.expect("the connection has window").unwrap().unwrap();
        let part = rest.split_to(room.min(rest.len()));
        send.send_data(part, rest.is_empty()).unwrap();
    }
    let response = timeout(PATIENCE, response).await.expect("in time").unwrap();
    let status = response.status().as_u16();
    assert_eq!(read_until(&mut response.into_body(), "ok").await, "ok");
    status
}

#[tokio::test]
async fn a_tunnel_that_is_not_read_leaves_other_streams_their_window() {
    let gate = Arc::new(Semaphore::new(0));
    let backend = deaf(&gate).await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let (response, mut send) = connect(&mut client, request("websocket")).await.unwrap();
    assert_eq!(response.status(), 200);
    let sent = fill(&mut send).await;
    // Most of them fill the sockets between gateway and endpoint.
    assert!(sent < 16 * 1024 * 1024, "{sent}");
    for _ in 0..3 {
        assert_eq!(upload(&mut client, 300_000).await, 200);
        // While the other stream is read the window grows, at most to that of the tunnel's stream.
        let more = fill(&mut send).await;
        assert!(more <= STREAM_WINDOW, "{more}");
    }
    gate.add_permits(1);
}

#[tokio::test]
async fn streams_that_clients_reset_or_abandon_do_not_pin_the_window() {
    let gate = Arc::new(Semaphore::new(0));
    let backend = deaf(&gate).await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let mut abandoned = Vec::new();
    for round in 0..6 {
        let (response, mut send) = connect(&mut client, request("websocket")).await.unwrap();
        fill(&mut send).await;
        match round % 3 {
            0 => send.send_reset(h2::Reason::CANCEL),
            // The client ends its side and reads no more.
            1 => send.send_data(Bytes::new(), true).unwrap(),
            // The stream stays open.
            _ => {}
        }
        if round % 3 > 0 {
            abandoned.push((response, send));
        }
        assert_eq!(upload(&mut client, 200_000).await, 200, "round {round}");
    }
    gate.add_permits(100);
}

#[tokio::test]
async fn a_client_that_cancels_its_stream_ends_the_connection_to_the_endpoint() {
    let ended = Arc::new(AtomicUsize::new(0));
    let counted = ended.clone();
    let backend = Backend::scripted(move |_, stream| {
        let ended = counted.clone();
        async move {
            let mut client = Client::over(stream);
            let head = client.until("\r\n\r\n").await;
            client.send(accept(&head)).await;
            while client.read().await > 0 {}
            ended.fetch_add(1, SeqCst);
        }
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let (response, mut send) = connect(&mut client, request("websocket")).await.unwrap();
    assert_eq!(response.status(), 200);
    send.send_reset(h2::Reason::CANCEL);
    until("the end of the endpoint's connection", || ended.load(SeqCst) == 1).await;
    assert!(gateway.lines(1).await[0].contains("\"GET /chat HTTP/2.0\" 200"));
}

#[tokio::test]
async fn an_idle_tunnel_ends_after_the_read_timeout() {
    let backend = Backend::shouting(accept).await;
    let limit = Duration::from_millis(200);
    let gateway = Gateway::tuned(&[backend.address], |settings| settings.proxy_read_timeout = limit).await;
    let (mut client, _) = plain(&gateway).await;
    let (response, _send) = connect(&mut client, request("websocket")).await.unwrap();
    let mut stream = response.into_body();
    assert_eq!(read_until(&mut stream, ";").await, "ready;");
    let error = timeout(PATIENCE, stream.data()).await.expect("in time").expect("a reset").unwrap_err();
    assert_eq!(error.reason(), Some(h2::Reason::CANCEL));
}
