//! A data plane in memory, and request heads for it.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode, Version};
use sluice_config::{
    Action, Backend, Balance, Bind, BindProtocol, CallDestination, Change, Delta, Endpoint, EndpointSet,
    EndpointSetKey, ExternalAuth, Generation, GlobalSettings, GroupId, Host, HostKey, HostName, HostPattern,
    HostTls, Listener, ListenerGroup, ListenerId, Match, ObjectRef, Origin, PathMatch, Policies, Pool,
    PoolKey, Refusal, Report, Rule, ServiceRef, Stream, StreamKey, Template, TransportProtocol,
    UpstreamProtocol, WeightedBackend,
};

use crate::connection::info::ConnectionInfo;
use crate::connection::info::Texts;
use crate::connection::info::TlsInfo;
use crate::message::field_list::FieldList;
use crate::message::request_head::RequestHead;
use crate::pipeline::Answer;
use crate::pipeline::Exchange;
use crate::pipeline::ExchangeOutcome;
use crate::pipeline::Failure;
use crate::pipeline::FailureKind;
use crate::pipeline::Originator;
use crate::pipeline::Upstream;
use crate::pipeline::Verdict;
use crate::state::State;
use crate::state::apply::apply;
use crate::state::snapshot::PublishedSnapshot;
use crate::stream_table::StreamRoute;
use crate::telemetry::{AccessLog, Telemetry, TelemetryOptions};
use crate::tls::Certificates;

pub(crate) struct NoCertificates;

impl Certificates for NoCertificates {
    fn apply(&self, _: &Delta) -> Vec<Refusal> {
        Vec::new()
    }

    fn remove(&self, _: &Delta) {}
}

/// What was written to it.
#[derive(Clone, Default)]
pub(crate) struct Output(pub(crate) Arc<Mutex<Vec<u8>>>);

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(crate) struct Plane {
    pub(crate) state: Arc<State>,
    output: Output,
    generation: u64,
}

impl Plane {
    pub(crate) fn new() -> Self {
        Self::with_options(TelemetryOptions { enable_metrics: true, ..TelemetryOptions::default() })
    }

    pub(crate) fn with_options(options: TelemetryOptions) -> Self {
        let output = Output::default();
        let log = AccessLog::to(output.clone()).unwrap();
        let telemetry = Arc::new(Telemetry::new(options, log).unwrap());
        let mut plane = Self { state: State::new(telemetry, Arc::new(|_| ())), output, generation: 0 };
        let listener = Listener { id: ListenerId::any(), host: HostPattern::Any };
        let bind = Bind {
            addresses: Vec::new(),
            port: 80,
            declared_port: 80,
            protocol: BindProtocol::Http,
            source: "--http-port".into(),
        };
        let group = ListenerGroup {
            id: GroupId::ingress(),
            binds: vec![bind],
            listeners: vec![listener],
            required: true,
            stream: None,
        };
        plane.apply(Delta {
            complete: true,
            groups: vec![Change::Put(GroupId::ingress(), Arc::new(group))],
            ..Delta::default()
        });
        plane
    }

    pub(crate) fn apply(&mut self, delta: Delta) -> Vec<Refusal> {
        self.generation += 1;
        let delta = Delta { generation: Generation(self.generation), ..delta };
        match apply(&self.state, &delta, &NoCertificates) {
            Report::Applied { generation, refused, .. } => {
                assert_eq!(generation, delta.generation);
                refused
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn tune(&mut self, change: impl FnOnce(&mut GlobalSettings)) {
        let mut settings = GlobalSettings::clone(&self.state.settings());
        change(&mut settings);
        self.apply(Delta { settings: Some(Arc::new(settings)), ..Delta::default() });
    }

    /// A pool of the Service `shop/<service>:80` with endpoints `10.0.0.<last>:8080`.
    pub(crate) fn pool(&mut self, service: &str, balance: Balance, last: &[u8]) {
        self.pool_over(UpstreamProtocol::Http, service, balance, last);
    }

    pub(crate) fn pool_over(
        &mut self,
        protocol: UpstreamProtocol,
        service: &str,
        balance: Balance,
        last: &[u8],
    ) {
        let pool = Pool { key: pool_key(service), protocol, balance, slow_start: None, health_check: None };
        self.apply(Delta { pools: vec![Change::Put(pool.key.clone(), Arc::new(pool))], ..Delta::default() });
        self.endpoints(service, last);
    }

    pub(crate) fn endpoints(&mut self, service: &str, last: &[u8]) {
        let key = pool_key(service).endpoints;
        let endpoint = |last: &u8| Endpoint { address: ([10, 0, 0, *last], 8080).into(), zone: None };
        let set = EndpointSet { key: key.clone(), endpoints: last.iter().map(endpoint).collect() };
        self.apply(Delta { endpoint_sets: vec![Change::Put(key, Arc::new(set))], ..Delta::default() });
    }

    pub(crate) fn host(&mut self, pattern: HostPattern, tls: bool, rules: Vec<Rule>) -> Vec<Refusal> {
        let key = host_key(pattern);
        let tls = tls.then_some(HostTls::default());
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
        self.put_host(host)
    }

    pub(crate) fn put_host(&mut self, host: Host) -> Vec<Refusal> {
        let key = host.key.clone();
        self.apply(Delta { hosts: vec![Change::Put(key, Arc::new(host))], ..Delta::default() })
    }

    /// The target of a TCP service.
    pub(crate) fn stream(&mut self, stream: Stream) -> Arc<StreamRoute> {
        let id = GroupId::stream(StreamKey { transport: TransportProtocol::Tcp, port: 5432 });
        let group = ListenerGroup {
            id: id.clone(),
            binds: Vec::new(),
            listeners: Vec::new(),
            required: false,
            stream: Some(Arc::new(stream)),
        };
        let groups = vec![Change::Put(id.clone(), Arc::new(group))];
        assert_eq!(self.apply(Delta { groups, ..Delta::default() }), []);
        self.state.published.load().streams.service(&id).unwrap().clone()
    }

    /// One host, one pool with a Service of that name, one rule for everything.
    pub(crate) fn simple(endpoints: &[u8]) -> Self {
        Self::with_policies(Balance::RoundRobin, endpoints, Policies::default())
    }

    pub(crate) fn with_policies(balance: Balance, endpoints: &[u8], policies: Policies) -> Self {
        let mut plane = Self::new();
        plane.pool("web", balance, endpoints);
        let rule = Rule { policies: Arc::new(policies), ..rule("/", forward("web")) };
        assert_eq!(plane.host(exact("a.example"), false, vec![rule]), []);
        plane
    }

    pub(crate) fn begin(&self, request: &Request) -> (Box<Exchange>, Verdict) {
        Exchange::begin(PublishedSnapshot::take(&self.state), &connection(request.https), &request.head())
    }

    /// Returns the answer to a request that must not be forwarded.
    pub(crate) fn answer(&self, request: &Request) -> Answer {
        match self.begin(request) {
            (_, Verdict::Answer(answer)) => answer,
            (exchange, verdict) => panic!("{verdict:?}: {exchange:?}"),
        }
    }

    /// Returns the exchange of a request that must be forwarded.
    pub(crate) fn forward(&self, request: &Request) -> Box<Exchange> {
        match self.begin(request) {
            (exchange, Verdict::Forward) => exchange,
            (_, verdict) => panic!("{verdict:?}"),
        }
    }

    /// Lines of the access log, without times.
    pub(crate) fn lines(&self) -> Vec<String> {
        assert!(self.state.telemetry.access_log.flush(Duration::from_secs(30)));
        let text = String::from_utf8(self.output.0.lock().unwrap().clone()).unwrap();
        let without_time = |line: &str| {
            let (start, rest) = line.split_once('[').unwrap();
            format!("{start}[T]{}", rest.split_once(']').unwrap().1)
        };
        text.lines().map(without_time).collect()
    }

    pub(crate) fn metrics(&self) -> String {
        let (health, memory) = (self.state.registry.health(), self.state.memory_use());
        let none = std::collections::BTreeSet::new();
        let telemetry = &self.state.telemetry;
        let families = telemetry
            .gather(
                health,
                &self.state.registry.checked(),
                memory,
                self.state.export_counts(),
                std::iter::empty(),
                &none,
            )
            .unwrap();
        telemetry.text(&families).unwrap()
    }
}

/// A request as a test writes it.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) target: &'static str,
    pub(crate) authority: &'static str,
    pub(crate) headers: FieldList,
    pub(crate) https: bool,
}

impl Request {
    pub(crate) fn get(authority: &'static str, target: &'static str) -> Self {
        Self { method: Method::GET, target, authority, headers: FieldList::default(), https: false }
            .with("host", authority)
    }

    pub(crate) fn https(mut self) -> Self {
        self.https = true;
        self
    }

    pub(crate) fn method(mut self, method: Method) -> Self {
        self.method = method;
        self
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push_line(name.as_bytes(), value.as_bytes());
        self
    }

    /// Returns the fields that an endpoint gets in an attempt of its exchange.
    pub(crate) fn upstream_fields(&self, exchange: &Exchange) -> HeaderMap {
        let mut head = http::Request::new(());
        *head.headers_mut() = self.headers.parsed().collect();
        exchange.upstream_request(&mut head);
        head.into_parts().0.headers
    }

    pub(crate) fn head(&self) -> RequestHead<'_> {
        RequestHead {
            method: &self.method,
            target: self.target,
            received: None,
            authority: self.authority,
            version: Version::HTTP_11,
            headers: &self.headers,
            length: 100,
        }
    }
}

pub(crate) fn connection(https: bool) -> Arc<ConnectionInfo> {
    Arc::new(connection_from("192.0.2.7:5000", https))
}

/// A connection that this peer has opened.
pub(crate) fn connection_from(peer: &str, https: bool) -> ConnectionInfo {
    let peer: SocketAddr = peer.parse().unwrap();
    ConnectionInfo {
        peer,
        proxied: None,
        texts: Texts::new(peer.ip(), if https { 443 } else { 80 }),
        number: 1,
        opened: std::time::Instant::now(),
        requests: Default::default(),
        retired: Default::default(),
        group: GroupId::ingress(),
        declared_port: if https { 443 } else { 80 },
        port: if https { 8443 } else { 8080 },
        protocol: if https { BindProtocol::Https } else { BindProtocol::Http },
        tls: https.then(|| {
            Box::new(TlsInfo {
                server_name: None,
                version: "TLSv1.3",
                cipher: "x",
                alpn: "",
                resumed: false,
                client: None,
                progress: None,
            })
        }),
    }
}

pub(crate) fn exact(name: &str) -> HostPattern {
    HostPattern::Exact(HostName::new(name))
}

pub(crate) fn host_key(pattern: HostPattern) -> HostKey {
    HostKey { group: GroupId::ingress(), listener: ListenerId::any(), pattern }
}

/// Returns the settings of an authorisation service with the pool `auth`, which gets `target`.
pub(crate) fn external_auth(target: Template) -> ExternalAuth {
    ExternalAuth {
        to: CallDestination::Fixed { pool: pool_key("auth"), host: "auth.example".into(), server_name: None },
        target,
        method: None,
        sign_in: None,
        response_headers: Vec::new(),
        request_redirect: None,
        fields: Vec::new(),
        kept: Vec::new(),
        set_headers: None,
        always_set_cookie: false,
        cache: None,
        keep_alive: None,
    }
}

pub(crate) fn pool_key(service: &str) -> PoolKey {
    let endpoints = EndpointSetKey { namespace: "shop".into(), service: service.into(), port: "http".into() };
    PoolKey { endpoints, policy: "http".into() }
}

pub(crate) fn service(name: &str) -> ServiceRef {
    ServiceRef { namespace: "shop".into(), name: name.into(), port: "80".into() }
}

pub(crate) fn backend(name: &str) -> Backend {
    Backend::Pool { pool: pool_key(name), service: service(name) }
}

pub(crate) fn weighted(weight: u32, backend: Backend) -> WeightedBackend {
    WeightedBackend { weight, backend }
}

pub(crate) fn forward(name: &str) -> Action {
    Action::Forward(vec![weighted(1, backend(name))])
}

pub(crate) fn rule(path: &str, action: Action) -> Rule {
    Rule {
        matches: Match::path(PathMatch::Prefix(path.into())),
        action,
        policies: Arc::default(),
        origin: Arc::new(Origin {
            object: ObjectRef::new("Ingress", "shop", "web"),
            rule: 0,
            match_index: 0,
            rule_name: None,
            path: path.into(),
        }),
    }
}

pub(crate) fn failure(kind: FailureKind) -> Failure {
    let sent = !matches!(kind, FailureKind::Connect | FailureKind::ConnectTimeout);
    Failure { kind, stale: false, sent, replayable: true, response_started: false }
}

/// The last byte of the endpoint's address.
pub(crate) fn last(upstream: &Upstream) -> u8 {
    match upstream.address.ip() {
        std::net::IpAddr::V4(ip) => ip.octets()[3],
        other => panic!("{other}"),
    }
}

pub(crate) fn field<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    let mut values = answer.fields.iter().filter(|(field, _)| field == name);
    let value = values.next().map(|(_, value)| value.to_str().unwrap());
    assert!(values.next().is_none(), "{name} stands twice");
    value
}

pub(crate) fn outcome(status: u16) -> ExchangeOutcome {
    ExchangeOutcome {
        status: Some(StatusCode::from_u16(status).unwrap()),
        body_sent: 5,
        bytes_sent: 120,
        body_received: 7,
        upstream_received: 5,
        aborted: false,
        ended: None,
    }
}
