//! A data plane on loopback ports.

use std::net::SocketAddr;
use std::sync::Arc;

use sluice_config::{
    Balance, Bind, BindProtocol, Certificate, CertificateId, Change, Delta, Endpoint, EndpointSet,
    GlobalSettings, GroupId, Host, HostPattern, HostTls, Listener, ListenerGroup, ListenerId, Pool,
    PrivateKey, Report, UpstreamProtocol,
};
use sluice_testing::certificate::TestCertificate;

use super::client::{Client, PATIENCE};
use crate::connection::drain::Drain;
use crate::data_plane::workers::Workers;
use crate::listen::Listeners;
use crate::pipeline::tests::fixture::{Plane, exact, forward, host_key, pool_key, rule};
use crate::state::apply::apply;
use crate::tls::CertificateStore;
use crate::worker::engine_choice::EngineChoice;

pub(super) struct Gateway {
    pub(super) plane: Plane,
    pub(super) certificates: Arc<CertificateStore>,
    pub(super) listeners: Arc<Listeners>,
    pub(super) drain: Arc<Drain>,
    workers: Option<Workers>,
    pub(super) http: SocketAddr,
    pub(super) https: SocketAddr,
}

impl Gateway {
    /// Starts two workers with `a.example` on these endpoints.
    pub(super) async fn to(endpoints: &[SocketAddr]) -> Self {
        Self::with(endpoints, UpstreamProtocol::Http, |_| ()).await
    }

    pub(super) async fn tuned(endpoints: &[SocketAddr], tune: impl FnOnce(&mut GlobalSettings)) -> Self {
        Self::with(endpoints, UpstreamProtocol::Http, tune).await
    }

    pub(super) async fn with(
        endpoints: &[SocketAddr],
        protocol: UpstreamProtocol,
        tune: impl FnOnce(&mut GlobalSettings),
    ) -> Self {
        Self::driven(engine(), endpoints, protocol, tune).await
    }

    /// Starts a gateway with a specific engine.
    pub(super) async fn driven(
        engine: EngineChoice,
        endpoints: &[SocketAddr],
        protocol: UpstreamProtocol,
        tune: impl FnOnce(&mut GlobalSettings),
    ) -> Self {
        let mut plane = Plane::new();
        plane.tune(|settings| {
            // Most of these tests are about bodies that are forwarded without buffering.
            settings.request_buffering = false;
            settings.body_limit = 0;
            tune(settings);
        });
        let (certificates, listeners, drain) =
            (CertificateStore::new().unwrap(), Listeners::new(), Drain::new());
        let workers = Workers::start(&plane.state, &certificates, &listeners, &drain, engine, 2).unwrap();
        let bind = |protocol| Bind {
            addresses: vec![[127, 0, 0, 1].into()],
            port: 0,
            declared_port: if protocol == BindProtocol::Https { 443 } else { 80 },
            protocol,
            source: "--http-port".into(),
        };
        let group = Arc::new(ListenerGroup {
            id: GroupId::ingress(),
            binds: vec![bind(BindProtocol::Http), bind(BindProtocol::Https)],
            listeners: vec![Listener { id: ListenerId::any(), host: HostPattern::Any }],
            required: true,
            stream: None,
        });
        let reports = listeners.apply(&[Change::Put(GroupId::ingress(), group)]);
        let [Report::Binds { results, .. }] = &reports[..] else { panic!("{reports:?}") };
        let pool = Pool {
            key: pool_key("web"),
            protocol,
            balance: Balance::RoundRobin,
            slow_start: None,
            health_check: None,
        };
        plane.apply(Delta { pools: vec![Change::Put(pool.key.clone(), Arc::new(pool))], ..Delta::default() });
        plane.host(exact("a.example"), false, vec![rule("/", forward("web"))]);
        let mut gateway = Self {
            plane,
            certificates,
            http: results[0].address,
            https: results[1].address,
            listeners,
            drain,
            workers: Some(workers),
        };
        gateway.endpoints(endpoints);
        gateway.listeners.open();
        gateway
    }

    pub(super) fn endpoints(&mut self, endpoints: &[SocketAddr]) {
        self.endpoints_of("web", endpoints);
    }

    pub(super) fn endpoints_of(&mut self, service: &str, endpoints: &[SocketAddr]) {
        let key = pool_key(service).endpoints;
        let mut endpoints: Vec<_> =
            endpoints.iter().map(|address| Endpoint { address: *address, zone: None }).collect();
        endpoints.sort();
        let set = EndpointSet { key: key.clone(), endpoints };
        self.plane.apply(Delta { endpoint_sets: vec![Change::Put(key, Arc::new(set))], ..Delta::default() });
    }

    /// Serves `pattern` over TLS with a certificate for `name`.
    pub(super) fn certificate(&self, secret: &str, name: &str, pattern: HostPattern) -> TestCertificate {
        let made = TestCertificate::new(&[name]);
        let id = CertificateId::new("shop", secret);
        let certificate = Certificate {
            id: id.clone(),
            chain: vec![made.der.clone()],
            key: PrivateKey::Pkcs8(made.key_der.clone()),
            facts: Default::default(),
        };
        let key = host_key(pattern);
        let tls = Some(HostTls { certificate: Some(id.clone()), ..HostTls::default() });
        let rules = vec![rule("/", forward("web"))];
        let host = Host {
            key: key.clone(),
            alias_of: None,
            has_https: tls.is_some(),
            tls,
            passthrough: None,
            client_certificates: None,
            cipher_suites: None,
            rules,
            fall_through: false,
        };
        let delta = Delta {
            certificates: vec![Change::Put(id, Arc::new(certificate))],
            hosts: vec![Change::Put(key, Arc::new(host))],
            ..Delta::default()
        };
        let report = apply(&self.plane.state, &delta, &*self.certificates);
        assert!(matches!(&report, Report::Applied { refused, .. } if refused.is_empty()), "{report:?}");
        made
    }

    pub(super) async fn client(&self) -> Client {
        Client::connect(self.http).await
    }

    /// Waits until the gateway has written `count` lines to the access log, and returns all lines.
    pub(super) async fn lines(&self, count: usize) -> Vec<String> {
        let began = std::time::Instant::now();
        loop {
            let lines = self.plane.lines();
            if lines.len() >= count {
                return lines;
            }
            assert!(began.elapsed() < PATIENCE, "{lines:?}");
            tokio::task::yield_now().await;
        }
    }

    pub(super) fn stop(&mut self) {
        if let Some(workers) = self.workers.take() {
            workers.stop();
        }
    }

    pub(super) fn close(&self) {
        self.listeners.close();
        self.drain.close();
    }
}

/// Returns whether Pingora's engine is under test. Tests of features that it lacks are skipped
/// then.
pub(super) fn through_proxy() -> bool {
    engine() == EngineChoice::Proxy
}

/// Returns the engine selected by the environment, so that one suite tests both for the same
/// behaviour.
fn engine() -> EngineChoice {
    match std::env::var("SLUICE_DRIVER").as_deref() {
        Ok("proxy") => EngineChoice::Proxy,
        _ => EngineChoice::Direct,
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.stop();
    }
}
