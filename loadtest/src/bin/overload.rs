//! Behaviour under overload: three times the load that the gateway can serve, as requests on kept
//! connections and as TLS handshakes; and exhausted file descriptors.
//!
//! A load generator on one core cannot send three times the capacity of a gateway on another. The
//! gateway therefore gets a small share of its core, in slices like a container with a CPU limit,
//! and its peak is measured under the same conditions.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use rustix::process::{Signal, kill_process};
use sluice_loadtest::arguments::Common;
use sluice_loadtest::bench::child::Running;
use sluice_loadtest::bench::load::Work;
use sluice_loadtest::bench::load::handshakes::Handshakes;
use sluice_loadtest::bench::load::paced::Paced;
use sluice_loadtest::bench::load::wrk::Wrk;
use sluice_loadtest::bench::machine::{Cores, stay_on};
use sluice_loadtest::bench::origin::Origin;
use sluice_loadtest::bench::peer::{Build, Peer};
use sluice_loadtest::bench::setup::{HOST, Setting, Setup};
use sluice_loadtest::client::GatewayTarget;
use sluice_loadtest::crowd::open;
use sluice_loadtest::report::{Bound, Report};
use sluice_testing::certificate::TestCertificate;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Duration of each load.
const LENGTH: Duration = Duration::from_secs(5);
/// Number of rounds of measuring the peak and sending three times as much. The peak of a shared
/// machine changes from minute to minute, and the median round is the most reliable.
const ROUNDS: usize = 3;
/// Number of connections that measure the peak of requests: more than the gateway can answer in one
/// slice, so that it is never idle.
const PEAK: u32 = 256;
/// Maximum wait of a request for a connection. If it were as long as `TIMEOUT`, the only requests
/// ever sent would be those whose responses arrive too late, however fast the gateway is.
const QUEUE: Duration = Duration::from_millis(100);
/// Time after which a client gives up.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Minimum goodput under three times the load, relative to the peak.
const GOODPUT: f64 = 0.9;
/// Alternating times for which the gateway runs and is stopped. The scheduler rounds them up: both
/// amount to a fifth or a quarter of the core.
const SOME: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(15)];
const LITTLE: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(18)];
/// Limit of open files for the run that exhausts them.
const FILES: usize = 400;
/// Maximum CPU time per second without free file descriptors: the gateway must wait and not spin.
const SPIN: f64 = 0.1;
/// Maximum time in milliseconds until it serves again.
const RECOVERY: f64 = 1000.0;

/// Behaviour under overload.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: Common,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let cores = Cores::find().and_then(|cores| cores.claim().map(|()| cores));
    match cores {
        Ok(cores) => arguments.common.run(overload(arguments.common.gateway(), cores)),
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn overload(program: anyhow::Result<PathBuf>, cores: Cores) -> anyhow::Result<Report> {
    let peer = Peer::Sluice(Build { name: "sluice".to_owned(), program: program?, flags: Vec::new() });
    let origin = Origin::start().await?;
    let certificate = TestCertificate::new(&[HOST]);
    let setup = || Setup::new(Setting::NORMAL, origin.address, certificate.clone());
    let mut report = Report::default();
    let gateway = Running::start(&peer, setup()?, cores.proxy, &[]).await?;
    {
        let _throttle = Throttle::start(&gateway, cores.proxy, SOME)?;
        requests(&mut report, &gateway).await?;
    }
    {
        let _throttle = Throttle::start(&gateway, cores.proxy, LITTLE)?;
        handshakes(&mut report, &gateway).await?;
    }
    gateway.stop().await?;
    let limited = format!("ulimit -n {FILES} && exec \"$@\"");
    let through = ["sh", "-c", limited.as_str(), "sh"];
    let gateway = Running::start(&peer, setup()?, cores.proxy, &through).await?;
    no_files(&mut report, &gateway).await?;
    gateway.stop().await?;
    Ok(report)
}

/// Lets a gateway run for a part of the time until dropped.
struct Throttle {
    over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Throttle {
    /// Starts the throttle on the gateway's core, where its thread is scheduled at once. On the
    /// core of the load it would often be late, and the gateway's share would depend on the load.
    fn start(gateway: &Running, core: usize, [run, stand]: [Duration; 2]) -> anyhow::Result<Self> {
        let process = gateway.process();
        let over = Arc::new(AtomicBool::new(false));
        let ending = over.clone();
        let thread = thread::Builder::new().spawn(move || {
            if let Err(error) = stay_on(core) {
                eprintln!("{error:#}: slices will be uneven");
            }
            while !ending.load(Ordering::Relaxed) {
                // An error means that the gateway has exited, which shows in the figures.
                let _ = kill_process(process, Signal::STOP);
                pause(stand);
                let _ = kill_process(process, Signal::CONT);
                pause(run);
            }
        });
        Ok(Self { over, thread: Some(thread.context("cannot start a thread")?) })
    }
}

#[expect(clippy::disallowed_methods, reason = "a thread of its own that keeps time; no connection waits")]
fn pause(length: Duration) {
    thread::sleep(length);
}

impl Drop for Throttle {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread does not panic.
            let _ = thread.join();
        }
    }
}

/// Requests health and metrics continuously. Returns the number of failures, and the slowest
/// response in milliseconds.
fn probe(gateway: &Running, length: Duration) -> JoinHandle<(u32, f64)> {
    let target = GatewayTarget::plain(gateway.setup.status, HOST);
    tokio::spawn(async move {
        let (started, mut failed, mut slowest) = (Instant::now(), 0, 0.0_f64);
        while started.elapsed() < length {
            for path in ["/healthz", "/metrics"] {
                let asked = Instant::now();
                let answer = timeout(TIMEOUT, target.get_once(path)).await;
                failed += u32::from(!matches!(answer, Ok(Ok(answer)) if answer.status == 200));
                slowest = slowest.max(asked.elapsed().as_secs_f64() * 1e3);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        (failed, slowest)
    })
}

async fn requests(report: &mut Report, gateway: &Running) -> anyhow::Result<()> {
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let setup = gateway.setup.clone();
        let peak = tokio::task::spawn_blocking(move || Wrk::get("/", PEAK).run(&setup, LENGTH)).await??;
        let peak = rate(&peak);
        // Three times the peak, on as many connections as clients would have.
        let rate = (3.0 * peak) as u32;
        let paced = Paced { rate, connections: 1000, wait: QUEUE, time_limit: TIMEOUT, host: HOST };
        let address = gateway.setup.http;
        let probes = probe(gateway, LENGTH);
        let work = tokio::task::spawn_blocking(move || paced.run(address, LENGTH)).await??;
        rounds.push(Round::new(peak, &work, probes.await?));
    }
    describe(report, "requests", rounds);
    Ok(())
}

async fn handshakes(report: &mut Report, gateway: &Running) -> anyhow::Result<()> {
    let address = gateway.setup.https;
    // Clients in a closed loop find the peak.
    let closed = Handshakes { rate: None, clients: 64, resumes: false, time_limit: TIMEOUT };
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let peak = rate(&closed.run(address, LENGTH).await?);
        let three = Handshakes { rate: Some((3.0 * peak) as u32), ..closed };
        let probes = probe(gateway, LENGTH);
        let work = three.run(address, LENGTH).await?;
        rounds.push(Round::new(peak, &work, probes.await?));
    }
    describe(report, "handshakes", rounds);
    Ok(())
}

fn rate(work: &Work) -> f64 {
    work.in_time as f64 / LENGTH.as_secs_f64()
}

/// The peak, and the result of three times as much directly after it.
struct Round {
    peak: f64,
    goodput: f64,
    /// In milliseconds.
    p99: f64,
    unanswered: u32,
    /// In milliseconds.
    slowest_probe: f64,
}

impl Round {
    fn new(peak: f64, work: &Work, (unanswered, slowest_probe): (u32, f64)) -> Self {
        let p99 = work.latency.unwrap_or_default().p99;
        Self { peak, goodput: rate(work), p99, unanswered, slowest_probe }
    }

    fn share(&self) -> f64 {
        self.goodput / self.peak
    }
}

/// Reports the median round, and the worst value of figures that must hold in all rounds.
fn describe(report: &mut Report, run: &str, mut rounds: Vec<Round>) {
    rounds.sort_by(|one, other| one.share().total_cmp(&other.share()));
    let middle = &rounds[rounds.len() / 2];
    let worst = |of: fn(&Round) -> f64| rounds.iter().map(of).fold(0.0, f64::max);
    let time_limit = TIMEOUT.as_secs_f64() * 1e3;
    let unanswered: u32 = rounds.iter().map(|round| round.unanswered).sum();
    report.add(run, "peak", middle.peak, "/s", Bound::None);
    report.add(run, "goodput at 3 times the peak", middle.goodput, "/s", Bound::None);
    report.add(run, "goodput over peak", middle.share(), "", Bound::AtLeast(GOODPUT));
    for (figure, round) in [("lowest round", &rounds[0]), ("highest round", &rounds[rounds.len() - 1])] {
        report.add(run, figure, round.share(), "", Bound::None);
    }
    report.add(run, "p99 of what was answered", worst(|round| round.p99), "ms", Bound::AtMost(time_limit));
    report.add(run, "health and metrics not answered", unanswered.into(), "", Bound::Exactly(0.0));
    report.add(run, "slowest of those", worst(|round| round.slowest_probe), "ms", Bound::None);
}

/// Opens more connections than the limit of files: accepted connections must be served, the gateway
/// must not spin, and a freed descriptor must be used at once.
async fn no_files(report: &mut Report, gateway: &Running) -> anyhow::Result<()> {
    let run = "no files";
    let target = GatewayTarget::plain(gateway.setup.http, HOST);
    // Each request takes a file on both sides, and the gateway may reserve some.
    let mut inside = open(&target, FILES / 4).await.context("connections for which there are files")?;
    // The kernel accepts these for the gateway, which has no file for them. It may close them or
    // leave them waiting.
    let mut outside = Vec::new();
    for _ in 0..2 * FILES {
        outside.push(target.connect().await.context("connections for which there are no files")?);
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let before = gateway.cpu_time();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let spent = gateway.cpu_time().since(before).total().as_secs_f64() / 2.0;
    report.add(run, "CPU time of a second without load", spent, "s", Bound::AtMost(SPIN));
    let mut refused = 0;
    for connection in &mut inside {
        let answer = timeout(TIMEOUT, connection.get("/")).await;
        refused += u32::from(!matches!(answer, Ok(Ok(answer)) if answer.status == 200));
    }
    report.add(run, "open connections no longer served", f64::from(refused), "", Bound::Exactly(0.0));
    drop(outside);
    drop(inside);
    let freed = Instant::now();
    let mut served = false;
    while !served && freed.elapsed() < TIMEOUT * 5 {
        served =
            matches!(timeout(TIMEOUT, target.get_once("/")).await, Ok(Ok(answer)) if answer.status == 200);
    }
    let recovery = freed.elapsed().as_secs_f64() * 1e3;
    report.add(run, "served again after", recovery, "ms", Bound::AtMost(RECOVERY));
    report.add(run, "memory", gateway.memory()? as f64 / 1_048_576.0, "MiB", Bound::None);
    Ok(())
}
