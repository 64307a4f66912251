//! Active health checks.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use pingora_core::{Error, ErrorType};
use pingora_load_balancing::Backend;
use pingora_load_balancing::health_check::{HealthCheck, HealthObserve, TcpHealthCheck};
use tokio::sync::mpsc;

use super::*;

type Seen = (SocketAddr, bool);

/// Passes on what it observes.
struct Observer(mpsc::UnboundedSender<Seen>);

#[async_trait]
impl HealthObserve for Observer {
    async fn observe(&self, target: &Backend, healthy: bool) {
        let _ = self.0.send((*target.addr.as_inet().unwrap(), healthy));
    }
}

/// Gives the answer that a test sets, and records which endpoint was checked.
struct Told {
    answer: Arc<AtomicBool>,
    checked: mpsc::UnboundedSender<SocketAddr>,
    threshold: usize,
}

#[async_trait]
impl HealthCheck for Told {
    async fn check(&self, target: &Backend) -> Result<(), Box<Error>> {
        let _ = self.checked.send(*target.addr.as_inet().unwrap());
        if self.answer.load(Ordering::SeqCst) { Ok(()) } else { Err(Error::new(ErrorType::ConnectRefused)) }
    }

    fn health_threshold(&self, _success: bool) -> usize {
        self.threshold
    }
}

const INTERVAL: Duration = Duration::from_millis(5);

#[tokio::test]
async fn pingoras_tcp_check_sees_an_endpoint_go_and_come_back() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[]);
    let key = set_key("web");
    let endpoints = vec![sluice_config::Endpoint { address, zone: None }];
    let set = Arc::new(sluice_config::EndpointSet { key: key.clone(), endpoints });
    fixture.registry.apply(&Delta { endpoint_sets: vec![Change::Put(key.clone(), set)], ..Delta::default() });

    let (sender, mut seen) = mpsc::unbounded_channel();
    let mut check = TcpHealthCheck::new();
    check.health_changed_callback = Some(Box::new(Observer(sender)));
    let (handle, prober) = Prober::new();
    let task = tokio::spawn(prober.run());
    let set = fixture.registry.endpoint_set(&key).unwrap();
    handle.watch(set, Arc::new(ProbePolicy { interval: INTERVAL, check }));

    drop(listener);
    assert_eq!(seen.recv().await, Some((address, false)));
    assert!(!pool.set().endpoints()[0].is_usable(Instant::now()));
    let _listener = tokio::net::TcpListener::bind(address).await.unwrap();
    assert_eq!(seen.recv().await, Some((address, true)));
    assert!(pool.set().endpoints()[0].is_usable(Instant::now()));

    drop(handle);
    task.await.unwrap();
}

#[tokio::test]
async fn endpoints_that_come_are_checked_and_those_that_go_are_not() {
    let (fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1]);
    let answer = Arc::new(AtomicBool::new(true));
    let (checked, mut checks) = mpsc::unbounded_channel();
    let (handle, prober) = Prober::new();
    tokio::spawn(prober.run());
    let check = Box::new(Told { answer: answer.clone(), checked, threshold: 3 });
    handle.watch(pool.set().clone(), Arc::new(ProbePolicy { interval: INTERVAL, check }));
    assert_eq!(checks.recv().await, Some(address(1)));

    fixture.put(&[1, 2]);
    while checks.recv().await != Some(address(2)) {}
    fixture.put(&[2]);
    // The set is looked at once per interval; after a while only the one that is left is checked.
    let mut in_a_row = 0;
    while in_a_row < 5 {
        in_a_row = if checks.recv().await == Some(address(2)) { in_a_row + 1 } else { 0 };
    }

    let endpoint = endpoint(&pool, 2);
    answer.store(false, Ordering::SeqCst);
    while endpoint.passes_probes() {
        checks.recv().await;
    }
    handle.unwatch(set_key("web"));
    // The channel closes when the policy, and with it the sender, is dropped.
    while checks.recv().await.is_some() {}
    assert!(endpoint.passes_probes(), "what is not checked counts as well");
}
