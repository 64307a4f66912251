//! Side-by-side benchmark of Sluice with nginx, HAProxy, Envoy, nghttpx and plain Pingora
//! (docs/benchmarks.md).

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use serde_json::{Map, Value, json};
use sluice_loadtest::bench::document::Document;
use sluice_loadtest::bench::guard::{self, GuardResult};
use sluice_loadtest::bench::machine::{self, Cores};
use sluice_loadtest::bench::peer::{Build, Peer};
use sluice_loadtest::bench::run::BenchRun;
use sluice_loadtest::bench::sample::Sample;
use sluice_loadtest::bench::scenario::{self, Scenario};
use sluice_loadtest::bench::summary::Summary;
use sluice_loadtest::bench::table;

/// Proxies side by side, one core each.
#[derive(Parser)]
struct Arguments {
    /// Builds of Sluice, the first of which the document is about; by default the one next to this
    /// program.
    #[arg(long, value_name = "[NAME=]PATH[:FLAGS]")]
    sluice: Vec<Build>,
    /// Other peers, or "none"; by default all that are installed.
    #[arg(long, value_delimiter = ',')]
    peers: Option<Vec<String>>,
    /// Scenarios; by default all that are not optional.
    #[arg(long, value_delimiter = ',')]
    scenarios: Vec<String>,
    /// Number of rounds.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Length of each load.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Name of this run, for its file.
    #[arg(long, default_value = "bench")]
    label: String,
    /// Folder for the file with all samples; by default `bench` next to the folder of this program.
    #[arg(long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Write the figures into benchmark-figures.md and benchmarks.svg of this folder
    #[arg(long, value_name = "FOLDER", num_args = 0..=1, default_missing_value = "docs")]
    write_docs: Option<PathBuf>,
    /// Fail when Sluice takes more than so many times the CPU of plain Pingora on any scenario. A
    /// machine that cannot measure passes.
    #[arg(long, value_name = "RATIO")]
    guard: Option<f64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.guard.is_some()
        && let Err(error) = guard::possible()
    {
        println!("nothing was measured: {error:#}");
        return ExitCode::SUCCESS;
    }
    match bench(&arguments) {
        Ok(GuardResult::Passed) => ExitCode::SUCCESS,
        Ok(GuardResult::Failed) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(arguments: &Arguments) -> anyhow::Result<GuardResult> {
    let cores = Cores::find()?;
    cores.claim()?;
    let (peers, versions) = peers(arguments)?;
    let scenarios: Vec<Scenario> = match arguments.scenarios.as_slice() {
        [] => scenario::usual(),
        names => names.iter().map(|name| Scenario::named(name)).collect::<anyhow::Result<_>>()?,
    };
    let scenarios = with_tools(scenarios);
    let own = peers.first().map(Peer::name).unwrap_or_default().to_owned();
    let run = BenchRun { scenarios, peers, rounds: arguments.rounds, seconds: arguments.seconds, cores };
    eprintln!(
        "about {} minutes: proxies on core {}, load and origin on core {}",
        run.estimate().as_secs().div_ceil(60),
        cores.proxy,
        cores.load
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let samples = runtime.block_on(async {
        tokio::select! {
            samples = run.samples(tell) => samples,
            // Returning drops, and thereby ends, everything that was started, and removes its
            // files.
            _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
        }
    })?;
    let summary = Summary::new(samples);
    print!("{}", table::tables(&run.scenarios, &summary, &bases(&run.peers)));
    let machine = machine::description();
    write_samples(arguments, &machine, &versions, &summary)?;
    if let Some(folder) = &arguments.write_docs {
        let (rounds, scenarios, summary) = (arguments.rounds, run.scenarios.as_slice(), &summary);
        let document =
            Document { scenarios, summary, own: &own, rounds, machine: &machine, versions: &versions };
        document.write(folder)?;
    }
    match arguments.guard {
        Some(limit) => guard::check(&run.scenarios, &summary, &own, limit),
        None => Ok(GuardResult::Passed),
    }
}

/// Returns the scenarios whose programs are there; the others are reported on standard error.
fn with_tools(scenarios: Vec<Scenario>) -> Vec<Scenario> {
    let has_tools = |scenario: &Scenario| {
        scenario.check_tools().inspect_err(|error| eprintln!("without {}: {error:#}", scenario.name)).is_ok()
    };
    scenarios.into_iter().filter(has_tools).collect()
}

/// Returns the references of ratios: nginx, plain Pingora, and, with several builds of Sluice, the
/// first one.
fn bases(peers: &[Peer]) -> Vec<&str> {
    let builds: Vec<&Peer> = peers.iter().filter(|peer| matches!(peer, Peer::Sluice(_))).collect();
    let first = builds.first().filter(|_| builds.len() > 1).copied();
    let others = peers.iter().filter(|peer| matches!(peer, Peer::Nginx | Peer::Vanilla));
    first.into_iter().chain(others).map(Peer::name).collect()
}

fn write_samples(
    arguments: &Arguments,
    machine: &Value,
    versions: &Map<String, Value>,
    summary: &Summary,
) -> anyhow::Result<()> {
    let program = std::env::current_exe()?;
    let beside = program.parent().and_then(Path::parent).map(|target| target.join("bench"));
    let folder = arguments.output.clone().or(beside).context("name a folder with --output")?;
    let path = folder.join(format!("{}.json", arguments.label));
    let samples: Vec<Value> = summary.samples().iter().map(Sample::to_json).collect();
    let report = json!({
        "label": arguments.label, "machine": machine, "versions": versions, "samples": samples,
    });
    std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(&path, format!("{report:#}\n")))
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("\nAll samples: {}", path.display());
    Ok(())
}

/// Returns the peers with their versions. A missing peer that was not requested by name is reported
/// on standard error and left out.
fn peers(arguments: &Arguments) -> anyhow::Result<(Vec<Peer>, Map<String, Value>)> {
    let mut versions = Map::new();
    let mut peers = Vec::new();
    let builds = match arguments.sluice.as_slice() {
        [] => vec![Build::beside()?],
        builds => builds.to_vec(),
    };
    for peer in builds.into_iter().map(Peer::Sluice) {
        versions.insert(peer.name().to_owned(), peer.version()?.into());
        peers.push(peer);
    }
    let names: Vec<&str> = Peer::OTHERS.iter().map(Peer::name).collect();
    let asked_for = arguments.peers.as_ref().map(|names| match names.as_slice() {
        [none] if none == "none" => &[],
        names => names,
    });
    for wanted in asked_for.into_iter().flatten() {
        let known = names.contains(&wanted.as_str());
        anyhow::ensure!(known, "there is no peer {wanted:?}; there are {}", names.join(", "));
    }
    for peer in Peer::OTHERS {
        let asked = asked_for.map(|names| names.iter().any(|name| name == peer.name()));
        if asked == Some(false) {
            continue;
        }
        match peer.version() {
            Ok(version) => {
                versions.insert(peer.name().to_owned(), version.into());
                peers.push(peer);
            }
            Err(error) if asked == Some(true) => return Err(error),
            Err(error) => eprintln!("without {}: {error:#}", peer.name()),
        }
    }
    Ok((peers, versions))
}

fn tell(sample: &Sample) {
    let failed = match sample.work.failed {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    let figures = match sample.idle {
        Some(idle) => format!("{:>8.1} KiB a connection", idle.each / 1024.0),
        None => format!("{:>8.1} us {:>9.0}/s{failed}", sample.cpu(), sample.rate()),
    };
    eprintln!("round {} {:<14} {:<14} {figures}", sample.round + 1, sample.scenario, sample.peer);
}
