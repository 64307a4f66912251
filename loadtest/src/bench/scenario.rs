//! The scenarios: kinds of traffic, starting with the smallest request.

use super::agent::Agent;
use super::feature::{Feature, TextSize};
use super::load::h2load::H2load;
use super::load::tcp::Tcp;
use super::load::wrk::Wrk;
use super::origin::grpc::{STREAM, UNARY};
use super::peer::Peer;
use super::setup::Setting;

/// One kind of traffic.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The name on the command line.
    pub name: &'static str,
    /// The title in tables.
    pub title: &'static str,
    /// The traffic.
    pub traffic: Traffic,
    /// The configuration of the proxies.
    pub setting: Setting,
    /// The peers that take part.
    pub entrants: Entrants,
    /// Minimum duration in seconds. Otherwise `--seconds` applies.
    pub seconds: u64,
    /// Whether it runs only if it is named.
    pub is_optional: bool,
}

/// The traffic of a scenario.
#[derive(Clone, Copy, Debug)]
pub enum Traffic {
    /// HTTP/1.1 at full speed.
    Wrk(Wrk),
    /// HTTP/2 over TLS at full speed.
    H2load(H2load),
    /// HTTP/1.1 at a fixed rate, with endpoint changes at another fixed rate.
    Paced {
        /// Requests per second.
        rate: u32,
        /// Changes per second.
        changes: u32,
    },
    /// TLS connections with one request each at full speed. Not with wrk, which resumes sessions
    /// where possible.
    Handshakes {
        /// Whether clients resume the session of their previous connection.
        resumes: bool,
    },
    /// WebSocket messages at full speed.
    WebSocket,
    /// TCP at full speed.
    Tcp(Tcp),
    /// Datagrams at full speed.
    Udp,
    /// Thousands of idle connections.
    Idle(IdleProtocol),
}

/// The protocol of idle connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleProtocol {
    /// HTTP/1.1.
    Http,
    /// HTTP/1.1 over TLS.
    Https,
    /// TCP that is forwarded without being interpreted.
    Tcp,
}

/// The peers that take part in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrants {
    /// All peers.
    All,
    /// Peers with a route table, which excludes the Pingora programs.
    Routing,
    /// Peers configured for features: Sluice, and nginx as the reference.
    Features,
    /// Peers configured for gRPC.
    Grpc,
    /// Peers configured for TCP.
    Tcp,
    /// Peers configured for UDP. HAProxy 2.6 has none.
    Udp,
    /// Peers with a configured cache of TLS sessions.
    Sessions,
    /// Sluice only, compared with its own figures in another scenario.
    Sluice,
}

impl Scenario {
    /// Returns whether a peer takes part.
    pub fn takes(&self, peer: &Peer) -> bool {
        match (self.entrants, peer) {
            (_, Peer::Sluice(_)) => true,
            (Entrants::Sluice, _) => false,
            (Entrants::Features, peer) => *peer == Peer::Nginx,
            (Entrants::Grpc, peer) => matches!(peer, Peer::Nginx | Peer::Haproxy | Peer::Envoy),
            (Entrants::Sessions | Entrants::Tcp, peer) => matches!(peer, Peer::Nginx | Peer::Haproxy),
            (Entrants::Udp, peer) => *peer == Peer::Nginx,
            (_, Peer::Nghttpx) => matches!(self.traffic, Traffic::H2load(_)),
            (Entrants::Routing, Peer::Vanilla | Peer::Tuned) => false,
            (Entrants::All | Entrants::Routing, _) => true,
        }
    }

    /// Checks that the programs which Sluice needs beside it are there.
    ///
    /// # Errors
    /// One is missing; the message states how to build it.
    pub fn check_tools(&self) -> anyhow::Result<()> {
        match self.setting.feature {
            Some(feature) if feature.needs_agent() => Agent::program().map(drop),
            _ => Ok(()),
        }
    }

    /// Returns a scenario by its name.
    ///
    /// # Errors
    /// There is no such scenario; the message lists all names.
    pub fn named(name: &str) -> anyhow::Result<Self> {
        let mut all = all();
        match all.iter().position(|scenario| scenario.name == name) {
            Some(index) => Ok(all.swap_remove(index)),
            None => {
                let names: Vec<&str> = all.iter().map(|scenario| scenario.name).collect();
                anyhow::bail!("there is no scenario {name:?}; there are {}", names.join(", "))
            }
        }
    }
}

/// Returns the scenarios that run if none is named.
pub fn usual() -> Vec<Scenario> {
    all().into_iter().filter(|scenario| !scenario.is_optional).collect()
}

/// Returns all scenarios in the order of a run.
pub fn all() -> Vec<Scenario> {
    let scenario = |name, title, traffic| Scenario {
        name,
        title,
        traffic,
        setting: Setting::NORMAL,
        entrants: Entrants::All,
        seconds: 0,
        is_optional: false,
    };
    let own = |name, title, access_log, metrics| Scenario {
        setting: Setting { access_log, metrics, ..Setting::NORMAL },
        entrants: Entrants::Sluice,
        ..scenario(name, title, Traffic::Wrk(Wrk::get("/", 64)))
    };
    let routes = |name, title, routes, hosts| Scenario {
        setting: Setting { routes, ..Setting::NORMAL },
        entrants: Entrants::Routing,
        ..scenario(name, title, Traffic::Wrk(Wrk { hosts, ..Wrk::get("/", 64) }))
    };
    let feature = |name, title, feature: Feature| Scenario {
        setting: Setting { feature: Some(feature), ..Setting::NORMAL },
        entrants: Entrants::Features,
        ..scenario(
            name,
            title,
            Traffic::Wrk(Wrk {
                fields: feature.fields(),
                body: feature.body(),
                ..Wrk::get(feature.path(), 64)
            }),
        )
    };
    let optional = |name, title, kind| Scenario { is_optional: true, ..feature(name, title, kind) };
    let streams = |name, title, traffic| Scenario {
        setting: Setting { streams: true, ..Setting::NORMAL },
        entrants: if matches!(traffic, Traffic::Udp) { Entrants::Udp } else { Entrants::Tcp },
        ..scenario(name, title, traffic)
    };
    let h2 = |streams| Traffic::H2load(H2load { connections: 10, streams, grpc: None });
    let grpc = |name, title, method| Scenario {
        setting: Setting { feature: Some(Feature::Grpc), ..Setting::NORMAL },
        entrants: Entrants::Grpc,
        ..scenario(name, title, Traffic::H2load(H2load { connections: 10, streams: 10, grpc: Some(method) }))
    };
    vec![
        scenario("h1", "HTTP/1.1, 0.1 KiB", Traffic::Wrk(Wrk::get("/", 64))),
        own("h1-no-log", "the same without access log", false, true),
        own("h1-no-metrics", "the same without metrics", true, false),
        own("h1-bare", "the same without either", false, false),
        scenario("h1-10k", "HTTP/1.1, 10 KiB", Traffic::Wrk(Wrk::get("/10k", 64))),
        scenario("h1-1m", "HTTP/1.1, 1 MiB", Traffic::Wrk(Wrk::get("/1m", 32))),
        scenario(
            "h1-close",
            "HTTP/1.1, new connection each",
            Traffic::Wrk(Wrk { close: true, ..Wrk::get("/", 64) }),
        ),
        scenario(
            "post-64k",
            "HTTP/1.1, POST of 64 KiB",
            Traffic::Wrk(Wrk { body: 64 * 1024, ..Wrk::get("/post", 64) }),
        ),
        scenario("tls-h1", "TLS, HTTP/1.1, 0.1 KiB", Traffic::Wrk(Wrk { tls: true, ..Wrk::get("/", 64) })),
        scenario("tls-h2-10", "TLS, HTTP/2, 10 streams", h2(10)),
        scenario("tls-h2-100", "TLS, HTTP/2, 100 streams", h2(100)),
        scenario("tls-1m", "TLS, HTTP/1.1, 1 MiB", Traffic::Wrk(Wrk { tls: true, ..Wrk::get("/1m", 32) })),
        scenario("tls-handshake", "TLS, full handshake each", Traffic::Handshakes { resumes: false }),
        Scenario {
            setting: Setting { sessions: true, ..Setting::NORMAL },
            entrants: Entrants::Sessions,
            ..scenario("tls-resume", "TLS, resumed session each", Traffic::Handshakes { resumes: true })
        },
        scenario("websocket", "WebSocket, echo of 100 bytes", Traffic::WebSocket),
        routes("routes-1", "1 route", 1, 1),
        routes("routes-10000-1", "10,000 routes, 1 asked", 10_000, 1),
        routes("routes-10000", "10,000 routes, 1,000 asked in turn", 10_000, 1000),
        Scenario {
            seconds: 8,
            ..scenario("fixed-5000", "5,000 requests/s", Traffic::Paced { rate: 5000, changes: 0 })
        },
        Scenario {
            seconds: 8,
            entrants: Entrants::Sluice,
            ..scenario("changes-50", "the same, 50 changes/s", Traffic::Paced { rate: 5000, changes: 50 })
        },
        feature("policies", "rewrite, CORS, headers, 1,000 networks, rate limit", Feature::Policies),
        feature("rewrite", "rewritten path", Feature::Rewrite),
        feature("gzip", "10 KiB of text, gzip", Feature::Gzip(TextSize::Medium)),
        feature("gzip-100k", "100 KiB of text, gzip", Feature::Gzip(TextSize::Large)),
        feature("brotli", "10 KiB of text, brotli", Feature::Brotli(TextSize::Medium)),
        feature("brotli-100k", "100 KiB of text, brotli", Feature::Brotli(TextSize::Large)),
        feature("basic-auth", "basic authentication", Feature::BasicAuth),
        feature("external-auth", "external authentication", Feature::ExternalAuth),
        feature("canary", "canary of 10 %", Feature::Canary),
        feature("mirror", "mirrored request", Feature::Mirror),
        feature("post-64k-buffered", "POST of 64 KiB, buffered", Feature::Buffered),
        optional("cache-hit", "10 KiB from the cache", Feature::CacheHit),
        optional("otel", "traces, 1 % sampled; nginx without traces", Feature::Tracing),
        optional("waf", "firewall with the OWASP rules", Feature::Firewall),
        optional("waf-off", "the same without a firewall", Feature::NoFirewall),
        grpc("grpc-unary", "gRPC, one message each way", UNARY),
        grpc("grpc-stream", "gRPC, a stream of 100 messages", STREAM),
        streams("tcp-throughput", "TCP, 1 MiB to the client", Traffic::Tcp(Tcp::Throughput)),
        streams("tcp-connections", "TCP, new connection with an echo each", Traffic::Tcp(Tcp::Connections)),
        streams("udp-packets", "UDP, 100 bytes and their echo", Traffic::Udp),
        scenario("idle", "idle connection", Traffic::Idle(IdleProtocol::Http)),
        scenario("tls-idle", "idle connection, TLS", Traffic::Idle(IdleProtocol::Https)),
        streams("tcp-idle", "idle TCP connection", Traffic::Idle(IdleProtocol::Tcp)),
    ]
}
