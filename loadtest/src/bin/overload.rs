//! What happens under overload: three times the load that the gateway can carry, in requests on kept connections
//! and in TLS handshakes; and no file descriptors left.
//!
//! A load generator on one core cannot send three times of what a gateway on another can do. So the gateway gets a
//! small share of its core, in slices as a container with a CPU limit does, and its peak is measured under the same
//! conditions.

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
use sluice_loadtest::client::Target;
use sluice_loadtest::crowd::open;
use sluice_loadtest::report::{Bound, Report};
use sluice_testing::certificate::TestCertificate;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Length of each load.
const LENGTH: Duration = Duration::from_secs(5);
/// How often the peak is looked for and three times as much is sent. The peak of a machine that others share is another one
/// from minute to minute, and the round in the middle says most.
const ROUNDS: usize = 3;
/// Connections that look for the peak of requests: more than the gateway can answer in one slice of its time, so that it
/// never waits for them.
const PEAK: u32 = 256;
/// How long a request waits for a connection before its client gives it up. Were it as long as its patience, there would
/// only ever be time to send those whose answers come too late, however fast these are.
const QUEUE: Duration = Duration::from_millis(100);
/// A client gives up after this.
const PATIENCE: Duration = Duration::from_secs(2);
/// Goodput under three times the load, as a share of the peak.
const GOODPUT: f64 = 0.9;
/// How long the gateway runs and is stopped in turn. The scheduler rounds that up: either comes to a fifth of the core or a
/// quarter.
const SOME: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(15)];
const LITTLE: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(18)];
/// Files that the gateway may open where they are to run out.
const FILES: usize = 400;
/// CPU time that it may take in a second with no files left: waiting, not spinning.
const SPIN: f64 = 0.1;
/// How soon it must serve again, milliseconds.
const RECOVERY: f64 = 1000.0;

/// Beyond capacity.
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

/// Lets a gateway run for a part of the time, until dropped.
struct Throttle {
    over: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Throttle {
    /// Its thread is on the gateway's core `core`, where it is let in at once: beside the load it would often be late, and
    /// the gateway's share another one under every load.
    fn start(gateway: &Running, core: usize, [run, stand]: [Duration; 2]) -> anyhow::Result<Self> {
        let process = gateway.process();
        let over = Arc::new(AtomicBool::new(false));
        let ending = over.clone();
        let thread = thread::Builder::new().spawn(move || {
            if let Err(error) = stay_on(core) {
                eprintln!("{error:#}: slices will be uneven");
            }
            while !ending.load(Ordering::Relaxed) {
                // A gateway that has ended shows in the figures.
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
            // It does not panic.
            let _ = thread.join();
        }
    }
}

/// Asks for health and metrics all the time; how many answers failed, and the slowest in milliseconds.
fn probe(gateway: &Running, length: Duration) -> JoinHandle<(u32, f64)> {
    let target = Target::plain(gateway.setup.status, HOST);
    tokio::spawn(async move {
        let (started, mut failed, mut slowest) = (Instant::now(), 0, 0.0_f64);
        while started.elapsed() < length {
            for path in ["/healthz", "/metrics"] {
                let asked = Instant::now();
                let answer = timeout(PATIENCE, target.get_once(path)).await;
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
        // As many as are too many: enough threefold demand on as many connections as clients have.
        let rate = (3.0 * peak) as u32;
        let paced = Paced { rate, connections: 1000, wait: QUEUE, patience: PATIENCE, host: HOST };
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
    // Clients that wait for each other find the peak.
    let closed = Handshakes { rate: None, clients: 64, patience: PATIENCE };
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

/// The peak, and three times as much right after it.
struct Round {
    peak: f64,
    goodput: f64,
    /// Milliseconds.
    p99: f64,
    unanswered: u32,
    /// Milliseconds.
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

/// Reports the round in the middle, and the worst of what has to hold in all of them.
fn describe(report: &mut Report, run: &str, mut rounds: Vec<Round>) {
    rounds.sort_by(|one, other| one.share().total_cmp(&other.share()));
    let middle = &rounds[rounds.len() / 2];
    let worst = |of: fn(&Round) -> f64| rounds.iter().map(of).fold(0.0, f64::max);
    let patience = PATIENCE.as_secs_f64() * 1e3;
    let unanswered: u32 = rounds.iter().map(|round| round.unanswered).sum();
    report.add(run, "peak", middle.peak, "/s", Bound::None);
    report.add(run, "goodput at 3 times the peak", middle.goodput, "/s", Bound::None);
    report.add(run, "goodput over peak", middle.share(), "", Bound::AtLeast(GOODPUT));
    for (figure, round) in [("lowest round", &rounds[0]), ("highest round", &rounds[rounds.len() - 1])] {
        report.add(run, figure, round.share(), "", Bound::None);
    }
    report.add(run, "p99 of what was answered", worst(|round| round.p99), "ms", Bound::AtMost(patience));
    report.add(run, "health and metrics not answered", unanswered.into(), "", Bound::Exactly(0.0));
    report.add(run, "slowest of those", worst(|round| round.slowest_probe), "ms", Bound::None);
}

/// More clients than open files: connections that were accepted are served, the gateway does not spin, and a descriptor that
/// becomes free is used at once.
async fn no_files(report: &mut Report, gateway: &Running) -> anyhow::Result<()> {
    let run = "no files";
    let target = Target::plain(gateway.setup.http, HOST);
    // A connection takes a file on either side, and the gateway may keep some back.
    let mut inside = open(&target, FILES / 4).await.context("connections for which there are files")?;
    // The system takes these for the gateway; it has no file for them, and may end them or leave them waiting.
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
        let answer = timeout(PATIENCE, connection.get("/")).await;
        refused += u32::from(!matches!(answer, Ok(Ok(answer)) if answer.status == 200));
    }
    report.add(run, "open connections no longer served", f64::from(refused), "", Bound::Exactly(0.0));
    drop(outside);
    drop(inside);
    let freed = Instant::now();
    let mut served = false;
    while !served && freed.elapsed() < PATIENCE * 5 {
        served =
            matches!(timeout(PATIENCE, target.get_once("/")).await, Ok(Ok(answer)) if answer.status == 200);
    }
    let recovery = freed.elapsed().as_secs_f64() * 1e3;
    report.add(run, "served again after", recovery, "ms", Bound::AtMost(RECOVERY));
    report.add(run, "memory", gateway.memory()? as f64 / 1_048_576.0, "MiB", Bound::None);
    Ok(())
}
