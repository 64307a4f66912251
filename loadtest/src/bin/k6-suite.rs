//! Runs the k6 scripts of `loadtest/k6/` against a gateway that this program starts, with its own
//! backends and changing endpoints, or against an external gateway (`--target`).
//!
//! With its own gateway, four backends stay for the whole run, and transient ones are added and
//! removed. A session on a removed transient backend may move to another. No other session may
//! move, and no request may fail.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use sluice_loadtest::arguments::Common;
use sluice_loadtest::echo::Echo;
use sluice_loadtest::gateway_url::GatewayUrl;
use sluice_loadtest::k6::{K6, Script, setting};
use sluice_loadtest::manifest::{config_map, ingress, ingress_of, slice};
use sluice_loadtest::process::{start, stop};
use sluice_loadtest::report::{Bound, Report};
use sluice_testing::certificate::TestCertificate;
use sluice_testing::folder::Folder;
use sluice_testing::gateway::Source;
use sluice_testing::manifest::{nginx_class, service};
use sluice_testing::ports;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval};

/// Hosts of the gateway that is started here. One certificate covers them.
const HOSTS: [&str; 2] = ["web.k6.example", "shop.k6.example"];
/// The host with session affinity.
const STICKY: &str = "sticky.k6.example";
/// The host that redirects to HTTPS.
const SECURE: &str = "secure.k6.example";
/// The name in the certificate of all hosts.
const COVERED: &str = "*.k6.example";
/// Number of permanent backends.
const MEMBERS: usize = 4;
/// Number of transient backends at a time.
const TRANSIENT: usize = 2;
/// Time after which a removed transient backend stops.
const FAREWELL: Duration = Duration::from_secs(1);

/// k6 against a gateway.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Scripts to run; by default all.
    scripts: Vec<Script>,
    /// The k6 program; by default the one in `PATH`.
    #[arg(long, value_name = "PATH", env = "K6", default_value = "k6")]
    k6: PathBuf,
    /// Smoke, sticky, WebSocket and TLS for three seconds each, asserting only what holds on any
    /// machine.
    #[arg(long, conflicts_with_all = ["scripts", "target"])]
    short: bool,
    /// Duration of each script in seconds, with a gateway started here.
    #[arg(long, default_value_t = 20, conflicts_with = "target")]
    seconds: u64,
    /// Endpoint changes a second while a script runs here; by default 4 for sticky and websocket,
    /// else none.
    #[arg(long, value_name = "RATE", conflicts_with = "target")]
    changes: Option<u32>,
    /// A setting of the scripts or of k6. May be given several times.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
    /// A gateway that runs already, by its URL: `http://ADDRESS[:PORT]` or
    /// `https://ADDRESS[:PORT]`.
    #[arg(long, value_name = "URL")]
    target: Option<GatewayUrl>,
    /// URL for TLS, if the target is plain HTTP.
    #[arg(long, value_name = "URL", requires = "target")]
    target_tls: Option<GatewayUrl>,
    /// The host to request from the target.
    #[arg(long, value_name = "NAME", requires = "target")]
    host: Option<String>,
    /// Run sticky against a target whose endpoints are changed by other means.
    #[arg(long, requires = "target")]
    changed_by_others: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let common = arguments.common.clone();
    common.run(async move {
        let mut terminate = signal(SignalKind::terminate())?;
        // Dropping the future ends everything that it has started.
        tokio::select! {
            report = suite(&arguments) => report,
            _ = tokio::signal::ctrl_c() => anyhow::bail!("interrupted"),
            _ = terminate.recv() => anyhow::bail!("asked to end"),
        }
    })
}

async fn suite(arguments: &Arguments) -> anyhow::Result<Report> {
    let k6 = K6::new(arguments.k6.clone());
    let scripts = match (arguments.short, arguments.scripts.as_slice()) {
        (true, _) => &[Script::Smoke, Script::Sticky, Script::Websocket, Script::Tls],
        (false, []) => Script::value_variants(),
        (false, named) => named,
    };
    let mut report = Report::default();
    match &arguments.target {
        Some(target) => elsewhere(arguments, &k6, scripts, target, &mut report).await?,
        None => here(arguments, &k6, scripts, &mut report).await?,
    }
    Ok(report)
}

/// Runs scripts against an external gateway. Only requests are sent to it.
async fn elsewhere(
    arguments: &Arguments,
    k6: &K6,
    scripts: &[Script],
    target: &GatewayUrl,
    report: &mut Report,
) -> anyhow::Result<()> {
    anyhow::ensure!(
        arguments.changed_by_others || !arguments.scripts.contains(&Script::Sticky),
        "sticky shows something only while endpoints change, and this program changes none of a gateway it has not \
         started: scale the Deployment up and down during the test, and pass --changed-by-others"
    );
    let host = arguments.host.as_deref();
    let mut settings = vec![("TARGET".to_owned(), target.for_host(host).await?)];
    if let Some(target) = &arguments.target_tls {
        settings.push(("TARGET_TLS".to_owned(), target.for_host(host).await?));
    }
    settings.extend(host.map(|host| ("HOST".to_owned(), host.to_owned())));
    settings.extend(arguments.settings.iter().cloned());
    let has_tls = settings.iter().any(|(_, value)| value.starts_with("https:"));
    for script in scripts {
        // Left out only if no scripts were named.
        let named = arguments.scripts.contains(script);
        if !named && (*script == Script::Sticky || *script == Script::Tls && !has_tls) {
            report.remark(format!("{}: left out", script.name()));
            continue;
        }
        k6.run(*script, &settings, arguments.common.json()).await?.report(report);
    }
    Ok(())
}

/// Runs scripts against a gateway started here.
async fn here(arguments: &Arguments, k6: &K6, scripts: &[Script], report: &mut Report) -> anyhow::Result<()> {
    let mut world = World::new().await?;
    let gateway = start(&arguments.common.gateway()?, Source::Manifests(world.folder.path())).await?;
    let seconds = if arguments.short { 3 } else { arguments.seconds };
    let mut settings = vec![
        ("TARGET".to_owned(), format!("http://{}", gateway.http)),
        ("TARGET_TLS".to_owned(), format!("https://{}", gateway.https)),
        ("HOST".to_owned(), HOSTS[0].to_owned()),
        ("HOSTS".to_owned(), HOSTS.join(",")),
        ("STICKY_HOST".to_owned(), STICKY.to_owned()),
        ("SECURE_HOST".to_owned(), SECURE.to_owned()),
        ("TRANSIENT".to_owned(), "^transient-".to_owned()),
        ("DURATION".to_owned(), format!("{seconds}s")),
        ("SSL_CERT_FILE".to_owned(), world.authority.path().display().to_string()),
    ];
    if arguments.short {
        settings.push(("P99_MS".to_owned(), "0".to_owned()));
    }
    settings.extend(arguments.settings.iter().cloned());
    let quiet = arguments.short || arguments.common.json();
    for script in scripts {
        let usual = if matches!(script, Script::Sticky | Script::Websocket) { 4 } else { 0 };
        let rate = arguments.changes.unwrap_or(usual);
        let before = gateway.resident()?;
        let mut changes = 0;
        let settings = with_load(*script, &settings);
        let run = tokio::select! {
            run = k6.run(*script, &settings, quiet) => run?,
            failed = world.change(rate, &mut changes) => return Err(failed),
        };
        run.report(report);
        if rate > 0 {
            report.add(
                script.name(),
                "endpoint changes during the test",
                f64::from(changes),
                "",
                Bound::None,
            );
        }
        let grown = gateway.resident()? as f64 - before as f64;
        report.add(
            script.name(),
            "memory of the gateway, before",
            before as f64 / 1048576.0,
            "MiB",
            Bound::None,
        );
        report.add(script.name(), "memory of the gateway, more after", grown / 1048576.0, "MiB", Bound::None);
    }
    if !report.passed() {
        report.remark(format!("log of the gateway:\n{}", gateway.log()));
    }
    stop(gateway).await
}

/// Adds the load for this machine. The scripts' defaults are meant for a cluster that also serves
/// others.
fn with_load(script: Script, settings: &[(String, String)]) -> Vec<(String, String)> {
    let load = match script {
        Script::Ramp => Some(("MAX_RATE", "8000")),
        Script::Steady => Some(("RATE", "1000")),
        _ => None,
    };
    let load = load.map(|(name, value)| (name.to_owned(), value.to_owned()));
    // Explicit settings come last and take precedence.
    load.into_iter().chain(settings.iter().cloned()).collect()
}

/// The manifests and the backends.
struct World {
    folder: Folder,
    authority: tempfile::NamedTempFile,
    port: u16,
    next: u32,
    members: Vec<Echo>,
    transient: VecDeque<Echo>,
}

impl World {
    async fn new() -> anyhow::Result<Self> {
        let certificate = TestCertificate::new(&[COVERED]);
        let folder = Folder::in_memory()?;
        folder.try_write("class.yaml", nginx_class())?;
        folder.try_write("config.yaml", config_map(&[]))?;
        folder.try_write("service.yaml", service("echo"))?;
        folder.try_write("secret.yaml", certificate.secret("k6-tls"))?;
        folder.try_write("hosts.yaml", ingress("hosts", &HOSTS, "echo", Some("k6-tls")))?;
        let of = |name, host| ingress_of(name, ("/", "Prefix"), &[host], "echo", Some("k6-tls"));
        let sticky = of("sticky", STICKY)
            .annotation("affinity", "cookie")
            .annotation("affinity-mode", "persistent")
            .annotation("ssl-redirect", "false");
        folder.try_write("sticky.yaml", sticky.text())?;
        folder.try_write("secure.yaml", of("secure", SECURE).text())?;
        let authority = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
        std::fs::write(authority.path(), &certificate.pem).context("cannot write the certificate")?;
        let port = ports::reserve();
        let mut world =
            Self { folder, authority, port, next: 0, members: Vec::new(), transient: VecDeque::new() };
        for _ in 0..MEMBERS {
            let member = world.backend("stay").await?;
            world.members.push(member);
        }
        for _ in 0..TRANSIENT {
            let transient = world.backend("transient").await?;
            world.transient.push_back(transient);
        }
        world.publish()?;
        Ok(world)
    }

    /// Starts a backend at a new address.
    async fn backend(&mut self, kind: &str) -> anyhow::Result<Echo> {
        self.next += 1;
        let [_, high, middle, low] = (self.next + 256).to_be_bytes();
        let address = Ipv4Addr::new(127, 64 + high, middle, low);
        Echo::start(IpAddr::V4(address), self.port, &format!("{kind}-{}", self.next)).await
    }

    fn publish(&self) -> anyhow::Result<()> {
        let all = self.members.iter().chain(&self.transient);
        let addresses: Vec<IpAddr> = all.map(|backend| backend.address.ip()).collect();
        Ok(self.folder.try_write("endpoints.yaml", slice("echo", &addresses, self.port))?)
    }

    /// Adds or removes one transient backend `rate` times per second while it is polled. Returns
    /// only on failure, with the error.
    async fn change(&mut self, rate: u32, changes: &mut u32) -> anyhow::Error {
        match self.try_change(rate, changes).await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    async fn try_change(&mut self, rate: u32, changes: &mut u32) -> anyhow::Result<std::convert::Infallible> {
        if rate == 0 {
            return std::future::pending().await;
        }
        let mut ticks = interval(Duration::from_secs(1) / rate);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if self.transient.len() < TRANSIENT {
                let transient = self.backend("transient").await?;
                self.transient.push_back(transient);
            } else if let Some(transient) = self.transient.pop_front() {
                tokio::spawn(async move {
                    tokio::time::sleep(FAREWELL).await;
                    drop(transient);
                });
            }
            self.publish()?;
            *changes += 1;
        }
    }
}
