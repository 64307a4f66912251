//! Nothing fails while everything changes: steady load on one host while the endpoints of its pool change 50 and
//! then 1,000 times a second, and routes and certificates 10 times a second. A quiet run comes first, to hold
//! latencies against.
//!
//! In the run of 50 a second every change replaces the oldest endpoint by a new backend, and a removed backend
//! stops one second later. In the run of 1,000 a second the members move over a fixed set of backends, and a new
//! backend joins ten times a second. Whatever is newest must serve within 100 ms: a new backend must have had a
//! request of the load, a new route must answer, a new certificate must be shown.

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
use sluice_loadtest::client::Target;
use sluice_loadtest::load::{Load, Outcome, Sockets};
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
/// Members of the pool at any time.
const MEMBERS: usize = 10;
/// Open WebSockets.
const SOCKETS: usize = 20;
/// How long a removed backend goes on.
const FAREWELL: Duration = Duration::from_secs(1);
/// Routes, certificates and new backends in the fast run: each so often.
const TENTH: Duration = Duration::from_millis(100);
/// How long a member that is watched for its first request stays, in the fast run.
const STAY: Duration = Duration::from_millis(400);
/// How long the newest may take to serve.
const NEWEST: f64 = 100.0;
/// How much slower than the quiet run.
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
    let plain = Target::plain(gateway.http, HOST);
    let tls = Target::tls(gateway.https, HOST, trusting());
    // Connections, pools and code pages are warm in every run alike.
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

fn describe(report: &mut Report, run: &str, outcome: &Outcome, quiet: Option<&Outcome>) {
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

/// The manifests, and addresses for backends.
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

    /// A new backend at an address of its own.
    async fn backend(&self) -> anyhow::Result<Backend> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let [_, high, middle, low] = (number + 256).to_be_bytes();
        Backend::start(IpAddr::V4(Ipv4Addr::new(127, 64 + high, middle, low)), self.port, "churn").await
    }

    /// Makes these the members of the pool.
    fn publish<'a>(&self, members: impl Iterator<Item = &'a Backend>) -> anyhow::Result<()> {
        let addresses: Vec<IpAddr> = members.map(|backend| backend.address.ip()).collect();
        Ok(self.folder.try_write("endpoints.yaml", slice("churn", &addresses, self.port))?)
    }
}

/// How long changes took to be seen.
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
    // Changes that could not be made in time are made at once, so that their number is as announced.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    ticks
}

/// 50 changes a second: a new backend for the oldest, which stops a second later.
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
            // The first members were there before the run; those that joined in it are watched.
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

/// 1,000 changes a second: ten members move over twenty backends; ten times a second a new one joins for a while.
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
    // Backends keep running in this run.
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
    // The pool is left with members that stay.
    members.truncate(MEMBERS);
    world.publish(members.iter())?;
    tokio::time::sleep(FAREWELL).await;
    Ok((members, changes))
}

/// A new host ten times a second, asked for until it answers.
async fn change_routes(world: Arc<World>, target: Target, stop: Stop) -> anyhow::Result<Changes> {
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

/// A new certificate ten times a second, looked for on new connections.
async fn change_certificates(world: Arc<World>, target: Target, stop: Stop) -> anyhow::Result<Changes> {
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
            // What counts is when the connection began, not how long the handshake took.
            Ok(asked) => changes.delays.push(asked?.saturating_duration_since(published)),
            Err(_) => changes.lost += 1,
        }
    }
    Ok(changes)
}
