//! Twenty minutes of production conditions: steady load, constant changes, hostile clients, and a
//! replacement of the gateway in the middle, as in a rollout.
//!
//! Two conditions must hold throughout: no request of the steady load fails, and resident memory
//! stays flat and within `body-memory-budget` plus a fixed allowance.

use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use sluice_loadtest::arguments::Common;
use sluice_loadtest::backend::{Backend, silent};
use sluice_loadtest::client::GatewayTarget;
use sluice_loadtest::echo::Echo;
use sluice_loadtest::hostile::{Hosts, attack};
use sluice_loadtest::load::{Load, LoadOutcome};
use sluice_loadtest::manifest::{config_map, ingress, ingress_of, slice};
use sluice_loadtest::process::{start, stop};
use sluice_loadtest::report::{Bound, Report};
use sluice_loadtest::tls::trusting;
use sluice_testing::certificate::TestCertificate;
use sluice_testing::folder::Folder;
use sluice_testing::gateway::{Gateway, Source};
use sluice_testing::manifest::{nginx_class, service};
use sluice_testing::ports;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

/// The host of the steady load.
const HOST: &str = "steady.example";
/// The hosts that hostile clients attack.
const ATTACKED: Hosts = Hosts { served: "attacked.example", unanswered: "unanswered.example" };
/// Number of backends of the steady load. All but one are members of the pool at any time.
const BACKENDS: u8 = 6;
/// `body-memory-budget`, MiB.
const BUDGET: f64 = 64.0;
/// Maximum resident memory of a gateway in addition to the budget, in MiB.
const ALLOWANCE: f64 = 48.0;
/// Maximum growth of resident memory from the second to the last quarter of a gateway's life, in
/// MiB.
const GROWTH: f64 = 4.0;
/// Interval of readings of resident memory.
const READING: Duration = Duration::from_secs(1);
/// Interval of changes of the pool, the routes and the certificate.
const CHANGE: Duration = Duration::from_millis(200);
/// Time limit in seconds for a replaced gateway to complete its requests.
const DRAIN: f64 = 30.0;

/// Steady load beside changes, hostile clients and a replacement of the gateway.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Length of the whole run.
    #[arg(long, default_value_t = 20.0)]
    minutes: f64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let common = arguments.common.clone();
    common.run(async move { endurance(&arguments).await })
}

async fn endurance(arguments: &Arguments) -> anyhow::Result<Report> {
    let length = Duration::from_secs_f64(arguments.minutes * 60.0);
    let program = arguments.common.gateway()?;
    let site = Arc::new(Site::new().await?);
    let first = start(&program, Source::Manifests(site.folder.path())).await?;
    let plain = GatewayTarget::plain(first.http, HOST);
    let tls = GatewayTarget::tls(first.https, HOST, trusting());
    let (ending, ended) = watch::channel(false);
    let load = Load { clients: 16, requests: 200, connections: 20, duration: length };
    let (steady_plain, steady_tls) = (plain.clone(), tls.clone());
    let steady = tokio::spawn(async move { load.run(&steady_plain, &steady_tls).await });
    let (attacked, attacking) = (plain.clone(), ended.clone());
    let hostile = tokio::spawn(async move { attack(&attacked, ATTACKED, attacking).await });
    let changes = tokio::spawn(site.clone().change(ended));

    let mut report = Report::default();
    describe_memory(&mut report, "before", &memory_of(&first, length / 2).await?);
    let second = start(&program, Source::Manifests(site.folder.path())).await?;
    plain.redirect_to(second.http);
    tls.redirect_to(second.https);
    let began = Instant::now();
    stop(first).await?;
    let took = began.elapsed().as_secs_f64();
    report.add("replace", "time until the first gateway has ended", took, "s", Bound::AtMost(DRAIN));
    describe_memory(&mut report, "after", &memory_of(&second, length / 2).await?);

    let outcome = steady.await.context("steady load")?;
    ending.send_replace(true);
    describe_load(&mut report, &outcome);
    report.add("all", "attacks", hostile.await.context("hostile clients")? as f64, "", Bound::None);
    report.add("all", "changes", changes.await.context("changes")?? as f64, "", Bound::None);
    if !report.passed() {
        report.remark(format!("log of the second gateway:\n{}", second.log()));
    }
    stop(second).await?;
    Ok(report)
}

/// Returns readings of a gateway's resident memory in MiB.
async fn memory_of(gateway: &Gateway, length: Duration) -> anyhow::Result<Vec<f64>> {
    let (began, mut readings) = (Instant::now(), Vec::new());
    while began.elapsed() < length {
        tokio::time::sleep(READING).await;
        readings.push(gateway.resident()? as f64 / 1_048_576.0);
    }
    Ok(readings)
}

fn describe_memory(report: &mut Report, run: &str, readings: &[f64]) {
    let highest = readings.iter().copied().fold(0.0, f64::max);
    let quarter = readings.len() / 4;
    let [early, late] = [&readings[quarter..2 * quarter], &readings[3 * quarter..]].map(median);
    report.add(run, "highest resident memory", highest, "MiB", Bound::AtMost(BUDGET + ALLOWANCE));
    report.add(run, "resident memory, second quarter", early, "MiB", Bound::None);
    report.add(run, "resident memory, last quarter", late, "MiB", Bound::None);
    report.add(run, "growth between them", late - early, "MiB", Bound::AtMost(GROWTH));
}

fn median(readings: &[f64]) -> f64 {
    let mut sorted = readings.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

fn describe_load(report: &mut Report, outcome: &LoadOutcome) {
    report.add("all", "requests served", outcome.served as f64, "", Bound::None);
    report.add("all", "requests failed", outcome.failed as f64, "", Bound::Exactly(0.0));
    report.add("all", "p50", outcome.quantile(0.5), "ms", Bound::None);
    report.add("all", "p99", outcome.quantile(0.99), "ms", Bound::None);
    report.add("all", "p99 of new connections", outcome.connection_quantile(0.99), "ms", Bound::None);
    for example in &outcome.examples {
        report.remark(format!("failed: {example}"));
    }
}

/// The manifests and the backends.
struct Site {
    folder: Folder,
    backends: Vec<Backend>,
    port: u16,
    certificates: [TestCertificate; 2],
    /// The backend that hostile clients reach.
    _attacked: Echo,
}

impl Site {
    async fn new() -> anyhow::Result<Self> {
        let port = ports::reserve();
        let address = |number| IpAddr::V4(Ipv4Addr::new(127, 65, 0, number));
        let mut backends = Vec::new();
        for number in 1..=BACKENDS {
            backends.push(Backend::start(address(number), port, "steady").await?);
        }
        let attacked = Echo::start(address(100), port, "attacked").await?;
        let check = format!("http://{}/", silent(address(101), port).await?);
        let unanswered = ingress_of("unanswered", ("/", "Prefix"), &[ATTACKED.unanswered], "attacked", None)
            .annotation("auth-url", &check);
        let certificates = [(); 2].map(|()| TestCertificate::new(&[HOST]));
        let folder = Folder::in_memory()?;
        let budget = format!("{BUDGET}m");
        folder.try_write("class.yaml", nginx_class())?;
        folder.try_write("config.yaml", config_map(&[("body-memory-budget", &budget)]))?;
        folder.try_write("services.yaml", service("steady") + &service("attacked"))?;
        folder.try_write("steady.yaml", ingress("steady", &[HOST], "steady", Some("steady-tls")))?;
        folder.try_write("attacked.yaml", ingress("attacked", &[ATTACKED.served], "attacked", None))?;
        folder.try_write("unanswered.yaml", unanswered.text())?;
        folder.try_write("attacked-endpoints.yaml", slice("attacked", &[attacked.address.ip()], port))?;
        let site = Self { folder, backends, port, certificates, _attacked: attacked };
        site.write(0)?;
        Ok(site)
    }

    /// Writes the changing objects in their state after `changes` changes.
    fn write(&self, changes: usize) -> anyhow::Result<()> {
        let mut members: Vec<IpAddr> = self.backends.iter().map(|backend| backend.address.ip()).collect();
        members.remove(changes % members.len());
        self.folder.try_write("steady-endpoints.yaml", slice("steady", &members, self.port))?;
        let host = format!("route-{}.example", changes % 100);
        self.folder.try_write("route.yaml", ingress("route", &[&host], "steady", None))?;
        let certificate = &self.certificates[changes % self.certificates.len()];
        self.folder.try_write("secret.yaml", certificate.secret("steady-tls"))?;
        Ok(())
    }

    /// Changes the pool, a route and the certificate until the end. Returns the number of changes.
    async fn change(self: Arc<Self>, ended: watch::Receiver<bool>) -> anyhow::Result<usize> {
        let mut ticks = interval(CHANGE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut changes = 0;
        while !*ended.borrow() {
            ticks.tick().await;
            changes += 1;
            self.write(changes)?;
        }
        Ok(changes)
    }
}
