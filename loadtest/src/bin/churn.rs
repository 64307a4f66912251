//! Verifies that nothing fails during constant changes: steady load on one host while the endpoints
//! of its pool change 50 and then 1,000 times per second, and routes and certificates 10 times per
//! second. A quiet run precedes, as the reference for latencies.
//!
//! At 50 changes per second each change replaces the oldest endpoint by a new backend, and a
//! removed backend stops one second later. At 1,000 per second the members rotate over a fixed set
//! of backends, and a new backend joins ten times per second. Every new object must serve within
//! 100 ms: a new backend must have received a request of the load, a new route must respond, a new
//! certificate must be presented.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use sluice_loadtest::arguments::Common;
use sluice_loadtest::backend::Backend;
use sluice_loadtest::client::GatewayTarget;
use sluice_loadtest::load::{Load, LoadOutcome, Sockets};
use sluice_loadtest::manifest::{config_map, ingress, slice};
use sluice_loadtest::process::{start, stop};
use sluice_loadtest::report::{Bound, Report};
use sluice_loadtest::tls::trusting;
use sluice_testing::certificate::TestCertificate;
use sluice_testing::folder::Folder;
use sluice_testing::gateway::Source;
use sluice_testing::manifest::{nginx_class, service};
use sluice_testing::ports;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

/// The host under load.
const HOST: &str = "churn.example";
/// Number of members of the pool at any time.
const MEMBERS: usize = 10;
/// Number of open WebSockets.
const SOCKETS: usize = 20;
/// Time after which a removed backend stops.
const FAREWELL: Duration = Duration::from_secs(1);
/// Interval of changes of routes and certificates, and of new backends in the fast run.
const TENTH: Duration = Duration::from_millis(100);
/// In the fast run, the time for which a new member stays to receive its first request.
const STAY: Duration = Duration::from_millis(400);
/// Maximum time in milliseconds until a new object serves.
const NEWEST: f64 = 100.0;
/// Maximum ratio of the p99 latency to that of the quiet run.
const RATIO: f64 = 1.5;

/// Requests under constant change.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Length of each run.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Three seconds each, a quarter of the load, and only what holds on any machine is asserted.
    #[arg(long)]
    short: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let common = arguments.common.clone();
    common.run(async move { churn(&arguments).await })
}

async fn churn(arguments: &Arguments) -> anyhow::Result<Report> {
    let quarter = if arguments.short { 4 } else { 1 };
    let load = Load {
        clients: 32,
        requests: 2000 / quarter,
        connections: 200 / quarter,
        duration: Duration::from_secs(if arguments.short { 3 } else { arguments.seconds }),
    };
    let mut report = Report::default();
    let world = Arc::new(World::new()?);
    let mut members = VecDeque::new();
    for _ in 0..MEMBERS {
        members.push_back(world.backend().await?);
    }
    world.publish(members.iter())?;
    let gateway = start(&arguments.common.gateway()?, Source::Manifests(world.folder.path())).await?;
    let plain = GatewayTarget::plain(gateway.http, HOST);
    let tls = GatewayTarget::tls(gateway.https, HOST, trusting());
    // Warms connections, pools and code pages equally for all runs.
    let warm_up = Load { duration: Duration::from_secs(1), ..load };
    warm_up.run(&plain, &tls).await;

    let quiet = load.run(&plain, &tls).await;
    describe(&mut report, "quiet", &quiet, None);
    for (run, fast) in [("50/s", false), ("1000/s", true)] {
        let mut sockets = Sockets::open(SOCKETS, &plain, &tls).await?;
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let routes = tokio::spawn(change_routes(world.clone(), plain.clone(), stopped.clone()));
        let certificates = tokio::spawn(change_certificates(world.clone(), tls.clone(), stopped.clone()));
        let endpoints: JoinHandle<anyhow::Result<(VecDeque<Backend>, Changes)>> = if fast {
            tokio::spawn(move_members(world.clone(), members, stopped))
        } else {
            tokio::spawn(replace_members(world.clone(), members, stopped))
        };
        let outcome = load.run(&plain, &tls).await;
        stop.send_replace(true);
        let (kept, changes) = endpoints.await.context("endpoint changes")??;
        members = kept;
        let routes = routes.await.context("route changes")??;
        let certificates = certificates.await.context("certificate changes")??;
        describe(&mut report, run, &outcome, Some(&quiet).filter(|_| !arguments.short));
        let alive = sockets.alive().await;
        report.add(run, "WebSockets still open", alive as f64, "", Bound::Exactly(SOCKETS as f64));
        for (name, changes) in [("endpoint", &changes), ("route", &routes), ("certificate", &certificates)] {
            let (newest, lost) = match arguments.short {
                true => (Bound::None, Bound::None),
                false => (Bound::AtMost(NEWEST), Bound::Exactly(0.0)),
            };
            report.add(run, &format!("{name} changes"), changes.made as f64, "", Bound::None);
            report.add(run, &format!("newest {name} serves after, mean"), changes.mean(), "ms", Bound::None);
            report.add(run, &format!("newest {name} serves after, max"), changes.slowest(), "ms", newest);
            report.add(run, &format!("newest {name} that never served"), changes.lost as f64, "", lost);
        }
    }
    report.add("end", "resident memory", gateway.resident()? as f64 / 1048576.0, "MiB", Bound::None);
    if !report.passed() {
        report.remark(format!("log of the gateway:\n{}", gateway.log()));
    }
    stop(gateway).await?;
    Ok(report)
}

fn describe(report: &mut Report, run: &str, outcome: &LoadOutcome, quiet: Option<&LoadOutcome>) {
    report.add(run, "requests served", outcome.served as f64, "", Bound::None);
    report.add(run, "requests failed", outcome.failed as f64, "", Bound::Exactly(0.0));
    report.add(run, "p50", outcome.quantile(0.5), "ms", Bound::None);
    report.add(run, "p99", outcome.quantile(0.99), "ms", Bound::None);
    report.add(run, "p99 of new connections", outcome.connection_quantile(0.99), "ms", Bound::None);
    if let Some(quiet) = quiet {
        let ratio = outcome.quantile(0.99) / quiet.quantile(0.99);
        report.add(run, "p99 against the quiet run", ratio, "", Bound::AtMost(RATIO));
    }
    for example in &outcome.examples {
        report.remark(format!("{run}: {example}"));
    }
}

/// The manifests, and the addresses of backends.
struct World {
    folder: Folder,
    port: u16,
    next: AtomicU32,
    certificates: Vec<TestCertificate>,
}

impl World {
    fn new() -> anyhow::Result<Self> {
        let certificates = (0..20).map(|_| TestCertificate::new(&[HOST])).collect::<Vec<_>>();
        let folder = Folder::in_memory()?;
        folder.try_write("class.yaml", nginx_class())?;
        folder.try_write("config.yaml", config_map(&[("keep-alive-requests", "1000000")]))?;
        folder.try_write("service.yaml", service("churn"))?;
        folder.try_write("ingress.yaml", ingress("churn", &[HOST], "churn", Some("churn-tls")))?;
        folder.try_write("secret.yaml", certificates[0].secret("churn-tls"))?;
        let port = ports::reserve();
        Ok(Self { folder, port, next: 0.into(), certificates })
    }

    /// Starts a backend at a new address.
    async fn backend(&self) -> anyhow::Result<Backend> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let [_, high, middle, low] = (number + 256).to_be_bytes();
        Backend::start(IpAddr::V4(Ipv4Addr::new(127, 64 + high, middle, low)), self.port, "churn").await
    }

    /// Makes these backends the members of the pool.
    fn publish<'a>(&self, members: impl Iterator<Item = &'a Backend>) -> anyhow::Result<()> {
        let addresses: Vec<IpAddr> = members.map(|backend| backend.address.ip()).collect();
        Ok(self.folder.try_write("endpoints.yaml", slice("churn", &addresses, self.port))?)
    }
}

/// The delays until changes took effect.
#[derive(Default)]
struct Changes {
    made: usize,
    lost: usize,
    delays: Vec<Duration>,
}

impl Changes {
    fn mean(&self) -> f64 {
        let sum: Duration = self.delays.iter().sum();
        sum.as_secs_f64() * 1e3 / self.delays.len().max(1) as f64
    }

    fn slowest(&self) -> f64 {
        self.delays.iter().max().map_or(0.0, |delay| delay.as_secs_f64() * 1e3)
    }

    fn seen(&mut self, published: Instant, backend: &Backend) {
        match backend.first_request() {
            Some(moment) => self.delays.push(moment.saturating_duration_since(published)),
            None => self.lost += 1,
        }
    }
}

type Stop = tokio::sync::watch::Receiver<bool>;

fn ticks(every: Duration) -> tokio::time::Interval {
    let mut ticks = interval(every);
    // Late changes are made at once, so that their number is as configured.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    ticks
}

/// Makes 50 changes per second: each replaces the oldest backend by a new one. The removed backend
/// stops one second later.
async fn replace_members(
    world: Arc<World>,
    mut members: VecDeque<Backend>,
    stop: Stop,
) -> anyhow::Result<(VecDeque<Backend>, Changes)> {
    let mut changes = Changes::default();
    let mut published: VecDeque<Instant> = VecDeque::new();
    let mut leaving: VecDeque<(Instant, Backend)> = VecDeque::new();
    let mut ticks = ticks(Duration::from_millis(20));
    while !*stop.borrow() {
        ticks.tick().await;
        members.push_back(world.backend().await?);
        if let Some(removed) = members.pop_front() {
            // The members from before the run are not measured, only those that joined during it.
            if changes.made >= MEMBERS
                && let Some(published) = published.pop_front()
            {
                changes.seen(published, &removed);
            }
            leaving.push_back((Instant::now(), removed));
        }
        world.publish(members.iter())?;
        published.push_back(Instant::now());
        changes.made += 1;
        while leaving.front().is_some_and(|(since, _)| since.elapsed() >= FAREWELL) {
            leaving.pop_front();
        }
    }
    tokio::time::sleep(FAREWELL).await;
    Ok((members, changes))
}

/// Makes 1,000 changes per second: ten members rotate over twenty backends. Ten times per second a
/// new one joins for a while.
async fn move_members(
    world: Arc<World>,
    mut members: VecDeque<Backend>,
    stop: Stop,
) -> anyhow::Result<(VecDeque<Backend>, Changes)> {
    while members.len() < 2 * MEMBERS {
        members.push_back(world.backend().await?);
    }
    let mut changes = Changes::default();
    let mut watched: VecDeque<(Instant, Backend)> = VecDeque::new();
    // Backends are not stopped in this run.
    let mut retired = Vec::new();
    let mut ticks = ticks(Duration::from_millis(1));
    let mut joined = Instant::now();
    while !*stop.borrow() {
        ticks.tick().await;
        let join = joined.elapsed() >= TENTH;
        if join {
            joined = Instant::now();
            watched.push_back((joined, world.backend().await?));
        }
        if watched.front().is_some_and(|(since, _)| since.elapsed() >= STAY)
            && let Some((published, backend)) = watched.pop_front()
        {
            changes.seen(published, &backend);
            retired.push(backend);
        }
        members.rotate_left(1);
        world.publish(members.iter().take(MEMBERS).chain(watched.iter().map(|(_, backend)| backend)))?;
        if join && let Some((published, _)) = watched.back_mut() {
            *published = Instant::now();
        }
        changes.made += 1;
    }
    // Leaves the pool with its regular members.
    members.truncate(MEMBERS);
    world.publish(members.iter())?;
    tokio::time::sleep(FAREWELL).await;
    Ok((members, changes))
}

/// Adds a host ten times per second, and requests it until it responds.
async fn change_routes(world: Arc<World>, target: GatewayTarget, stop: Stop) -> anyhow::Result<Changes> {
    let mut changes = Changes::default();
    let mut ticks = ticks(TENTH);
    let mut connection = target.connect().await?;
    while !*stop.borrow() {
        ticks.tick().await;
        let host = format!("route-{}.example", changes.made);
        world.folder.try_write("route.yaml", ingress("route", &[&host], "churn", None))?;
        changes.made += 1;
        let published = Instant::now();
        let answers = async {
            while connection.get_from(&host, "/").await?.status != 200 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            anyhow::Ok(())
        };
        match tokio::time::timeout(FAREWELL, answers).await {
            Ok(answer) => {
                answer?;
                changes.delays.push(published.elapsed());
            }
            Err(_) => {
                changes.lost += 1;
                connection = target.connect().await?;
            }
        }
    }
    Ok(changes)
}

/// Replaces the certificate ten times per second, and checks it on new connections.
async fn change_certificates(
    world: Arc<World>,
    target: GatewayTarget,
    stop: Stop,
) -> anyhow::Result<Changes> {
    let mut changes = Changes::default();
    let mut ticks = ticks(TENTH);
    while !*stop.borrow() {
        ticks.tick().await;
        changes.made += 1;
        let certificate = &world.certificates[changes.made % world.certificates.len()];
        world.folder.try_write("secret.yaml", certificate.secret("churn-tls"))?;
        let published = Instant::now();
        let shown = async {
            loop {
                let asked = Instant::now();
                if target.connect().await?.certificate() == certificate.der {
                    return anyhow::Ok(asked);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        match tokio::time::timeout(FAREWELL, shown).await {
            // The start of the connection counts, not the duration of the handshake.
            Ok(asked) => changes.delays.push(asked?.saturating_duration_since(published)),
            Err(_) => changes.lost += 1,
        }
    }
    Ok(changes)
}
