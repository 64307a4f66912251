//! The rungs: kinds of traffic, from the smallest request on.

use super::feature::Feature;
use super::load::h2load::H2load;
use super::load::wrk::Wrk;
use super::peer::Peer;
use super::scene::Setting;

/// One kind of traffic.
#[derive(Clone, Debug)]
pub struct Rung {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it is called in tables.
    pub title: &'static str,
    /// What is done.
    pub load: Load,
    /// How the proxies are configured.
    pub setting: Setting,
    /// Who takes part.
    pub field: Field,
    /// Seconds at least; others take what `--seconds` says.
    pub seconds: u64,
}

/// What is done to the proxies.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// HTTP/1.1 as fast as it goes.
    Wrk(Wrk),
    /// HTTP/2 over TLS as fast as it goes.
    H2load(H2load),
    /// HTTP/1.1 at so many requests a second, while endpoints change so many times a second.
    Paced {
        /// Requests a second.
        rate: u32,
        /// Changes a second.
        changes: u32,
    },
    /// TLS connections with one request each as fast as it goes. wrk would resume sessions wherever it can.
    Handshakes,
    /// Messages on WebSockets as fast as it goes.
    WebSocket,
    /// Thousands of connections that do nothing.
    Idle {
        /// Over TLS.
        tls: bool,
    },
}

/// Who takes part in a rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Everybody.
    All,
    /// Those that have a table of routes, which the Pingora programs have not.
    Routing,
    /// Those that are configured for features: Sluice, and nginx as the measure.
    Features,
    /// Sluice alone, beside its own figures of another rung.
    Sluice,
}

impl Rung {
    /// Whether a peer takes part.
    pub fn takes(&self, peer: &Peer) -> bool {
        match (self.field, peer) {
            (_, Peer::Sluice(_)) => true,
            (Field::Sluice, _) => false,
            (Field::Features, peer) => *peer == Peer::Nginx,
            (_, Peer::Nghttpx) => matches!(self.load, Load::H2load(_)),
            (Field::Routing, Peer::Vanilla | Peer::Tuned) => false,
            (Field::All | Field::Routing, _) => true,
        }
    }

    /// A rung by its name.
    ///
    /// # Errors
    /// There is none; the message has all names.
    pub fn named(name: &str) -> anyhow::Result<Self> {
        let mut all = all();
        match all.iter().position(|rung| rung.name == name) {
            Some(index) => Ok(all.swap_remove(index)),
            None => {
                let names: Vec<&str> = all.iter().map(|rung| rung.name).collect();
                anyhow::bail!("there is no rung {name:?}; there are {}", names.join(", "))
            }
        }
    }
}

/// All rungs, in the order they are run.
pub fn all() -> Vec<Rung> {
    let rung = |name, title, load| Rung {
        name,
        title,
        load,
        setting: Setting::NORMAL,
        field: Field::All,
        seconds: 0,
    };
    let own = |name, title, access_log, metrics| Rung {
        setting: Setting { access_log, metrics, ..Setting::NORMAL },
        field: Field::Sluice,
        ..rung(name, title, Load::Wrk(Wrk::get("/", 64)))
    };
    let routes = |name, title, routes, hosts| Rung {
        setting: Setting { routes, ..Setting::NORMAL },
        field: Field::Routing,
        ..rung(name, title, Load::Wrk(Wrk { hosts, ..Wrk::get("/", 64) }))
    };
    let feature = |name, title, feature: Feature| Rung {
        setting: Setting { feature: Some(feature), ..Setting::NORMAL },
        field: Field::Features,
        ..rung(name, title, Load::Wrk(Wrk { fields: feature.fields(), ..Wrk::get(feature.path(), 64) }))
    };
    let h2 = |streams| Load::H2load(H2load { connections: 10, streams });
    vec![
        rung("h1", "HTTP/1.1, 0.1 KiB", Load::Wrk(Wrk::get("/", 64))),
        own("h1-no-log", "the same without access log", false, true),
        own("h1-no-metrics", "the same without metrics", true, false),
        own("h1-bare", "the same without either", false, false),
        rung("h1-10k", "HTTP/1.1, 10 KiB", Load::Wrk(Wrk::get("/10k", 64))),
        rung("h1-1m", "HTTP/1.1, 1 MiB", Load::Wrk(Wrk::get("/1m", 32))),
        rung(
            "h1-close",
            "HTTP/1.1, new connection each",
            Load::Wrk(Wrk { close: true, ..Wrk::get("/", 64) }),
        ),
        rung(
            "post-64k",
            "HTTP/1.1, POST of 64 KiB",
            Load::Wrk(Wrk { body: 64 * 1024, ..Wrk::get("/post", 64) }),
        ),
        rung("tls-h1", "TLS, HTTP/1.1, 0.1 KiB", Load::Wrk(Wrk { tls: true, ..Wrk::get("/", 64) })),
        rung("tls-h2-10", "TLS, HTTP/2, 10 streams", h2(10)),
        rung("tls-h2-100", "TLS, HTTP/2, 100 streams", h2(100)),
        rung("tls-1m", "TLS, HTTP/1.1, 1 MiB", Load::Wrk(Wrk { tls: true, ..Wrk::get("/1m", 32) })),
        rung("tls-handshake", "TLS, full handshake each", Load::Handshakes),
        rung("websocket", "WebSocket, echo of 100 bytes", Load::WebSocket),
        routes("routes-1", "1 route", 1, 1),
        routes("routes-10000-1", "10,000 routes, 1 asked", 10_000, 1),
        routes("routes-10000", "10,000 routes, 1,000 asked in turn", 10_000, 1000),
        Rung { seconds: 8, ..rung("fixed-5000", "5,000 requests/s", Load::Paced { rate: 5000, changes: 0 }) },
        Rung {
            seconds: 8,
            field: Field::Sluice,
            ..rung("changes-50", "the same, 50 changes/s", Load::Paced { rate: 5000, changes: 50 })
        },
        feature("rewrite", "rewritten path", Feature::Rewrite),
        feature("gzip", "10 KiB of text, gzip", Feature::Gzip),
        feature("basic-auth", "basic authentication", Feature::BasicAuth),
        feature("external-auth", "external authentication", Feature::ExternalAuth),
        feature("mirror", "mirrored request", Feature::Mirror),
        rung("idle", "idle connection", Load::Idle { tls: false }),
        rung("tls-idle", "idle connection, TLS", Load::Idle { tls: true }),
    ]
}
