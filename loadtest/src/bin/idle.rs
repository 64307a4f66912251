//! The cost of idle connections: resident memory of the gateway with thousands of keep-alive
//! connections after one request each, plain and over TLS, and the share that is released when they
//! close.

use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use sluice_loadtest::arguments::Common;
use sluice_loadtest::backend::Backend;
use sluice_loadtest::client::GatewayTarget;
use sluice_loadtest::crowd::{AT_ONCE, open, still};
use sluice_loadtest::manifest::{config_map, ingress, slice};
use sluice_loadtest::process::{start, stop};
use sluice_loadtest::report::{Bound, Report};
use sluice_loadtest::tls::trusting;
use sluice_testing::certificate::TestCertificate;
use sluice_testing::folder::Folder;
use sluice_testing::gateway::Source;
use sluice_testing::manifest::{nginx_class, service};

/// The host of the requests.
const HOST: &str = "idle.example";

/// Time after which released memory is read. Allocators keep memory for a moment in case it is
/// needed again.
const SOON: Duration = Duration::from_secs(5);

/// The cost of idle connections.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Connections of each kind.
    #[arg(long, default_value_t = 10_000)]
    connections: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let common = arguments.common.clone();
    common.run(async move { idle(&arguments).await })
}

async fn idle(arguments: &Arguments) -> anyhow::Result<Report> {
    let backend = Backend::start(IpAddr::V4(Ipv4Addr::LOCALHOST), 0, "idle").await?;
    let folder = Folder::in_memory()?;
    folder.try_write("class.yaml", nginx_class())?;
    // Longer than the run, so that no connection times out.
    folder
        .try_write("config.yaml", config_map(&[("keep-alive", "3600"), ("client-header-timeout", "3600")]))?;
    folder.try_write("service.yaml", service("idle"))?;
    folder.try_write("slice.yaml", slice("idle", &[backend.address.ip()], backend.address.port()))?;
    folder.try_write("ingress.yaml", ingress("idle", &[HOST], "idle", Some("idle-tls")))?;
    folder.try_write("secret.yaml", TestCertificate::new(&[HOST]).secret("idle-tls"))?;
    let mut report = Report::default();
    for (run, aim) in [("plain", 5.0), ("TLS", 20.0)] {
        // A separate gateway for each run, so that the memory of one does not affect the other.
        let gateway = start(&arguments.common.gateway()?, Source::Manifests(folder.path())).await?;
        let target = match run {
            "plain" => GatewayTarget::plain(gateway.http, HOST),
            _ => GatewayTarget::tls(gateway.https, HOST, trusting()),
        };
        drop(open(&target, AT_ONCE * 4).await?);
        let before = still(|| Ok(gateway.resident()?)).await?;
        let mut connections = open(&target, arguments.connections).await?;
        let during = still(|| Ok(gateway.resident()?)).await?;
        let mut dead = 0;
        for connection in connections.iter_mut().step_by(arguments.connections.div_ceil(100).max(1)) {
            dead += u32::from(!matches!(connection.get("/").await, Ok(answer) if answer.status == 200));
        }
        drop(connections);
        tokio::time::sleep(SOON).await;
        let after = still(|| Ok(gateway.resident()?)).await?;
        let taken = during.saturating_sub(before) as f64;
        let given_back = during.saturating_sub(after) as f64;
        let count = arguments.connections as f64;
        report.add(run, "idle connections", count, "", Bound::None);
        report.add(run, "memory per connection", taken / count / 1024.0, "KiB", Bound::Aim(aim));
        report.add(run, "given back after closing", 100.0 * given_back / taken.max(1.0), "%", Bound::None);
        report.add(run, "connections that had died", f64::from(dead), "", Bound::Exactly(0.0));
        stop(gateway).await?;
    }
    Ok(report)
}
