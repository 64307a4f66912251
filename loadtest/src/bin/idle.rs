//! What an idle connection costs: resident memory of the gateway with thousands of keep-alive connections that
//! have each had one request, in the clear and on TLS, and how much of it is given back when they close.

use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use sluice_loadtest::arguments::Common;
use sluice_loadtest::backend::Backend;
use sluice_loadtest::certificate::{Certificate, trusting};
use sluice_loadtest::client::Target;
use sluice_loadtest::crowd::{AT_ONCE, open, still};
use sluice_loadtest::manifest::{CLASS, Folder, config_map, ingress, secret, service, slice};
use sluice_loadtest::process::Gateway;
use sluice_loadtest::report::{Bound, Report};

/// The host that is asked.
const HOST: &str = "idle.example";

/// When memory counts as given back. An allocator keeps it for a moment, in case it is needed again.
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
    let folder = Folder::new()?;
    folder.write("class.yaml", CLASS)?;
    // Longer than the run, so that nothing closes on its own.
    folder.write("config.yaml", &config_map(&[("keep-alive", "3600"), ("client-header-timeout", "3600")]))?;
    folder.write("service.yaml", &service("idle"))?;
    folder.write("slice.yaml", &slice("idle", &[backend.address.ip()], backend.address.port()))?;
    folder.write("ingress.yaml", &ingress("idle", &[HOST], "idle", Some("idle-tls")))?;
    folder.write("secret.yaml", &secret("idle-tls", &Certificate::new(HOST)?))?;
    let mut report = Report::default();
    for (run, aim) in [("plain", 5.0), ("TLS", 20.0)] {
        // A gateway of its own for each, so that one run's memory is not the other's.
        let gateway = Gateway::start(&arguments.common.gateway()?, folder.path()).await?;
        let target = match run {
            "plain" => Target::plain(gateway.http, HOST),
            _ => Target::tls(gateway.https, HOST, trusting()),
        };
        drop(open(&target, AT_ONCE * 4).await?);
        let before = still(|| gateway.resident()).await?;
        let mut connections = open(&target, arguments.connections).await?;
        let during = still(|| gateway.resident()).await?;
        let mut dead = 0;
        for connection in connections.iter_mut().step_by(arguments.connections.div_ceil(100).max(1)) {
            dead += u32::from(!matches!(connection.get("/").await, Ok(answer) if answer.status == 200));
        }
        drop(connections);
        tokio::time::sleep(SOON).await;
        let after = still(|| gateway.resident()).await?;
        let taken = during.saturating_sub(before) as f64;
        let given_back = during.saturating_sub(after) as f64;
        let count = arguments.connections as f64;
        report.add(run, "idle connections", count, "", Bound::None);
        report.add(run, "memory per connection", taken / count / 1024.0, "KiB", Bound::Aim(aim));
        report.add(run, "given back after closing", 100.0 * given_back / taken.max(1.0), "%", Bound::None);
        report.add(run, "connections that had died", f64::from(dead), "", Bound::Exactly(0.0));
        gateway.stop().await?;
    }
    Ok(report)
}
