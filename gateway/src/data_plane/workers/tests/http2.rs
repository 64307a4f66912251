//! HTTP/2: negotiation by ALPN and prior knowledge, limits, and shutdown.

use std::time::Duration;

use bytes::Bytes;
use h2::client::{SendRequest, handshake};
use http::{Method, Request};
use sluice_config::GlobalSettings;
use sluice_testing::wait::until;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;

use super::backend::{self, Backend};
use super::client::{Client, PATIENCE};
use super::frames::{
    self, CONTINUATION, DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, PING, PROTOCOL_ERROR,
    RST_STREAM, WINDOW_UPDATE, frame, request,
};
use super::gateway::Gateway;
use super::tls;

pub(super) type Ended = JoinHandle<Result<(), h2::Error>>;

pub(super) async fn start(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> (SendRequest<Bytes>, Ended) {
    let (client, connection) = handshake(stream).await.unwrap();
    (client.ready().await.unwrap(), tokio::spawn(connection))
}

pub(super) async fn plain(gateway: &Gateway) -> (SendRequest<Bytes>, Ended) {
    start(TcpStream::connect(gateway.http).await.unwrap()).await
}

pub(super) async fn ask(
    client: &mut SendRequest<Bytes>,
    method: Method,
    uri: &str,
    body: &'static str,
) -> Result<(u16, http::HeaderMap, String), h2::Error> {
    let request = Request::builder().method(method).uri(uri).body(()).unwrap();
    let (response, mut send) = client.clone().ready().await?.send_request(request, body.is_empty())?;
    if !body.is_empty() {
        send.send_data(body.into(), true)?;
    }
    let response = tokio::time::timeout(PATIENCE, response).await.expect("in time")?;
    let (head, mut stream) = response.into_parts();
    let mut text = Vec::new();
    while let Some(piece) = stream.data().await {
        let piece = piece?;
        stream.flow_control().release_capacity(piece.len())?;
        text.extend_from_slice(&piece);
    }
    Ok((head.status.as_u16(), head.headers, String::from_utf8(text).unwrap()))
}

pub(super) async fn get(client: &mut SendRequest<Bytes>, uri: &str) -> (u16, http::HeaderMap, String) {
    ask(client, Method::GET, uri, "").await.unwrap()
}

#[tokio::test]
async fn by_alpn() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let versions = [&rustls::version::TLS13];
    let stream = tls::handshake(&gateway, Some("a.example"), &["h2"], &versions).await;
    let (mut client, _) = start(stream).await;
    let (status, fields, body) = get(&mut client, "https://a.example/x?q").await;
    assert_eq!(status, 200);
    assert!(body.starts_with("get /x?q http/1.1\r\n") && body.contains("\r\nhost: a.example\r\n"), "{body}");
    assert!(body.contains("\r\nx-forwarded-proto: https\r\n"), "{body}");
    assert!(
        fields.contains_key("server") && fields.contains_key("date") && !fields.contains_key("connection")
    );
    let (status, _, body) = ask(&mut client, Method::POST, "https://a.example/x", "hello").await.unwrap();
    assert!(status == 200 && body.ends_with("\r\n\r\nhello"), "{body}");
    let (status, _, body) = get(&mut client, "https://a.example/chunked").await;
    assert_eq!((status, body.as_str()), (200, "hello"));
}

#[tokio::test]
async fn by_prior_knowledge_with_streams_side_by_side() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let mut waiting = client.clone();
    let waiting = tokio::spawn(async move { get(&mut waiting, "http://a.example/wait").await });
    until("a request at the endpoint", || backend.requests() >= 1).await;
    assert_eq!(get(&mut client, "http://a.example/x").await.0, 200);
    backend.gate.add_permits(1);
    assert_eq!(waiting.await.unwrap().0, 200);
    let (status, fields, body) = get(&mut client, "http://unknown.example/").await;
    assert!(status == 404 && body.contains("404 Not Found") && fields["server"] == "sluice", "{fields:?}");
    let lines = gateway.lines(2).await;
    assert!(lines.iter().any(|line| line.contains("\"GET /x HTTP/2.0\" 200")), "{lines:?}");
}

#[tokio::test]
async fn the_preface_may_come_in_pieces() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (near, mut far) = tokio::io::duplex(64 * 1024);
    let mut stream = TcpStream::connect(gateway.http).await.unwrap();
    stream.set_nodelay(true).unwrap();
    tokio::spawn(async move {
        let mut first = [0; 24];
        tokio::io::AsyncReadExt::read_exact(&mut far, &mut first).await.unwrap();
        for piece in first.chunks(5) {
            stream.write_all(piece).await.unwrap();
            stream.flush().await.unwrap();
            tokio::task::yield_now().await;
        }
        let _ = tokio::io::copy_bidirectional(&mut far, &mut stream).await;
    });
    let (mut client, _) = start(near).await;
    assert_eq!(get(&mut client, "http://a.example/x").await.0, 200);
    let mut other = gateway.client().await;
    other.send("PRI * HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    assert_eq!(other.response().await.status, 400, "begins like a preface and is none");
}

#[tokio::test]
async fn requests_that_http1_would_refuse_are_refused() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let (status, _, body) = ask(&mut client, Method::CONNECT, "a.example:443", "").await.unwrap();
    assert!(status == 405 && body.contains("405 Not Allowed"), "{body}");
    let request = Request::get("http://a.example/x").header("host", "b.example").body(()).unwrap();
    let (response, _) = client.send_request(request, true).unwrap();
    assert_eq!(response.await.unwrap().status().as_u16(), 400, "two hosts");
    assert_eq!(get(&mut client, "http://a.example/x").await.0, 200);
    let lines = gateway.lines(3).await;
    assert!(lines[0].contains("\"CONNECT a.example:443 HTTP/2.0\" 405"), "{lines:?}");
    assert!(lines[1].contains("\" 400 "), "{lines:?}");
}

#[tokio::test]
async fn the_end_of_the_program() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut busy, busy_ended) = plain(&gateway).await;
    let (mut idle, idle_ended) = plain(&gateway).await;
    assert_eq!(get(&mut idle, "http://a.example/x").await.0, 200);
    let running = tokio::spawn(async move { get(&mut busy, "http://a.example/wait").await });
    until("2 requests at the endpoint", || backend.requests() >= 2).await;
    gateway.drain.begin();
    // After GOAWAY, idle connections end and running requests continue.
    tokio::time::timeout(PATIENCE, idle_ended).await.unwrap().unwrap().unwrap();
    assert!(!running.is_finished());
    // A new connection may send one request.
    let (mut late, late_ended) = plain(&gateway).await;
    assert_eq!(get(&mut late, "http://a.example/late").await.0, 200);
    tokio::time::timeout(PATIENCE, late_ended).await.unwrap().unwrap().unwrap();
    let (_silent, silent_ended) = plain(&gateway).await;
    gateway.close();
    tokio::time::timeout(PATIENCE, silent_ended).await.unwrap().unwrap().unwrap();
    assert!(!gateway.drain.ended(std::time::Duration::ZERO).await);
    backend.gate.add_permits(1);
    assert_eq!(running.await.unwrap().0, 200);
    tokio::time::timeout(PATIENCE, busy_ended).await.unwrap().unwrap().unwrap();
    assert!(gateway.drain.ended(PATIENCE).await);
}

#[tokio::test]
async fn a_response_was_cut_off_because_its_client_read_slowly() {
    const LENGTH: usize = 400_000;
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        while backend::request(&mut client).await.is_some() {
            client.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n")).await;
            client.send(vec![b'x'; LENGTH]).await;
        }
    })
    .await;
    let gateway = Gateway::tuned(&[backend.address], |settings| settings.keep_alive = Duration::ZERO).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut slow = Frames::over(socket.connect(gateway.http).await.unwrap(), &[(4, 1 << 24)]).await;
    let more = |stream| frame(WINDOW_UPDATE, 0, stream, &(1_u32 << 24).to_be_bytes());
    slow.send(&[more(0), frames::get(1, "/x")].concat()).await;
    gateway.lines(1).await;
    // The response has ended for the gateway. Further connections start now and exceed the idle
    // time, one after the other.
    for _ in 0..3 {
        let mut other = Frames::connect(&gateway, &[(4, 1 << 24)]).await;
        other.send(&[more(0), frames::get(1, "/x")].concat()).await;
        while other.next().await.is_some() {}
    }
    let mut read = 0;
    while read < LENGTH {
        let frame = slow.next().await.unwrap_or_else(|| panic!("cut off after {read}"));
        if frame.kind == DATA {
            read += frame.payload.len();
            // Clients send such updates while they read.
            assert!(slow.send(&frames::frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes())).await);
        }
    }
    while slow.next().await.is_some() {}
}

/// Sets timeouts that are short enough for a test.
fn hasty(settings: &mut GlobalSettings) {
    settings.keep_alive = Duration::from_millis(50);
    settings.client_header_timeout = Duration::from_secs(1);
}

#[tokio::test]
async fn idle_connections_end() {
    let backend = Backend::new().await;
    let gateway = Gateway::tuned(&[backend.address], hasty).await;
    let (mut client, ended) = plain(&gateway).await;
    assert_eq!(get(&mut client, "http://a.example/x").await.0, 200);
    tokio::time::timeout(PATIENCE, ended).await.unwrap().unwrap().unwrap();
    // A client without a request.
    let (_client, ended) = plain(&gateway).await;
    tokio::time::timeout(PATIENCE, ended).await.unwrap().unwrap().unwrap();
    until("no open connection", || gateway.drain.connections() == 0).await;
    // A client that does not even acknowledge the GOAWAY.
    let mut mute = Client::connect(gateway.http).await;
    mute.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    while mute.read().await > 0 {
        mute.buf.clear();
    }
}

#[tokio::test]
async fn a_connection_that_is_not_kept_alive_gets_its_first_request_served() {
    let backend = Backend::new().await;
    let gateway = Gateway::tuned(&[backend.address], |settings| settings.keep_alive = Duration::ZERO).await;
    // The connection has more than enough time to end before the request.
    let mut client = Frames::connect(&gateway, &[]).await;
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_millis(50) {
        client.send(&frame(PING, 0, 0, &[1; 8])).await;
        let answer = client.next().await.expect("an answer");
        assert!(answer.kind != GOAWAY, "it ends before its first request");
    }
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &request("GET", "/x", &[]))).await;
    assert_eq!(client.await_kind(HEADERS).await.unwrap().payload[0], 0x88, "200 stands in the static table");
    for _ in 0..20 {
        let (mut client, ended) = plain(&gateway).await;
        let mut other = client.clone();
        let (one, two) = tokio::join!(
            ask(&mut client, Method::POST, "http://a.example/x", "hello"),
            ask(&mut other, Method::GET, "http://a.example/x", "")
        );
        assert_eq!((one.unwrap().0, two.unwrap().0), (200, 200));
        tokio::time::timeout(PATIENCE, ended).await.unwrap().unwrap().expect("GOAWAY, without an error");
    }
}

#[tokio::test]
async fn so_many_requests_and_then_goaway() {
    let backend = Backend::new().await;
    let gateway = Gateway::tuned(&[backend.address], |settings| settings.keep_alive_requests = 5).await;
    let (mut client, ended) = plain(&gateway).await;
    for _ in 0..5 {
        assert_eq!(get(&mut client, "http://a.example/x").await.0, 200);
    }
    tokio::time::timeout(PATIENCE, ended).await.unwrap().unwrap().expect("GOAWAY, without an error");
    // More concurrent requests than the connection's maximum: those already sent are served.
    let (client, ended) = plain(&gateway).await;
    let asked = (0..20).map(|_| {
        let mut client = client.clone();
        async move { ask(&mut client, Method::GET, "http://a.example/x", "").await }
    });
    let answers = futures::future::join_all(asked).await;
    assert!(answers.iter().all(|answer| answer.as_ref().is_ok_and(|answer| answer.0 == 200)), "{answers:?}");
    tokio::time::timeout(PATIENCE, ended).await.unwrap().unwrap().expect("GOAWAY, without an error");
}

#[tokio::test]
async fn prior_knowledge_is_no_use_where_http2_is_off() {
    let gateway = Gateway::tuned(&[], |settings| settings.use_http2 = false).await;
    let mut client = gateway.client().await;
    client.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
    let response = client.response().await;
    assert_eq!(response.status, 400);
    let lines = gateway.lines(1).await;
    assert!(lines[0].contains("\"PRI * HTTP/2.0\" 400"), "{lines:?}");
}

/// Starts a POST of twice this length, and reads the whole response before it sends the second
/// half. Returns the status and the stream.
async fn answered_early(
    client: &mut SendRequest<Bytes>,
    uri: &str,
    half: usize,
) -> (u16, h2::SendStream<Bytes>) {
    let request = Request::post(uri).header("content-length", 2 * half).body(()).unwrap();
    let (response, mut send) = client.send_request(request, false).unwrap();
    send.send_data(vec![b'x'; half].into(), false).unwrap();
    let response = tokio::time::timeout(PATIENCE, response).await.expect("in time").unwrap();
    let status = response.status().as_u16();
    let mut body = response.into_body();
    while let Some(piece) = body.data().await {
        body.flow_control().release_capacity(piece.unwrap().len()).unwrap();
    }
    (status, send)
}

/// Sends the second half and asserts that the stream is not reset.
async fn is_taken(client: &mut SendRequest<Bytes>, mut send: h2::SendStream<Bytes>, half: usize) {
    send.send_data(vec![b'x'; half].into(), true).expect("no reset");
    // The response to this request follows any reset of the stream.
    let _ = ask(client, Method::GET, "http://unknown.example/", "").await.unwrap();
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let reset = send.poll_reset(&mut cx);
    assert!(!matches!(reset, std::task::Poll::Ready(Ok(_))), "{reset:?}");
}

#[tokio::test]
async fn an_answer_of_ours_does_not_reset_a_small_upload() {
    let gateway = Gateway::to(&[]).await;
    let (mut client, _) = plain(&gateway).await;
    for (uri, status) in [("http://unknown.example/", 404), ("http://a.example/x", 503)] {
        let (seen, send) = answered_early(&mut client, uri, 20_000).await;
        assert_eq!(seen, status);
        is_taken(&mut client, send, 20_000).await;
        // More than the gateway discards, and so much that the client receives the response first.
        let (seen, mut send) = answered_early(&mut client, uri, 5_000_000).await;
        let reset = std::future::poll_fn(|cx| send.poll_reset(cx));
        let reset = tokio::time::timeout(PATIENCE, reset).await.expect("in time");
        assert_eq!((seen, reset.unwrap()), (status, h2::Reason::NO_ERROR));
    }
}

#[tokio::test]
async fn an_answer_of_an_endpoint_does_not_reset_a_small_upload() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        client.until("\r\n\r\n").await;
        client.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno").await;
        while client.read().await > 0 {
            client.buf.clear();
        }
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let (mut client, _) = plain(&gateway).await;
    let (status, send) = answered_early(&mut client, "http://a.example/x", 20_000).await;
    assert_eq!(status, 413);
    is_taken(&mut client, send, 20_000).await;
}

#[tokio::test]
async fn names_that_http1_cannot_have_reach_no_endpoint() {
    for ignored in [true, false] {
        let backend = Backend::new().await;
        let gateway =
            Gateway::tuned(&[backend.address], |settings| settings.ignore_invalid_headers = ignored).await;
        let mut client = Frames::connect(&gateway, &[]).await;
        let fields = request("GET", "/x", &[("x-\"a\"", "1"), ("x-b", "2")]);
        client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &fields)).await;
        let status = client.await_kind(HEADERS).await.unwrap().payload[0];
        if ignored {
            let body = String::from_utf8(client.await_kind(DATA).await.unwrap().payload).unwrap();
            assert!(body.contains("x-b: 2") && !body.contains('"'), "{body}");
        } else {
            assert_eq!((status, backend.requests()), (0x8c, 0), "400 stands in the static table");
        }
    }
}

#[tokio::test]
async fn a_path_that_h2_refuses_is_restored_and_clients_cannot_escape_it() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = Frames::connect(&gateway, &[]).await;
    let raw = "/x?query=up{job=\"a\"}";
    let escaped = crate::message::head::escaped_target::escape(raw).unwrap();
    let path = |first: u8, path: &str| [&[first, path.len() as u8][..], path.as_bytes()].concat();
    let with = |path: &[u8]| [&[0x82, 0x86][..], path, b"\x01\x09a.example"].concat();
    let blocks = [
        (with(&path(0x44, raw)), true),
        // A reference to the field, and one that is not indexed.
        (with(&[0x80 | 62]), true),
        (with(&path(0x14, raw)), true),
        (with(&path(0x04, &escaped)), false),
    ];
    for (stream, (block, is_served)) in (1..).step_by(2).zip(blocks) {
        client.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)).await;
        let status = client.await_kind(HEADERS).await.unwrap().payload[0];
        // 200 and 400 are in the static table.
        assert_eq!(status, if is_served { 0x88 } else { 0x8c }, "{stream}");
        let body = String::from_utf8(client.await_kind(DATA).await.unwrap().payload).unwrap();
        // Pingora's engine writes these characters percent-encoded.
        let body = body.replace("%22", "\"").replace("%7b", "{").replace("%7d", "}");
        assert_eq!(body.contains(raw), is_served, "{body}");
    }
    // A split block is not inspected.
    let block = with(&path(0x04, &escaped));
    client.send(&frame(HEADERS, END_STREAM, 101, &block[..10])).await;
    client.send(&frame(CONTINUATION, END_HEADERS, 101, &block[10..])).await;
    assert_eq!(client.await_kind(HEADERS).await.unwrap().payload[0], 0x8c);
    assert_eq!(backend.requests(), 3);
}

#[tokio::test]
async fn a_request_that_cannot_be_read_leaves_the_connection_to_the_others() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = Frames::connect(&gateway, &[]).await;
    let field = |kind: u8, name: &[u8], value: &[u8]| {
        let texts = [&[name.len() as u8][..], name, &[value.len() as u8], value].concat();
        [&[kind][..], &texts].concat()
    };
    let named = |first: u8, value: &[u8]| [&[first, value.len() as u8][..], value].concat();
    // A field that enters the dynamic table; its request runs during the whole test.
    let kept = [request("GET", "/wait", &[]), field(0x40, b"x-kept", b"kept")].concat();
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &kept)).await;
    let whole = request("GET", "/x", &[]);
    let bad = [
        [whole.clone(), field(0, b"X-A", b"1")].concat(),
        [whole.clone(), field(0x40, b"X-Indexed", b"1")].concat(),
        [whole.clone(), field(0x10, b"x-a", b"1\r\nx-b: 2")].concat(),
        [whole.clone(), field(0x40, b"x-a", b"\0")].concat(),
        [whole.clone(), field(0, b":other", b"1")].concat(),
        // `accept` and a method by index, and a path that is not UTF-8.
        [whole.clone(), named(0x40 | 19, b"a\x7f")].concat(),
        [&[0x86][..], &named(0x40 | 2, b"G T"), &named(4, b"/"), &named(1, b"a.example")].concat(),
        [&[0x86][..], &named(2, b"GET"), &named(0x40 | 4, b"/\xff"), &named(1, b"a.example")].concat(),
    ];
    for (stream, block) in (3..).step_by(2).zip(&bad) {
        client.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, block)).await;
        let refused = loop {
            let frame = client.next().await.expect("the connection goes on");
            if [HEADERS, RST_STREAM, GOAWAY].contains(&frame.kind) {
                break frame;
            }
        };
        assert_eq!(refused.stream, stream, "{refused:?}");
        let is_400 = refused.kind == HEADERS && refused.payload[0] == 0x8c;
        assert!(is_400 || refused.kind == RST_STREAM && refused.error() == PROTOCOL_ERROR, "{refused:?}");
    }
    // Both sides have the same dynamic table: the earlier field is behind the five bad fields that
    // entered it.
    let last = [request("GET", "/x", &[]), vec![0x80 | (62 + 5)]].concat();
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 101, &last)).await;
    let body = String::from_utf8(client.await_kind(DATA).await.unwrap().payload).unwrap();
    until("2 requests at the endpoint", || backend.requests() >= 2).await;
    assert!(body.contains("x-kept: kept"), "{body}");
    backend.gate.add_permits(1);
    loop {
        let frame = client.await_kind(HEADERS).await.expect("an answer");
        if frame.stream == 1 {
            break;
        }
    }
    assert_eq!(backend.requests(), 2, "none of the others reached the endpoint");
}
