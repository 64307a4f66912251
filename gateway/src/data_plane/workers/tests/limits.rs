//! Limits on the number of connections.

use std::num::NonZeroUsize;
use std::time::Duration;

use sluice_config::UpstreamProtocol;
use sluice_testing::wait::until;

use super::backend::Backend;
use super::gateway::Gateway;
use crate::worker::engine_choice::EngineChoice;

#[tokio::test]
async fn idle_connections_end_after_a_while() {
    let backend = Backend::new().await;
    let gateway =
        Gateway::tuned(&[backend.address], |settings| settings.keep_alive = Duration::from_millis(50)).await;
    let mut client = gateway.client().await;
    assert!(client.get("/x").await.keeps_alive());
    client.ends().await;
}

#[tokio::test]
async fn without_keep_alive_every_answer_is_the_last() {
    let backend = Backend::new().await;
    let gateway = Gateway::tuned(&[backend.address], |settings| settings.keep_alive = Duration::ZERO).await;
    let mut client = gateway.client().await;
    assert!(!client.get("/x").await.keeps_alive());
    client.ends().await;
}

#[tokio::test]
async fn connections_serve_so_many_requests() {
    let backend = Backend::new().await;
    let gateway = Gateway::tuned(&[backend.address], |settings| settings.keep_alive_requests = 3).await;
    let mut client = gateway.client().await;
    assert!(client.get("/1").await.keeps_alive());
    assert!(client.get("/2").await.keeps_alive());
    assert!(!client.get("/3").await.keeps_alive());
    client.ends().await;
}

#[tokio::test]
async fn at_the_limit_the_oldest_idle_connection_makes_room() {
    // One for each of the two workers.
    the_third_connection_is_one_too_many(1, None).await;
}

#[tokio::test]
async fn only_workers_that_serve_count() {
    the_third_connection_is_one_too_many(2, NonZeroUsize::new(1)).await;
}

async fn the_third_connection_is_one_too_many(most: usize, workers: Option<NonZeroUsize>) {
    let backend = Backend::new().await;
    let gateway = Gateway::tuned(&[backend.address], |settings| {
        settings.max_connections = most;
        settings.workers = workers;
    })
    .await;
    let mut first = gateway.client().await;
    until("it is admitted", || gateway.drain.connections() == 1).await;
    let mut second = gateway.client().await;
    assert_eq!(second.get("/x").await.status, 200);
    let mut third = gateway.client().await;
    first.ends().await;
    assert_eq!((third.get("/x").await.status, second.get("/x").await.status), (200, 200));
    until("the limit", || gateway.drain.connections() == 2).await;
    let metrics = gateway.plane.metrics();
    assert!(metrics.contains("sluice_connections_reclaimed_total 1"), "{metrics}");
    assert!(metrics.contains("sluice_connections_refused_total 0"), "{metrics}");
}

#[tokio::test]
async fn an_idle_connection_of_another_worker_makes_room_too() {
    let backend = Backend::new().await;
    let gateway = Gateway::tuned(&[backend.address], |settings| settings.max_connections = 4).await;
    // Idle clients on either worker.
    let mut silent = Vec::new();
    for count in 1..=8 {
        silent.push(gateway.client().await);
        until("it is admitted", || gateway.drain.connections() == count).await;
    }
    let mut clients = Vec::new();
    for _ in 1..=8 {
        let mut client = gateway.client().await;
        assert_eq!(client.get("/x").await.status, 200);
        clients.push(client);
    }
    for mut silent in silent {
        silent.ends().await;
    }
    for client in &mut clients {
        assert_eq!(client.get("/x").await.status, 200);
    }
    until("the limit", || gateway.drain.connections() == 8).await;
}

#[tokio::test]
async fn a_new_pool_size_takes_effect_for_new_connections() {
    let backend = Backend::new().await;
    // The direct engine's pool adopts the setting without being replaced.
    let mut gateway =
        Gateway::driven(EngineChoice::Proxy, &[backend.address], UpstreamProtocol::Http, |_| ()).await;
    assert_eq!(gateway.client().await.get("/x").await.status, 200);
    gateway.plane.tune(|settings| settings.upstream_keepalive_connections = 7);
    assert_eq!(gateway.client().await.get("/x").await.status, 200);
    assert_eq!(backend.connections(), 2, "the new pool is empty");
}
