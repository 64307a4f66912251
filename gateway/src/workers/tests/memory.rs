//! Memory for what clients do not take: one budget, however many streams and connections there are.

use std::time::Instant;

use super::backend::{Backend, request};
use super::client::{Client, PATIENCE};
use super::frames::{Frames, get};
use super::gateway::{Gateway, through_proxy};

/// SETTINGS_INITIAL_WINDOW_SIZE.
const INITIAL_WINDOW: u16 = 4;
const BUDGET: u64 = 8 << 20;
/// What a read may bring beyond it, for each of the two workers.
const BEYOND: usize = 2 * 64 * 1024;

/// A backend whose answers are larger than anybody holds.
async fn generous() -> Backend {
    Backend::scripted(|_, stream| async move {
        let mut client = Client::over(stream);
        let body = "x".repeat(512 * 1024);
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
    let gateway = Gateway::tuned(&[backend.address], |tuning| tuning.body_memory = BUDGET).await;
    let budget = &gateway.plane.state.budget;
    let mut clients = Vec::new();
    let mut most = 0;
    for _ in 0..8 {
        let mut client = Frames::connect(&gateway, &[(INITIAL_WINDOW, 0)]).await;
        // Each stream could hold a read of 64 KiB: 50 MiB in all.
        let streams: Vec<u8> = (0..100).flat_map(|n| get(2 * n + 1, "/x")).collect();
        client.send(&streams).await;
        clients.push(client);
    }
    let began = Instant::now();
    // What is left when no more is given out is less than a portion for each worker.
    while most + 1024 * 1024 < BUDGET as usize {
        most = most.max(budget.taken());
        assert!(began.elapsed() < PATIENCE, "{most}");
        tokio::task::yield_now().await;
    }
    for _ in 0..10_000 {
        most = most.max(budget.taken());
        tokio::task::yield_now().await;
    }
    let limit = BUDGET as usize + BEYOND;
    // Pingora has read up to four pieces ahead for each stream before it is told to wait.
    assert!(most <= limit || through_proxy(), "{most} of {limit}");
    drop(clients);
    let began = Instant::now();
    // What workers keep in stock is a small part.
    while budget.taken() > BUDGET as usize / 8 {
        assert!(began.elapsed() < PATIENCE, "{}", budget.taken());
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn heads_made_of_references_held_a_hundred_mebibytes() {
    let backend = Backend::new().await;
    let gateway = Gateway::tuned(&[backend.address], |tuning| tuning.body_memory = 1 << 20).await;
    let large = "x".repeat(7000);
    let mut clients = Vec::new();
    let mut refused = 0;
    for _ in 0..200 {
        let mut client = gateway.client().await;
        let fields: String = (0..4).map(|n| format!("X-{n}: {large}\r\n")).collect();
        client.send(format!("GET /wait HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n")).await;
        clients.push(client);
    }
    // Half of the budget is for 18 such heads; the others are told so at once.
    let lines = gateway.lines(150).await;
    refused += lines.iter().filter(|line| line.contains("\" 503 ")).count();
    assert!(refused >= 150, "{lines:?}");
    assert!(gateway.plane.state.budget.taken() <= 1 << 20);
    backend.gate.add_permits(200);
    drop(clients);
}
