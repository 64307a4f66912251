//! Memory for data that clients do not read: one budget for any number of streams and connections.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sluice_config::{
    Authorisation, Balance, ErrorBackend, ErrorPages, GlobalSettings, Policies, Rule, Template,
    TemplatePiece, UpstreamProtocol,
};
use sluice_testing::wait::until;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

use super::backend::{Backend, request};
use super::client::{Client, PATIENCE};
use super::frames::{
    DATA, END_HEADERS, Frames, GOAWAY, HEADERS, PING, RST_STREAM, WINDOW_UPDATE, frame, get,
    request as request_head,
};
use super::gateway::{Gateway, through_proxy};
use crate::pipeline::tests::fixture::{exact, external_auth, forward, pool_key, rule, service};
use crate::worker::engine_choice::EngineChoice;

/// SETTINGS_INITIAL_WINDOW_SIZE.
const INITIAL_WINDOW: u16 = 4;
const BUDGET: u64 = 8 << 20;
/// Bytes that a read may add in excess of the budget, for each of the two workers.
const BEYOND: usize = 2 * 64 * 1024;
/// Budget that forty greedy clients share.
const SMALL: u64 = 2 << 20;
/// Size of the largest page of an error backend.
const PAGE: usize = 256 * 1024;
/// Bytes of a response that exceeds every buffer.
const GENEROUS: usize = 512 * 1024;
/// Bytes of a DATA frame.
const PIECE: u32 = 8 * 1024;

/// Starts a backend whose responses exceed every buffer.
async fn generous() -> Backend {
    Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        let body = "x".repeat(GENEROUS);
        while request(&mut client).await.is_some() {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            client.send(head + &body).await;
        }
    })
    .await
}

#[tokio::test]
async fn forty_clients_with_shut_windows_held_two_hundred_mebibytes() {
    let backend = generous().await;
    let gateway = Gateway::tuned(&[backend.address], |settings| settings.body_memory = BUDGET).await;
    let budget = &gateway.plane.state.budget;
    let mut clients = Vec::new();
    let mut most = 0;
    for _ in 0..8 {
        let mut client = Frames::connect(&gateway, &[(INITIAL_WINDOW, 0)]).await;
        // Each stream could hold a read of 64 KiB: 50 MiB in total.
        let streams: Vec<u8> = (0..100).flat_map(|n| get(2 * n + 1, "/x")).collect();
        client.send(&streams).await;
        clients.push(client);
    }
    let began = Instant::now();
    // Most of the budget remains for other connections than these eight.
    while most < BUDGET as usize / 4 {
        most = most.max(budget.taken());
        assert!(began.elapsed() < PATIENCE, "{most}");
        tokio::task::yield_now().await;
    }
    for _ in 0..10_000 {
        most = most.max(budget.taken());
        tokio::task::yield_now().await;
    }
    let limit = BUDGET as usize + BEYOND;
    // Pingora reads up to four pieces ahead per stream before it is paused.
    assert!(most <= limit || through_proxy(), "{most} of {limit}");
    drop(clients);
    let began = Instant::now();
    // Workers keep only a small reserve.
    while budget.taken() > BUDGET as usize / 8 {
        assert!(began.elapsed() < PATIENCE, "{}", budget.taken());
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn heads_made_of_references_held_a_hundred_mebibytes() {
    let backend = Backend::new().await;
    let gateway = Gateway::tuned(&[backend.address], |settings| settings.body_memory = 1 << 20).await;
    let large = "x".repeat(7000);
    let mut clients = Vec::new();
    let mut refused = 0;
    for _ in 0..200 {
        let mut client = gateway.client().await;
        let fields: String = (0..4).map(|n| format!("X-{n}: {large}\r\n")).collect();
        client.send(format!("GET /wait HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n")).await;
        clients.push(client);
    }
    // With 14 held heads, the fair share of a connection is less than a head; further requests are
    // refused immediately.
    let lines = gateway.lines(150).await;
    refused += lines.iter().filter(|line| line.contains("\" 503 ")).count();
    assert!(refused >= 150, "{lines:?}");
    assert!(gateway.plane.state.budget.taken() <= (1 << 20) + BEYOND);
    backend.gate.add_permits(200);
    drop(clients);
}

/// Starts a rule whose error pages have 256 KiB; the second half of each page is sent when the gate
/// opens.
async fn worded(gate: &Arc<Semaphore>) -> (Backend, Backend, Gateway) {
    let web = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        while let Some((head, _)) = request(&mut client).await {
            let status = if head.starts_with("get /fine ") { "200 OK" } else { "404 Not Found" };
            client.send(format!("HTTP/1.1 {status}\r\nContent-Length: 4\r\n\r\nbare")).await;
        }
    })
    .await;
    let gate = gate.clone();
    let pages = Backend::scripted(move |_, stream| {
        let gate = gate.clone();
        async move {
            let mut client = Client::over(stream);
            let half = "x".repeat(PAGE / 2);
            while request(&mut client).await.is_some() {
                let begin = format!("HTTP/1.1 404 Not Found\r\nContent-Length: {PAGE}\r\n\r\n{half}");
                let sent = client.stream.write_all(begin.as_bytes()).await;
                gate.acquire().await.unwrap().forget();
                if sent.is_err() || client.stream.write_all(half.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    })
    .await;
    let mut gateway = Gateway::tuned(&[web.address], |settings| settings.body_memory = BUDGET).await;
    gateway.plane.pool("pages", Balance::RoundRobin, &[]);
    gateway.endpoints_of("pages", &[pages.address]);
    let pool = pool_key("pages");
    let backend = Some(ErrorBackend { service: service("pages"), pages: pool.clone(), requests: pool });
    let error_pages = ErrorPages { statuses: Some([404].into()), backend, ..ErrorPages::default() };
    let policies = Arc::new(Policies { error_pages, ..Policies::default() });
    let rule = Rule { policies, ..rule("/", forward("web")) };
    assert_eq!(gateway.plane.host(exact("a.example"), false, vec![rule]), []);
    (web, pages, gateway)
}

#[tokio::test]
async fn error_pages_took_as_much_as_they_liked() {
    let gate = Arc::new(Semaphore::new(0));
    let (_web, _pages, gateway) = worded(&gate).await;
    let budget = &gateway.plane.state.budget;
    let mut clients = Vec::new();
    for _ in 0..80 {
        let mut client = gateway.client().await;
        client.send("GET /lost HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
        clients.push(client);
    }
    // Half a page each fits fewer than 50 times. The other requests get the plain response
    // immediately.
    let (began, mut most) = (Instant::now(), 0);
    while gateway.plane.lines().len() < 30 {
        most = most.max(budget.taken());
        assert!(began.elapsed() < PATIENCE, "{most}");
        tokio::task::yield_now().await;
    }
    assert_eq!(gateway.client().await.get("/fine").await.status, 200, "other requests go on");
    gate.add_permits(1000);
    let (mut plain, mut worded) = (0, 0);
    for client in &mut clients {
        let response = client.response().await;
        assert_eq!(response.status, 404);
        match response.body.len() {
            PAGE => worded += 1,
            _ => plain += 1,
        }
        most = most.max(budget.taken());
    }
    assert!(plain >= 30 && worded > 0, "{plain} and {worded}");
    assert!(most <= BUDGET as usize, "{most}");
}

#[tokio::test]
async fn pipelined_requests_and_slow_heads_count() {
    let backend = Backend::new().await;
    let gateway = Gateway::tuned(&[backend.address], |settings| settings.body_memory = 1 << 20).await;
    let budget = &gateway.plane.state.budget;
    let next = format!("GET /next HTTP/1.1\r\nHost: a.example\r\nX-Large: {}\r\n\r\n", "x".repeat(4000));
    let mut clients = Vec::new();
    for _ in 0..100 {
        let mut client = gateway.client().await;
        client.send("GET /wait HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
        clients.push(client);
    }
    // The buffers of those that come first must not take the memory that the others need to start.
    until("all requests to arrive", || backend.requests() == clients.len()).await;
    for client in &mut clients {
        // The data arrives at least in the buffers of the kernel.
        client.send(next.repeat(10)).await;
    }
    let (began, mut most) = (Instant::now(), 0);
    while budget.taken() <= 512 * 1024 {
        assert!(began.elapsed() < PATIENCE, "{}", budget.taken());
        tokio::task::yield_now().await;
    }
    // A large, slow head gets nothing of the rest of the budget, and a normal one does.
    let mut slow = gateway.client().await;
    let large = format!("X-Large: {}\r\n", "x".repeat(6000));
    slow.send(format!("GET / HTTP/1.1\r\nHost: a.example\r\n{large}{large}{large}{large}X-Slow: ")).await;
    assert_eq!(slow.response().await.status, 503);
    assert_eq!(gateway.client().await.get("/fine").await.status, 200);
    for _ in 0..10_000 {
        most = most.max(budget.taken());
        tokio::task::yield_now().await;
    }
    assert!(most <= (1 << 20) + BEYOND, "{most}");
    backend.gate.add_permits(100);
    for client in &mut clients {
        assert_eq!(client.response().await.status, 200);
    }
}

/// Starts an HTTP/2 endpoint that sends as much of each response as flow control allows.
async fn boundless() -> Backend {
    Backend::http2(|mut body| async move {
        body.reserve_capacity(1 << 20);
        while let Some(Ok(room)) = poll_fn(|cx| body.poll_capacity(cx)).await {
            body.send_data(vec![0; room].into(), false).unwrap();
        }
    })
    .await
}

#[tokio::test]
async fn bytes_sent_ahead_by_http2_endpoints_were_not_counted() {
    // Pingora has an HTTP/2 client of its own.
    if through_proxy() {
        return;
    }
    const STREAMS: usize = 32;
    let tune = |settings: &mut GlobalSettings| settings.body_memory = 64 << 20;
    let backend = boundless().await;
    let gateway = Gateway::with(&[backend.address], UpstreamProtocol::Grpc, tune).await;
    let budget = &gateway.plane.state.budget;
    let mut client = Frames::connect(&gateway, &[(INITIAL_WINDOW, 0)]).await;
    let streams: Vec<u8> = (0..STREAMS as u32).flat_map(|n| get(2 * n + 1, "/x")).collect();
    client.send(&streams).await;
    // The sum of the streams' windows.
    let all = STREAMS * 128 * 1024;
    until("all that may come", || budget.taken() >= all).await;
    assert!(budget.taken() <= all + all / 4, "{}", budget.taken());
    drop(client);
    until("all of it back", || budget.taken() <= 1 << 20).await;
}

#[tokio::test]
async fn small_messages_to_stalled_clients_ended_the_connection_of_the_others() {
    // Pingora has an HTTP/2 client of its own.
    if through_proxy() {
        return;
    }
    const STREAMS: usize = 20;
    const MESSAGE: &[u8] = b"0123456789abcde";
    const SINGLE: usize = 80;
    const ALL: usize = 8_000;
    let backend = Backend::http2(|mut body| async move {
        for number in 0..ALL {
            if number < SINGLE {
                // These arrive one at a time.
                tokio::time::sleep(Duration::from_millis(3)).await;
            }
            body.send_data(Bytes::from_static(MESSAGE), false).unwrap();
        }
        let _ = poll_fn(|cx| body.poll_reset(cx)).await;
    })
    .await;
    let tune = |settings: &mut GlobalSettings| settings.body_memory = 64 << 20;
    let gateway = Gateway::with(&[backend.address], UpstreamProtocol::Grpc, tune).await;
    let budget = &gateway.plane.state.budget;
    let mut client = Frames::connect(&gateway, &[(INITIAL_WINDOW, 0)]).await;
    let streams: Vec<u8> = (0..STREAMS as u32).flat_map(|n| get(2 * n + 1, "/x")).collect();
    client.send(&streams).await;
    let all = STREAMS * ALL * MESSAGE.len();
    until("all messages have arrived", || budget.taken() >= all).await;
    client.send(&frame(WINDOW_UPDATE, 0, 1, &1_u32.to_be_bytes())).await;
    let next = client.await_kinds(&[DATA, RST_STREAM, GOAWAY]).await.unwrap();
    assert_eq!((next.kind, &next.payload[..]), (DATA, &MESSAGE[..1]));
    assert!(backend.connections() <= 2, "{}", backend.connections());
}

/// Sends requests on 40 connections that fill the budget with responses that no client reads.
async fn hold_on(gateway: &Gateway) -> Vec<Frames> {
    let mut clients = Vec::new();
    for _ in 0..40 {
        let mut client = Frames::connect(gateway, &[(INITIAL_WINDOW, 0)]).await;
        let streams: Vec<u8> = (0..20).flat_map(|n| get(2 * n + 1, "/x")).collect();
        client.send(&streams).await;
        clients.push(client);
    }
    clients
}

#[tokio::test]
async fn forty_clients_with_shut_windows_starved_all_others() {
    // Pingora reads a piece of each response before it reserves memory for it.
    if through_proxy() {
        return;
    }
    let generous = Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        let large = "x".repeat(512 * 1024);
        while let Some((head, body)) = request(&mut client).await {
            let body = if head.starts_with("post ") { &body } else { &large };
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            client.send(head + body).await;
        }
    })
    .await;
    let tune = |settings: &mut GlobalSettings| {
        settings.body_memory = SMALL;
        // The default.
        settings.request_buffering = true;
    };
    let gateway = Gateway::tuned(&[generous.address], tune).await;
    let budget = &gateway.plane.state.budget;
    let body = "y".repeat(64 * 1024);
    let began = Instant::now();
    // Stalled clients are disconnected after five seconds; on a very slow machine some are gone by
    // then.
    loop {
        let waited = budget.waits();
        let hostile = hold_on(&gateway).await;
        // Half of their streams cannot read any further.
        while budget.waits() < waited + 400 || gateway.drain.requests() < 800 {
            assert!(began.elapsed() < PATIENCE, "{}", budget.taken());
            tokio::task::yield_now().await;
        }
        let mut client = gateway.client().await;
        for _ in 0..3 {
            let head =
                format!("POST /echo HTTP/1.1\r\nHost: a.example\r\nContent-Length: {}\r\n\r\n", body.len());
            client.send(head + &body).await;
            let response = client.response().await;
            assert_eq!((response.status, response.body.len()), (200, body.len()));
        }
        let held_on = gateway.drain.requests() >= 800;
        if held_on && budget.taken() >= SMALL as usize / 2 {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "others are served only when those have left");
        drop(hostile);
        while gateway.drain.requests() > 0 {
            assert!(began.elapsed() < PATIENCE, "they stay");
            tokio::task::yield_now().await;
        }
    }
}

/// Connections of clients that send as much as flow control allows to streams that wait for
/// authorisation.
#[tokio::test]
async fn request_bodies_that_wait_for_authorisation_were_outside_the_budget() {
    const CLIENTS: usize = 40;
    const STREAMS: u32 = 8;
    let web = Backend::new().await;
    let silent = Backend::scripted(|_, stream| async move {
        let _open = stream;
        std::future::pending::<()>().await;
    })
    .await;
    let mut gateway = Gateway::tuned(&[web.address], |settings| settings.body_memory = 2 * BUDGET).await;
    gateway.plane.pool("auth", Balance::RoundRobin, &[]);
    gateway.endpoints_of("auth", &[silent.address]);
    let target = Template { pieces: vec![TemplatePiece::Text("/check".into())] };
    let authorisation = Authorisation::Own(Arc::new(external_auth(target)));
    let policies = Arc::new(Policies { authorisation, ..Policies::default() });
    let rule = Rule { policies, ..rule("/", forward("web")) };
    assert_eq!(gateway.plane.host(exact("a.example"), false, vec![rule]), []);
    let budget = &gateway.plane.state.budget;
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = Frames::connect(&gateway, &[]).await;
        let streams = (0..STREAMS).map(|n| 2 * n + 1);
        let heads: Vec<u8> = streams
            .flat_map(|stream| frame(HEADERS, END_HEADERS, stream, &request_head("POST", "/x", &[])))
            .collect();
        client.send(&heads).await;
        for piece in 0..u32::from(u16::MAX) / PIECE {
            client.send(&frame(DATA, 0, 2 * (piece % STREAMS) + 1, &[b'x'; PIECE as usize])).await;
        }
        // The response to the second PING follows all effects of the first one and of the data
        // before it.
        for _ in 0..2 {
            client.send(&frame(PING, 0, 0, &[0; 8])).await;
            while let Some(update) = client.await_kinds(&[PING, WINDOW_UPDATE]).await
                && update.kind == WINDOW_UPDATE
            {
                assert_ne!(update.stream, 0, "no more is allowed before a body is read");
            }
        }
        clients.push(client);
    }
    let held = CLIENTS * (u16::MAX as usize / PIECE as usize) * PIECE as usize;
    until("all that they have sent", || budget.taken() >= held).await;
    drop(clients);
    until("all of it back", || budget.taken() < BUDGET as usize / 4).await;
}

/// Pingora reads several pieces of each response before its client reads one.
#[tokio::test]
async fn bytes_that_pingora_reads_ahead_were_not_counted() {
    const STREAMS: u32 = 8;
    let backend = generous().await;
    let tune = |settings: &mut GlobalSettings| settings.body_memory = 8 * BUDGET;
    let gateway =
        Gateway::driven(EngineChoice::Proxy, &[backend.address], UpstreamProtocol::Http, tune).await;
    let budget = &gateway.plane.state.budget;
    let mut client = Frames::connect(&gateway, &[(INITIAL_WINDOW, 0)]).await;
    let streams: Vec<u8> = (0..STREAMS).flat_map(|n| get(2 * n + 1, "/x")).collect();
    client.send(&streams).await;
    until("what comes before a client takes any", || budget.taken() >= STREAMS as usize * GENEROUS).await;
    drop(client);
    until("all of it back", || budget.taken() < BUDGET as usize / 4).await;
}
