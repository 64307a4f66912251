//! HTTP/2 clients whose frames are cheap to send and expensive to handle.

use std::time::Duration;

use sluice_config::GlobalSettings;
use sluice_testing::wait::until;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

use super::backend::Backend;
use super::client::PATIENCE;
use super::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, Frames, GOAWAY, HEADERS, NO_ERROR, PING,
    PROTOCOL_ERROR, REFUSED_STREAM, RST_STREAM, SETTINGS, WINDOW_UPDATE, frame, get, request, reset,
};
use super::gateway::Gateway;
use super::http2::{ask, plain};

const INITIAL_WINDOW: u16 = 4;

async fn serves_on(gateway: &Gateway) {
    assert_eq!(gateway.client().await.get("/x").await.status, 200);
    until("one connection, and nothing on it", || {
        gateway.drain.requests() == 0 && gateway.drain.connections() <= 1
    })
    .await;
}

#[tokio::test]
async fn rapid_reset_before_a_stream_is_looked_at() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = Frames::connect(&gateway, &[]).await;
    let flood: Vec<u8> =
        (0..1000).flat_map(|n| [get(2 * n + 1, "/wait"), reset(2 * n + 1)].concat()).collect();
    client.send(&flood).await;
    assert_eq!(client.goaway().await, ENHANCE_YOUR_CALM);
    serves_on(&gateway).await;
}

#[tokio::test]
async fn rapid_reset_of_requests_that_have_begun() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = Frames::connect(&gateway, &[]).await;
    let (mut begun, mut next) = (0, 1);
    'flood: while begun < 2000 {
        let batch: Vec<u32> = (0..50).map(|n| next + 2 * n).collect();
        next += 100;
        if !client.send(&batch.iter().flat_map(|stream| get(*stream, "/wait")).collect::<Vec<_>>()).await {
            break;
        }
        begun += 50;
        let waiting = std::time::Instant::now();
        while backend.requests() < begun {
            if begun > 50 && gateway.drain.connections() == 0 {
                break 'flood;
            }
            assert!(waiting.elapsed() < PATIENCE);
            tokio::task::yield_now().await;
        }
        client.send(&batch.iter().flat_map(|stream| reset(*stream)).collect::<Vec<_>>()).await;
    }
    assert_eq!(client.goaway().await, NO_ERROR);
    // Up to 1000 on an idle machine; resets are forgotten with time.
    assert!((500..2000).contains(&begun), "{begun}");
    let lines = gateway.lines(500).await;
    assert!(lines[0].contains("\"GET /wait HTTP/2.0\" 499"), "{}", lines[0]);
    serves_on(&gateway).await;
}

#[tokio::test]
async fn cancelled_streams_do_not_abort_the_others_of_their_connection() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = Frames::connect(&gateway, &[]).await;
    client.send(&get(1, "/wait")).await;
    until("the request", || backend.requests() == 1).await;
    let mut next = 3;
    for batch in 1..=10 {
        let streams: Vec<u32> = (0..50).map(|n| next + 2 * n).collect();
        next += 100;
        client.send(&streams.iter().flat_map(|stream| get(*stream, "/wait")).collect::<Vec<_>>()).await;
        until("the requests", || backend.requests() == 1 + 50 * batch).await;
        client.send(&streams.iter().flat_map(|stream| reset(*stream)).collect::<Vec<_>>()).await;
    }
    // Cancelled streams count towards the limit for a while. One further request is needed for each
    // that no longer counts.
    let refused = loop {
        client.send(&get(next, "/wait")).await;
        client.send(&frame(PING, 0, 0, b"12345678")).await;
        let refused = client.await_kinds(&[RST_STREAM, PING]).await.unwrap();
        if refused.kind == RST_STREAM {
            break refused;
        }
        client.send(&reset(next)).await;
        next += 2;
    };
    assert!(refused.stream > 1 && refused.error() == REFUSED_STREAM, "{refused:?}");
    backend.gate.add_permits(10_000);
    let response = client.await_kind(HEADERS).await.unwrap();
    assert_eq!(response.stream, 1, "it goes on");
    while client.next().await.is_some() {}
    serves_on(&gateway).await;
}

#[tokio::test]
async fn a_client_that_ignores_goaway_does_not_delay_the_shutdown() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = Frames::connect(&gateway, &[]).await;
    client.send(&get(1, "/x")).await;
    assert!(client.await_kind(HEADERS).await.is_some());
    gateway.drain.begin();
    assert_eq!(client.goaway().await, NO_ERROR);
    gateway.close();
    // The client does not answer the PING that follows the GOAWAY, and opens one stream after the
    // other.
    let mut next = 3;
    let refused = loop {
        // The client accepts every response.
        let window = frame(WINDOW_UPDATE, 0, 0, &65_535_u32.to_be_bytes());
        client.send(&[get(next, "/x"), window].concat()).await;
        let answer = client.await_kinds(&[HEADERS, RST_STREAM]).await.unwrap();
        if answer.kind == RST_STREAM {
            break answer;
        }
        next += 2;
    };
    assert_eq!(refused.error(), REFUSED_STREAM);
    assert!(gateway.drain.ended(PATIENCE).await);
}

#[tokio::test]
async fn resets_that_the_client_makes_us_send() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = Frames::connect(&gateway, &[]).await;
    let flood: Vec<u8> = (0..3000)
        .flat_map(|n| {
            [get(2 * n + 1, "/wait"), frame(WINDOW_UPDATE, 0, 2 * n + 1, &[0x7f, 0xff, 0xff, 0xff])].concat()
        })
        .collect();
    client.send(&flood).await;
    assert_eq!(client.goaway().await, ENHANCE_YOUR_CALM);
    serves_on(&gateway).await;
}

#[tokio::test]
async fn a_head_without_end() {
    let gateway = Gateway::to(&[]).await;
    let mut client = Frames::connect(&gateway, &[]).await;
    let mut flood = frame(HEADERS, END_STREAM, 1, &request("GET", "/", &[]));
    for _ in 0..1000 {
        flood.extend(frame(CONTINUATION, 0, 1, &request("GET", "/", &[("x-a", &"a".repeat(100))])[20..]));
    }
    client.send(&flood).await;
    assert!([ENHANCE_YOUR_CALM, PROTOCOL_ERROR].contains(&client.goaway().await));
}

#[tokio::test]
async fn a_head_that_is_too_large() {
    let backend = Backend::new().await;
    let gateway =
        Gateway::tuned(&[backend.address], |settings| settings.large_client_header_buffers.count = 1).await;
    let mut client = Frames::connect(&gateway, &[]).await;
    let long = "a".repeat(120);
    let fields: Vec<(&str, &str)> = (0..110).map(|_| ("x-a", &long[..])).collect();
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &request("GET", "/x", &fields))).await;
    assert_eq!(client.await_kind(HEADERS).await.map(|frame| frame.stream), Some(1));
    assert_eq!(client.await_kind(DATA).await.map(|frame| frame.stream), Some(1), "our page");
    client.send(&frame(HEADERS, END_HEADERS | END_STREAM, 3, &request("GET", "/x", &fields[..9]))).await;
    assert_eq!(client.await_kind(DATA).await.map(|frame| frame.stream), Some(3), "the connection goes on");
    assert_eq!(backend.requests(), 1);
}

#[tokio::test]
async fn frames_of_nothing() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = Frames::connect(&gateway, &[]).await;
    let mut flood = frame(HEADERS, END_HEADERS, 1, &request("POST", "/x", &[]));
    for _ in 0..100_000 {
        flood.extend(frame(DATA, 0, 1, b""));
    }
    client.send(&flood).await;
    assert_eq!(client.goaway().await, ENHANCE_YOUR_CALM);
    serves_on(&gateway).await;
}

#[tokio::test]
async fn a_client_that_flushes_nothing_now_and_then_keeps_its_connection() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = Frames::connect(&gateway, &[]).await;
    for stream in (1..60).step_by(2) {
        let mut bytes = frame(HEADERS, END_HEADERS, stream, &request("POST", "/x", &[]));
        for _ in 0..10 {
            bytes.extend(frame(DATA, 0, stream, b""));
        }
        bytes.extend(frame(DATA, END_STREAM, stream, b"hello"));
        client.send(&bytes).await;
        let head = client.await_kind(HEADERS).await.expect("an answer");
        assert_eq!((head.stream, head.payload[0]), (stream, 0x88), "200 stands in the static table");
    }
}

#[tokio::test]
async fn long_polls_that_are_given_up_do_not_end_the_connection() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = Frames::connect(&gateway, &[]).await;
    let mut poll = async |stream: u32, begun: usize| {
        client.send(&get(stream, "/wait")).await;
        let waiting = std::time::Instant::now();
        while backend.requests() < begun {
            assert!(waiting.elapsed() < PATIENCE, "{begun} of them have begun");
            tokio::task::yield_now().await;
        }
        client.send(&reset(stream)).await
    };
    // As many at once as allowed, then no faster than they are forgotten.
    let mut polls = (1..).zip((1_u32..).step_by(2));
    for (begun, stream) in polls.by_ref().take(400) {
        assert!(poll(stream, begun).await);
    }
    let mut pace = tokio::time::interval(Duration::from_millis(11));
    for (begun, stream) in polls.take(250) {
        pace.tick().await;
        assert!(poll(stream, begun).await);
    }
    client.send(&get(3001, "/x")).await;
    assert_eq!(client.await_kind(HEADERS).await.map(|frame| frame.stream), Some(3001));
}

#[tokio::test]
async fn requests_that_are_malformed_now_and_then_do_not_end_the_connection() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = Frames::connect(&gateway, &[]).await;
    let malformed: [&[(&str, &str)]; 3] =
        [&[("x-a", " 1")], &[("x-a", "1 ")], &[("content-length", "0"), ("content-length", "0")]];
    for (stream, fields) in (1..).step_by(2).zip(malformed.iter().cycle()).take(60) {
        client.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &request("GET", "/x", fields))).await;
        let head = client.await_kind(HEADERS).await.expect("an answer");
        assert_eq!(
            (head.stream, head.payload[0]),
            (stream, 0x8c),
            "400 stands in the static table: {fields:?}"
        );
    }
    client.send(&get(301, "/x")).await;
    assert_eq!(client.await_kind(HEADERS).await.map(|frame| frame.stream), Some(301));
    assert_eq!(backend.requests(), 1, "none of the others reached the endpoint");
}

/// Returns an endpoint whose accept queue is full, so that connecting to it never completes, and
/// the connections that fill the queue.
async fn deaf() -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let mut queue = Vec::new();
    let connect = || TcpStream::connect(listener.local_addr().unwrap());
    while let Ok(connected) = timeout(Duration::from_millis(300), connect()).await {
        queue.push(connected.unwrap());
        assert!(queue.len() < 20, "the queue exceeds its limit");
    }
    (listener, queue)
}

#[tokio::test]
async fn uploads_that_stall_leave_the_others_their_window() {
    stall_uploads(16 * 1024).await;
}

#[tokio::test]
async fn small_pieces_of_uploads_that_stall_ended_the_connection_of_the_others() {
    stall_uploads(100).await;
}

/// Exhausts the connection's window with stalled uploads in pieces of this length, then sends one
/// that does not stall.
async fn stall_uploads(piece: i64) {
    const STALLED: u32 = 8;
    let backend = Backend::new().await;
    let (deaf, _queue) = deaf().await;
    let patient = |settings: &mut GlobalSettings| settings.proxy_connect_timeout = 2 * PATIENCE;
    let mut gateway = Gateway::tuned(&[deaf.local_addr().unwrap()], patient).await;
    let mut client = Frames::connect(&gateway, &[]).await;
    let id = |index: u32| 2 * index + 1;
    for index in 0..STALLED {
        client.send(&frame(HEADERS, END_HEADERS, id(index), &request("POST", "/x", &[]))).await;
    }
    let mut window = 65_535_i64;
    for index in (0..STALLED).cycle() {
        let length = window.min(piece);
        assert!(client.send(&frame(DATA, 0, id(index), &vec![b'x'; length as usize])).await);
        window -= length;
        if window == 0 {
            break;
        }
    }
    client.send(&frame(PING, 0, 0, &[0; 8])).await;
    let answer = client.await_kinds(&[HEADERS, RST_STREAM, PING]).await.unwrap();
    assert_eq!(answer.kind, PING, "no client gets a response: {:?}", gateway.plane.lines());
    gateway.endpoints(&[backend.address]);
    let good = id(STALLED);
    client.send(&frame(HEADERS, END_HEADERS, good, &request("POST", "/x", &[]))).await;
    let body = [b'x'; 16 * 1024];
    while window < body.len() as i64 {
        let update =
            client.await_kind(WINDOW_UPDATE).await.expect("a window for the one that does not stall");
        if update.stream == 0 {
            window += i64::from(u32::from_be_bytes(update.payload[..].try_into().unwrap()));
        }
    }
    client.send(&frame(DATA, END_STREAM, good, &body)).await;
    assert_eq!(client.await_kind(HEADERS).await.map(|frame| frame.stream), Some(good));
}

#[tokio::test]
async fn unread_answers_are_not_collected() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    for flood in [frame(PING, 0, 0, &[0; 8]), frame(SETTINGS, 0, 0, &[])] {
        let mut client = Frames::connect(&gateway, &[]).await;
        let most = 64 * 1024 * 1024;
        // Allows for the socket buffers of both sides and the size of one read.
        assert!(client.flood(&flood.repeat(1000), most).await < most);
    }
    serves_on(&gateway).await;
}

#[tokio::test]
async fn more_streams_than_are_allowed_are_refused() {
    let backend = Backend::new().await;
    let gateway =
        Gateway::tuned(&[backend.address], |settings| settings.http2_max_concurrent_streams = 4).await;
    let mut client = Frames::connect(&gateway, &[]).await;
    let streams: Vec<u8> = (0..5).flat_map(|n| get(2 * n + 1, "/wait")).collect();
    client.send(&streams).await;
    let refused = client.await_kind(RST_STREAM).await.unwrap();
    assert_eq!((refused.stream, refused.error()), (9, REFUSED_STREAM));
    backend.gate.add_permits(4);
    for _ in 0..4 {
        assert!(client.await_kind(HEADERS).await.is_some());
    }
}

#[tokio::test]
async fn ambiguous_requests_are_refused() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let head = |flags, method, path, fields: &[(&str, &str)]| {
        frame(HEADERS, END_HEADERS | flags, 1, &request(method, path, fields))
    };
    let length = [("content-length", "5")];
    for bytes in [
        // Shorter or longer than declared, with connection-specific fields, or with content on a
        // request without a body.
        [head(0, "POST", "/x", &length), frame(DATA, END_STREAM, 1, b"hel")].concat(),
        [head(0, "POST", "/x", &length), frame(DATA, 0, 1, b"hello, world")].concat(),
        head(END_STREAM, "GET", "/x", &length),
        head(0, "POST", "/x", &[("transfer-encoding", "chunked")]),
        head(0, "POST", "/x", &[("connection", "close")]),
        head(0, "POST", "/x", &[("te", "gzip")]),
        head(END_STREAM, "GET", "/x", &[("X-A", "1")]),
        head(END_STREAM, "GET", "/x\r\nX-A: 1", &[]),
        head(END_STREAM, "GET", "/x y", &[]),
        head(END_STREAM, "GET", "/x", &[("x-a", "1\r\nx-b: 2")]),
    ] {
        let mut client = Frames::connect(&gateway, &[]).await;
        client.send(&bytes).await;
        let refused = loop {
            let frame = client.next().await.expect("an error or an answer");
            if [HEADERS, RST_STREAM, GOAWAY].contains(&frame.kind) {
                break frame;
            }
        };
        // Status 400 is an entry of the static table.
        assert!(
            refused.kind != HEADERS || refused.payload[0] == 0x8c,
            "{refused:?} for {}",
            bytes.escape_ascii()
        );
    }
    assert_eq!(gateway.client().await.get("/x").await.status, 200);
    assert_eq!(backend.requests(), 1);
}

#[tokio::test]
async fn malformed_requests_are_answered_up_to_a_rate() {
    let backend = Backend::new().await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = Frames::connect(&gateway, &[]).await;
    let bad = [("host", "b.example")];
    let block = request("GET", "/x", &bad);
    let (mut answered, mut next) = (0, 1);
    let error = 'flood: loop {
        for stream in (next..next + 40).step_by(2) {
            client.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block)).await;
        }
        next += 40;
        for _ in 0..20 {
            match client.next().await {
                Some(frame) if frame.kind == GOAWAY => break 'flood frame.error(),
                Some(frame) if frame.kind == HEADERS => answered += 1,
                Some(_) => {}
                None => panic!("no GOAWAY"),
            }
        }
        assert!(next < 20_000, "{answered} were answered");
    };
    assert_eq!(error, NO_ERROR);
    assert!(answered >= 20, "{answered}");
    let lines = gateway.lines(20).await;
    assert!(lines[..20].iter().all(|line| line.contains("\" 400 ")), "{lines:?}");
    assert_eq!(backend.requests(), 0);
}

#[tokio::test]
async fn a_body_that_does_not_come_is_408() {
    let backend = Backend::new().await;
    let patience = Duration::from_millis(50);
    let gateway =
        Gateway::tuned(&[backend.address], |settings| settings.client_body_timeout = patience).await;
    let (mut client, _) = plain(&gateway).await;
    let request = http::Request::post("http://a.example/x").body(()).unwrap();
    let (response, mut body) = client.send_request(request, false).unwrap();
    body.send_data("some".into(), false).unwrap();
    let status = tokio::time::timeout(PATIENCE, response).await.unwrap().unwrap().status();
    assert_eq!(status.as_u16(), 408);
    let (status, _, _) = ask(&mut client, http::Method::GET, "http://a.example/x", "").await.unwrap();
    assert_eq!(status, 200, "the other streams go on");
}

#[tokio::test]
async fn a_client_that_opens_no_window_holds_back_the_endpoint() {
    // Sends without end, and counts the bytes that were accepted.
    let taken = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = taken.clone();
    let backend = Backend::scripted(move |_, stream| {
        let count = count.clone();
        async move {
            let mut client = super::client::Client::over(stream);
            super::backend::request(&mut client).await;
            client.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n").await;
            let piece = vec![b'x'; 64 * 1024];
            while tokio::io::AsyncWriteExt::write_all(&mut client.stream, &piece).await.is_ok() {
                count.fetch_add(piece.len(), std::sync::atomic::Ordering::SeqCst);
            }
        }
    })
    .await;
    let gateway = Gateway::to(&[backend.address]).await;
    let mut client = Frames::connect(&gateway, &[(INITIAL_WINDOW, 0)]).await;
    client.send(&get(1, "/x")).await;
    assert_eq!(client.await_kind(HEADERS).await.unwrap().stream, 1);
    // Each PING gives the gateway and the endpoint another turn, which could move 16 KiB or more.
    for _ in 0..2000 {
        client.send(&frame(PING, 0, 0, &[0; 8])).await;
        client.await_kind(PING).await.unwrap();
    }
    let taken = taken.load(std::sync::atomic::Ordering::SeqCst);
    assert!(taken < 16 * 1024 * 1024, "the sockets' buffers and a little more: {taken}");
    client.send(&reset(1)).await;
    let lines = gateway.lines(1).await;
    assert!(lines[0].contains("\"GET /x HTTP/2.0\" 200 0 "), "{lines:?}");
}
