//! Shared fixtures of the registry's tests.

mod active;
mod apply;
mod balance;
mod health;
mod keys;
mod turns;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use sluice_config::{Balance, Report};

use super::*;

/// A registry, and the reports it made.
struct Fixture {
    registry: Registry,
    reports: Arc<Mutex<Vec<Report>>>,
}

impl Fixture {
    fn new() -> Self {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let sink = reports.clone();
        Self { registry: Registry::new(Arc::new(move |report| sink.lock().unwrap().push(report))), reports }
    }

    /// Creates a registry with one pool over these members.
    fn with_pool(balance: Balance, members: &[u16]) -> (Self, Arc<Pool>) {
        let fixture = Self::new();
        fixture.put(members);
        let pool = fixture.put_pool(balance, "test");
        (fixture, pool)
    }

    fn put(&self, members: &[u16]) {
        self.registry.apply(&put_set("web", members));
    }

    fn put_pool(&self, balance: Balance, policy: &str) -> Arc<Pool> {
        let pool = pool_config("web", balance, policy);
        let key = pool.key.clone();
        self.registry
            .apply(&Delta { pools: vec![Change::Put(key.clone(), Arc::new(pool))], ..Delta::default() });
        self.registry.pool(&key).unwrap()
    }

    fn put_checked(&self, config: &sluice_config::Pool) -> Arc<Pool> {
        let key = config.key.clone();
        let pools = vec![Change::Put(key.clone(), Arc::new(config.clone()))];
        self.registry.apply(&Delta { pools, ..Delta::default() });
        self.registry.pool(&key).unwrap()
    }

    fn remove_set(&self) {
        let endpoint_sets = vec![Change::Remove(set_key("web"))];
        self.registry.remove(&Delta { endpoint_sets, ..Delta::default() });
    }

    fn remove_pool(&self, pool: &Pool) {
        let pools = vec![Change::Remove(pool.key().clone())];
        self.registry.remove(&Delta { pools, ..Delta::default() });
    }
}

fn set_key(service: &str) -> EndpointSetKey {
    EndpointSetKey { namespace: "shop".into(), service: service.into(), port: "http".into() }
}

/// Members are numbers, each of which stands for an address.
fn put_set(service: &str, members: &[u16]) -> Delta {
    let endpoints = members
        .iter()
        .map(|number| sluice_config::Endpoint { address: address(*number), zone: None })
        .collect();
    let key = set_key(service);
    let set = Arc::new(sluice_config::EndpointSet { key: key.clone(), endpoints });
    Delta { endpoint_sets: vec![Change::Put(key, set)], ..Delta::default() }
}

fn pool_config(service: &str, balance: Balance, policy: &str) -> sluice_config::Pool {
    sluice_config::Pool {
        key: PoolKey { endpoints: set_key(service), policy: policy.into() },
        protocol: sluice_config::UpstreamProtocol::Http,
        balance,
        slow_start: None,
        health_check: None,
    }
}

/// A pool whose endpoints are checked at this port.
fn checked(service: &str, port: u16) -> sluice_config::Pool {
    let check = HealthCheck {
        kind: sluice_config::CheckKind::Tcp,
        port: Some(port),
        interval: std::time::Duration::from_secs(10),
        timeout: std::time::Duration::from_secs(1),
        healthy: 1,
        unhealthy: 1,
    };
    let plain = pool_config(service, Balance::RoundRobin, &format!("checked at {port}"));
    sluice_config::Pool { health_check: Some(Arc::new(check)), ..plain }
}

fn address(number: u16) -> std::net::SocketAddr {
    std::net::SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 8080))
}

fn number(endpoint: &Endpoint) -> u16 {
    let std::net::IpAddr::V4(ip) = endpoint.address().ip() else { panic!("not one of the fixture's") };
    u16::from_be_bytes([ip.octets()[2], ip.octets()[3]])
}

fn request() -> PickRequest<'static> {
    PickRequest { key: None, tried: &[], now: Instant::now() }
}

/// A key that selects one endpoint.
fn whole(bytes: &[u8]) -> PickKey<'_> {
    PickKey { bytes, subset: None }
}

fn pick(pool: &Pool) -> u16 {
    number(&pool.pick(&request()).unwrap())
}

fn endpoint(pool: &Pool, wanted: u16) -> Arc<Endpoint> {
    pool.set().endpoints().into_iter().find(|endpoint| number(endpoint) == wanted).unwrap()
}

fn count(picks: impl IntoIterator<Item = u16>) -> HashMap<u16, usize> {
    let mut counts = HashMap::new();
    picks.into_iter().for_each(|number| *counts.entry(number).or_default() += 1);
    counts
}
