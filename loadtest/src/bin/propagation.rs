//! The propagation delay of cluster changes: the time from the API's response to a write until the
//! first request served accordingly, in a lab, with increasing numbers of Ingresses, and with
//! constantly changing endpoints of other Services. Then the cost of these objects for an idle
//! gateway.
//!
//! etcd, API server, gateway, clients and backends share the machine, so the figures include their
//! effects. The delay of a separate watch is measured for comparison. Requires root, as every lab
//! does.

use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;
use sluice_lab::lab::{Lab, Options};
use sluice_lab::network;
use sluice_lab::process::Process;
use sluice_loadtest::arguments::Common;
use sluice_loadtest::backend::Backend;
use sluice_loadtest::cluster::Cluster;
use sluice_loadtest::process::{start, stop};
use sluice_loadtest::propagation::{BACKENDS, Changes, FEWEST, keep_busy};
use sluice_loadtest::report::{Bound, Report};
use sluice_testing::gateway::{Gateway, Source};
use tokio::time::sleep;

/// Aim for resident memory with all objects, in MiB.
const MEMORY: f64 = 50.0;
/// Aim for the CPU usage of an idle gateway, in thousandths of a core.
const IDLE: f64 = 5.0;
/// Time after the start, for remaining work that is not part of being idle.
const SETTLE: Duration = Duration::from_secs(5);

/// Propagation delay of cluster changes.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Numbers of Ingresses, one run each.
    #[arg(long, value_delimiter = ',', default_values_t = [10, 1000, 3000])]
    ingresses: Vec<usize>,
    /// Writes of each kind in each run.
    #[arg(long, default_value_t = 100)]
    writes: usize,
    /// Endpoint writes per second to other Services in the busy runs.
    #[arg(long, default_value_t = 50)]
    busy: u32,
    /// Endpoints of each Service.
    #[arg(long, default_value_t = 4)]
    endpoints: usize,
    /// Ingresses, and as many Services, when the cost of an idle gateway is measured; 0 leaves that
    /// out.
    #[arg(long, default_value_t = 5000)]
    idle_ingresses: usize,
    /// Seconds over which the CPU time of an idle gateway is measured.
    #[arg(long, default_value_t = 60)]
    idle_seconds: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let lab = match lab() {
        Ok(lab) => lab,
        Err(error) => {
            eprintln!("{error:#}");
            return ExitCode::FAILURE;
        }
    };
    let common = arguments.common.clone();
    let outcome = common.run(propagation(&arguments, &lab));
    if let Err(error) = Lab::down(lab.layout().name()) {
        eprintln!("the lab {} is not down: {error:#}", lab.layout().name());
    }
    outcome
}

/// Starts a lab that ends with this process. This thread enters it, with all threads and programs
/// that it starts later.
fn lab() -> anyhow::Result<Lab> {
    let owner = Process::own().context("/proc is not readable")?;
    let name = format!("p{}", owner.pid()).parse()?;
    let mut options = Options { name, owner: Some(owner), ..Options::default() };
    options.settings.nodes = 1;
    let lab = Lab::up(&options)?;
    network::enter(&lab.layout().netns())?;
    Ok(lab)
}

async fn propagation(arguments: &Arguments, lab: &Lab) -> anyhow::Result<Report> {
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let backends = [Backend::start(any, 0, BACKENDS[0]).await?, Backend::start(any, 0, BACKENDS[1]).await?];
    let ports = backends.each_ref().map(|backend| backend.address.port());
    let mut cluster = Cluster::new(lab, ports, arguments.endpoints).await?;
    let mut changes = Changes::new(&mut cluster).await?;
    let mut report = Report::default();
    let program = arguments.common.gateway()?;
    for count in &arguments.ingresses {
        ensure!(*count >= FEWEST, "{count} Ingresses are too few: {FEWEST} are needed");
        cluster.grow(*count).await?;
        let gateway = start(&program, Source::Kubeconfig(&lab.kubeconfig())).await?;
        let run = count.to_string();
        changes.run(&mut report, &run, &cluster, &gateway, arguments.writes).await?;
        let run = format!("{count} busy");
        tokio::select! {
            ran = changes.run(&mut report, &run, &cluster, &gateway, arguments.writes) => ran?,
            broken = keep_busy(&cluster, arguments.busy) => broken?,
        }
        stop(gateway).await?;
    }
    if arguments.idle_ingresses > 0 {
        cluster.grow(arguments.idle_ingresses).await?;
        // The separate watch would be additional load on the API.
        drop(changes);
        let gateway = start(&program, Source::Kubeconfig(&lab.kubeconfig())).await?;
        idle(&mut report, gateway, Duration::from_secs(arguments.idle_seconds)).await?;
    }
    Ok(report)
}

/// Measures the cost of all objects while nothing changes.
async fn idle(report: &mut Report, gateway: Gateway, over: Duration) -> anyhow::Result<()> {
    report.add("idle", "start to ready", gateway.start.as_secs_f64() * 1e3, "ms", Bound::None);
    sleep(SETTLE).await;
    report.add("idle", "resident memory after the start", mebibytes(&gateway)?, "MiB", Bound::Aim(MEMORY));
    let before = gateway.cpu_time();
    sleep(over).await;
    let cores = (gateway.cpu_time() - before).as_secs_f64() / over.as_secs_f64();
    report.add("idle", "CPU, thousandths of a core", cores * 1e3, "", Bound::Aim(IDLE));
    report.add("idle", "resident memory at the end", mebibytes(&gateway)?, "MiB", Bound::Aim(MEMORY));
    stop(gateway).await
}

fn mebibytes(gateway: &Gateway) -> anyhow::Result<f64> {
    Ok(gateway.resident()? as f64 / 1048576.0)
}
