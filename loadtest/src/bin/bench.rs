//! Sluice side by side with nginx, HAProxy, Envoy, nghttpx and plain Pingora (docs/benchmarks.md).

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use serde_json::json;
use sluice_loadtest::bench::machine::{self, Cores};
use sluice_loadtest::bench::peer::{Build, Peer};
use sluice_loadtest::bench::run::Run;
use sluice_loadtest::bench::rung::{self, Rung};
use sluice_loadtest::bench::sample::Sample;
use sluice_loadtest::bench::summary::Summary;
use sluice_loadtest::bench::table;

/// Proxies side by side, one core each.
#[derive(Parser)]
struct Arguments {
    /// Builds of Sluice; by default the one next to this program.
    #[arg(long, value_name = "[NAME=]PATH[:FLAGS]")]
    sluice: Vec<Build>,
    /// Others; by default all that are installed.
    #[arg(long, value_delimiter = ',')]
    peers: Option<Vec<String>>,
    /// Kinds of traffic; by default all.
    #[arg(long, value_delimiter = ',')]
    rungs: Vec<String>,
    /// Rounds.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Length of each load.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Where to write all samples.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match bench(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn bench(arguments: &Arguments) -> anyhow::Result<()> {
    let cores = Cores::claim()?;
    let (peers, versions) = peers(arguments)?;
    let rungs = match arguments.rungs.as_slice() {
        [] => rung::all(),
        names => names.iter().map(|name| Rung::named(name)).collect::<anyhow::Result<_>>()?,
    };
    let run = Run { rungs, peers, rounds: arguments.rounds, seconds: arguments.seconds, cores };
    eprintln!("about {} minutes", run.estimate().as_secs().div_ceil(60));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let samples = runtime.block_on(run.samples(tell))?;
    let summary = Summary::new(samples);
    print!("{}", table::tables(&run.rungs, &summary));
    if let Some(path) = &arguments.json {
        let samples: Vec<_> = summary.samples().iter().map(Sample::to_json).collect();
        let report = json!({"machine": machine::description(), "versions": versions, "samples": samples});
        std::fs::write(path, format!("{report:#}\n"))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Who takes part, with versions. A peer that was not asked for by name and is missing is told of and left out.
fn peers(arguments: &Arguments) -> anyhow::Result<(Vec<Peer>, serde_json::Map<String, serde_json::Value>)> {
    let mut versions = serde_json::Map::new();
    let mut peers = Vec::new();
    let builds = match arguments.sluice.as_slice() {
        [] => vec![Build {
            name: "sluice".to_owned(),
            program: std::env::current_exe()?.with_file_name("sluice"),
            flags: Vec::new(),
        }],
        builds => builds.to_vec(),
    };
    for peer in builds.into_iter().map(Peer::Sluice) {
        versions.insert(peer.name().to_owned(), peer.version()?.into());
        peers.push(peer);
    }
    let names: Vec<&str> = Peer::OTHERS.iter().map(Peer::name).collect();
    for wanted in arguments.peers.iter().flatten() {
        anyhow::ensure!(
            names.contains(&wanted.as_str()),
            "there is no peer {wanted:?}; there are {}",
            names.join(", ")
        );
    }
    for peer in Peer::OTHERS {
        let asked = arguments.peers.as_ref().map(|names| names.iter().any(|name| name == peer.name()));
        match (asked, peer.version()) {
            (Some(false), _) => {}
            (Some(true), Err(error)) => return Err(error),
            (None, Err(error)) => eprintln!("without {}: {error:#}", peer.name()),
            (_, Ok(version)) => {
                versions.insert(peer.name().to_owned(), version.into());
                peers.push(peer);
            }
        }
    }
    Ok((peers, versions))
}

fn tell(sample: &Sample) {
    eprintln!(
        "round {} {:<14} {:<14} {:>8.1} us {:>9.0}/s {}",
        sample.round + 1,
        sample.rung,
        sample.peer,
        sample.cpu(),
        sample.rate(),
        if sample.work.failed > 0 { format!("failed {}", sample.work.failed) } else { String::new() }
    );
}
