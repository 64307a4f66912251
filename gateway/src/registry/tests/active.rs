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
use crate::registry::prober::ProbePolicy;

type Seen = (SocketAddr, bool);

/// Forwards what it observes.
struct Observer(mpsc::UnboundedSender<Seen>);

#[async_trait]
impl HealthObserve for Observer {
    async fn observe(&self, target: &Backend, healthy: bool) {
        let _ = self.0.send((*target.addr.as_inet().unwrap(), healthy));
    }
}

/// Returns the configured result and records which endpoint was checked.
struct ScriptedCheck {
    answer: Arc<AtomicBool>,
    checked: mpsc::UnboundedSender<SocketAddr>,
    threshold: usize,
}

#[async_trait]
impl HealthCheck for ScriptedCheck {
    async fn check(&self, target: &Backend) -> Result<(), Box<Error>> {
        let _ = self.checked.send(*target.addr.as_inet().unwrap());
        if self.answer.load(Ordering::SeqCst) { Ok(()) } else { Err(Error::new(ErrorType::ConnectRefused)) }
    }

    fn health_threshold(&self, _success: bool) -> usize {
        self.threshold
    }
}

const INTERVAL: Duration = Duration::from_millis(5);

fn policy(check: Box<dyn HealthCheck + Send + Sync>) -> ProbePolicy {
    ProbePolicy { interval: INTERVAL, timeout: Duration::from_secs(30), port: None, check }
}

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
    handle.watch(set, 0, Arc::new(policy(check)));

    drop(listener);
    assert_eq!(seen.recv().await, Some((address, false)));
    assert!(!pool.set().endpoints()[0].passes(1));
    let _listener = tokio::net::TcpListener::bind(address).await.unwrap();
    assert_eq!(seen.recv().await, Some((address, true)));
    assert!(pool.set().endpoints()[0].passes(1));

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
    let check = Box::new(ScriptedCheck { answer: answer.clone(), checked, threshold: 3 });
    handle.watch(pool.set().clone(), 0, Arc::new(policy(check)));
    assert_eq!(checks.recv().await, Some(address(1)));

    fixture.put(&[1, 2]);
    while checks.recv().await != Some(address(2)) {}
    fixture.put(&[2]);
    // The set is inspected once per interval. After a while only the remaining endpoint is checked.
    let mut in_a_row = 0;
    while in_a_row < 5 {
        in_a_row = if checks.recv().await == Some(address(2)) { in_a_row + 1 } else { 0 };
    }

    let endpoint = endpoint(&pool, 2);
    answer.store(false, Ordering::SeqCst);
    while endpoint.passes(1) {
        checks.recv().await;
    }
    handle.unwatch(set_key("web"), 0);
    // The channel closes when the policy, and with it the sender, is dropped.
    while checks.recv().await.is_some() {}
    assert!(endpoint.passes(1), "what is not checked counts as well");
}

#[tokio::test(start_paused = true)]
async fn a_check_that_takes_too_long_has_failed() {
    struct Stuck;

    #[async_trait]
    impl HealthCheck for Stuck {
        async fn check(&self, _target: &Backend) -> Result<(), Box<Error>> {
            std::future::pending().await
        }

        fn health_threshold(&self, _success: bool) -> usize {
            2
        }
    }

    let (_fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1]);
    let (handle, prober) = Prober::new();
    tokio::spawn(prober.run());
    handle.watch(pool.set().clone(), 0, Arc::new(policy(Box::new(Stuck))));
    let began = tokio::time::Instant::now();
    while handle.counts().1 < 2 {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(began.elapsed() >= Duration::from_secs(60), "twice its time");
    assert!(!endpoint(&pool, 1).passes(1));
}

#[test]
fn pools_on_one_set_have_separate_checks() {
    let (fixture, plain) = Fixture::with_pool(Balance::RoundRobin, &[1, 2]);
    let (one, other) =
        (fixture.put_checked(&checked("web", 9001)), fixture.put_checked(&checked("web", 9002)));
    endpoint(&plain, 1).set_passes(0, false);
    assert_eq!(count((0..8).map(|_| pick(&one))), HashMap::from([(2, 8)]));
    for unaware in [&plain, &other] {
        assert_eq!(count((0..8).map(|_| pick(unaware))), HashMap::from([(1, 4), (2, 4)]));
    }
    let found = fixture.registry.checked().endpoints;
    assert_eq!(found.len(), 4);
    let unhealthy: Vec<_> = found.iter().filter(|endpoint| !endpoint.is_healthy).collect();
    assert_eq!(unhealthy.len(), 1);
    assert!(unhealthy[0].address == address(1) && unhealthy[0].check.contains("9001"), "{unhealthy:?}");
    fixture.remove_pool(&one);
    assert!(endpoint(&plain, 1).passes(u32::MAX), "who asked has gone");
    assert_eq!(fixture.registry.checked().endpoints.len(), 2);
}

#[test]
fn check_results_survive_a_short_absence() {
    let (fixture, _plain) = Fixture::with_pool(Balance::RoundRobin, &[1, 2]);
    let pool = fixture.put_checked(&checked("web", 9001));
    endpoint(&pool, 1).set_passes(0, false);
    fixture.put(&[2]);
    fixture.put(&[1, 2]);
    assert_eq!(count((0..8).map(|_| pick(&pool))), HashMap::from([(2, 8)]));
    fixture.put(&[2]);
    fixture.remove_pool(&pool);
    fixture.put(&[1, 2]);
    assert!(endpoint(&pool, 1).passes(u32::MAX), "also of those that were away");
}

#[tokio::test]
async fn a_check_at_a_port_of_the_gateway_itself_is_not_made_and_fails() {
    let (fixture, pool) = Fixture::with_pool(Balance::RoundRobin, &[1]);
    let (checked, mut checks) = mpsc::unbounded_channel();
    let (handle, prober) = Prober::new();
    let mut own = own::OwnListeners::default();
    own.set(vec![OwnListener {
        address: "0.0.0.0:10254".parse().unwrap(),
        name: "health".into(),
        is_public: false,
    }]);
    own.is_local = |_| Some(true);
    handle.set_own(own);
    tokio::spawn(prober.run());
    let check = || {
        Box::new(ScriptedCheck {
            answer: AtomicBool::new(true).into(),
            checked: checked.clone(),
            threshold: 1,
        })
    };
    let at = |port| Arc::new(ProbePolicy { port: Some(port), ..policy(check()) });
    handle.watch(pool.set().clone(), 0, at(10254));
    sluice_testing::wait::until("the check to fail", || handle.counts().1 > 0).await;
    assert!(!endpoint(&pool, 1).passes(1));
    assert!(checks.try_recv().is_err(), "no endpoint was checked");
    handle.watch(pool.set().clone(), 0, at(10255));
    let asked = checks.recv().await.unwrap();
    assert_eq!((asked.ip(), asked.port()), (address(1).ip(), 10255));
    drop(fixture);
}

#[test]
fn a_check_beyond_the_limit_is_refused_and_its_pool_serves() {
    let (fixture, _plain) = Fixture::with_pool(Balance::RoundRobin, &[1]);
    let pools: Vec<_> = (9000..9033).map(|port| checked("web", port)).collect();
    let put = |pool: &sluice_config::Pool| Change::Put(pool.key.clone(), Arc::new(pool.clone()));
    let refused =
        fixture.registry.apply(&Delta { pools: pools.iter().map(put).collect(), ..Delta::default() });
    let [refusal] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!(
        (&refusal.subject, refusal.code),
        (&Subject::Pool(pools[32].key.clone()), Code::HealthCheckRefused)
    );
    assert!(refusal.reason.contains("has 32 other checks"), "{}", refusal.reason);
    let unchecked = fixture.registry.pool(&pools[32].key).unwrap();
    endpoint(&unchecked, 1).set_passes(0, false);
    assert_eq!(pick(&unchecked), 1);
}

#[test]
fn a_check_that_was_refused_is_made_when_another_one_goes() {
    let (fixture, _plain) = Fixture::with_pool(Balance::RoundRobin, &[1]);
    let pools: Vec<_> = (9000..9035).map(|port| checked("web", port)).collect();
    let put = |pool: &sluice_config::Pool| Change::Put(pool.key.clone(), Arc::new(pool.clone()));
    let remove = |at: usize| Change::Remove(pools[at].key.clone());
    let delta = |pools| Delta { pools, ..Delta::default() };
    let waits = |at: usize| vec![Subject::Pool(pools[at].key.clone())];
    assert_eq!(fixture.registry.apply(&delta(pools[..34].iter().map(put).collect())).len(), 2);
    let begun = fixture.registry.remove(&delta(vec![]));
    assert!(begun.is_empty(), "{begun:?}");

    let refused = fixture.registry.pool(&pools[32].key).unwrap();
    assert_eq!(fixture.registry.remove(&delta(vec![remove(5)])), waits(32), "the first of those who wait");
    assert_eq!(refused.slot(), Some(5), "through the handle that routes have");
    let checks = || fixture.registry.checked().endpoints;
    assert!(checks().iter().any(|endpoint| endpoint.check.contains("9032")));

    // A removal in the same delta also frees capacity, and a removed pool no longer waits.
    let both = delta(vec![remove(33), put(&pools[34]), remove(7)]);
    assert_eq!(fixture.registry.apply(&both).len(), 1);
    assert_eq!(fixture.registry.remove(&both), waits(34));
    assert_eq!(checks().len(), 32);
    assert!(fixture.registry.remove(&delta(vec![remove(8)])).is_empty());
}
