//! The cost of thousands of objects: the time from start to ready, the time from an edit to the
//! first request served accordingly, the CPU time of an edit, with or without concurrent requests,
//! and resident memory.
//!
//! `scale --ingresses 10000 --endpoints 5 --load 2000` tests 10,000 routes and 50,000 endpoints
//! under load.

use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use sluice_loadtest::arguments::Common;
use sluice_loadtest::backend::Backend;
use sluice_loadtest::bench::load::paced::Paced;
use sluice_loadtest::client::{Connection, GatewayTarget};
use sluice_loadtest::manifest::{config_map, ingress, slice};
use sluice_loadtest::process::{start, stop};
use sluice_loadtest::report::{Bound, Report};
use sluice_testing::folder::Folder;
use sluice_testing::gateway::{Gateway, Source};
use sluice_testing::manifest::{nginx_class, service};

/// Aim for the time from start to ready, in milliseconds.
const READY: f64 = 2000.0;
/// Aim for the time from an edit to the first request served accordingly, in milliseconds.
const EDIT: f64 = 15.0;
/// Aim for resident memory, in MiB.
const MEMORY: f64 = 50.0;
/// Interval of edits while their CPU time is measured.
const EDIT_EVERY: Duration = Duration::from_millis(20);
/// Time after which an edit counts as lost.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The cost of many objects.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Number of Ingresses, and of Services.
    #[arg(long, default_value_t = 5000)]
    ingresses: usize,
    /// Endpoints of each Service.
    #[arg(long, default_value_t = 4)]
    endpoints: usize,
    /// Edits of each kind.
    #[arg(long, default_value_t = 100)]
    edits: usize,
    /// Requests per second while the CPU time of edits is measured.
    #[arg(long, default_value_t = 0)]
    load: u32,
    /// Write everything to one file instead of one object per file.
    #[arg(long)]
    one_file: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let common = arguments.common.clone();
    common.run(async move { scale(&arguments).await })
}

async fn scale(arguments: &Arguments) -> anyhow::Result<Report> {
    // Bound to all addresses, a backend responds on every loopback address, so each endpoint has
    // its own address.
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    let backends = [Backend::start(any, 0, "one").await?, Backend::start(any, 0, "two").await?];
    let mut world = World::new(arguments, backends.each_ref().map(|backend| backend.address.port()))?;
    world.write_all()?;
    let mut report = Report::default();
    let gateway = start(&arguments.common.gateway()?, Source::Manifests(world.folder.path())).await?;
    let aim = |limit| if arguments.one_file { Bound::None } else { Bound::Aim(limit) };
    report.add("start", "start to ready", gateway.start.as_secs_f64() * 1e3, "ms", aim(READY));
    report.add("start", "resident memory", mebibytes(&gateway)?, "MiB", aim(MEMORY));
    let mut connection = GatewayTarget::plain(gateway.http, "scale").connect().await?;
    let mut lost = 0;
    for kind in ["Ingress", "EndpointSlice"] {
        let mut delays = Vec::new();
        for edit in 0..arguments.edits {
            // Spread over the folder, never the same object twice.
            let number = edit * (arguments.ingresses / arguments.edits.max(1)).max(1) % arguments.ingresses;
            let (host, wanted) = world.edit(kind, number)?;
            let published = Instant::now();
            match tokio::time::timeout(TIMEOUT, await_answer(&mut connection, &host, wanted)).await {
                Ok(answer) => {
                    answer?;
                    delays.push(published.elapsed().as_secs_f64() * 1e3);
                }
                Err(_) => {
                    lost += 1;
                    connection = GatewayTarget::plain(gateway.http, "scale").connect().await?;
                }
            }
        }
        let mean = delays.iter().sum::<f64>() / delays.len().max(1) as f64;
        report.add("edits", &format!("{kind} edit to served, mean"), mean, "ms", aim(EDIT));
        report.add(
            "edits",
            &format!("{kind} edit to served, max"),
            delays.iter().copied().fold(0.0, f64::max),
            "ms",
            aim(EDIT),
        );
    }
    report.add("edits", "edits that were never served", f64::from(lost), "", Bound::Exactly(0.0));
    cost(&mut report, &mut world, &gateway, arguments).await?;
    report.add("edits", "resident memory", mebibytes(&gateway)?, "MiB", aim(MEMORY));
    stop(gateway).await?;
    Ok(report)
}

/// Measures the CPU time of edits: a period with edits minus one without.
async fn cost(
    report: &mut Report,
    world: &mut World,
    gateway: &Gateway,
    arguments: &Arguments,
) -> anyhow::Result<()> {
    let length = EDIT_EVERY * u32::try_from(arguments.edits)?;
    let load = (arguments.load > 0).then(|| {
        let paced = Paced {
            rate: arguments.load,
            connections: 32,
            wait: TIMEOUT,
            time_limit: TIMEOUT,
            host: "host-0.example",
        };
        let address = gateway.http;
        tokio::task::spawn_blocking(move || paced.run(address, length * 3))
    });
    let before = gateway.cpu_time();
    tokio::time::sleep(length).await;
    let quiet = gateway.cpu_time().saturating_sub(before);
    for kind in ["Ingress", "EndpointSlice"] {
        let before = gateway.cpu_time();
        let mut ticks = tokio::time::interval(EDIT_EVERY);
        for number in 0..arguments.edits {
            ticks.tick().await;
            // Excludes the host that is under load.
            world.edit(kind, (number + 1) % arguments.ingresses)?;
        }
        ticks.tick().await;
        let spent = gateway.cpu_time().saturating_sub(before).saturating_sub(quiet);
        let each = spent.as_secs_f64() * 1e3 / arguments.edits.max(1) as f64;
        report.add("edits", &format!("{kind} edit, CPU time"), each, "ms", Bound::None);
    }
    if let Some(load) = load {
        let work = load.await??;
        let latency = work.latency.unwrap_or_default();
        report.add("load", "requests failed", work.failed as f64, "", Bound::Exactly(0.0));
        report.add("load", "p99 while edits are made", latency.p99, "ms", Bound::None);
        report.add("load", "p99.9 while edits are made", latency.p999, "ms", Bound::None);
    }
    Ok(())
}

fn mebibytes(gateway: &Gateway) -> anyhow::Result<f64> {
    Ok(gateway.resident()? as f64 / 1048576.0)
}

/// Requests until the response comes from this backend.
async fn await_answer(connection: &mut Connection, host: &str, backend: &str) -> anyhow::Result<()> {
    loop {
        let answer = connection.get_from(host, "/").await?;
        anyhow::ensure!(matches!(answer.status, 200 | 404), "status {} of {host}", answer.status);
        if answer.body == backend.as_bytes() {
            return Ok(());
        }
    }
}

/// The objects: Ingress n routes `host-n.example` to Service n, whose endpoints are loopback
/// addresses of its own on the port of one of the two backends.
struct World {
    folder: Folder,
    one_file: bool,
    ports: [u16; 2],
    endpoints: usize,
    hosts: Vec<Vec<String>>,
    backends: Vec<usize>,
}

impl World {
    fn new(arguments: &Arguments, ports: [u16; 2]) -> anyhow::Result<Self> {
        let count = arguments.ingresses;
        Ok(Self {
            folder: Folder::in_memory()?,
            one_file: arguments.one_file,
            ports,
            endpoints: arguments.endpoints,
            hosts: (0..count).map(|number| vec![format!("host-{number}.example")]).collect(),
            backends: vec![0; count],
        })
    }

    fn write_all(&self) -> anyhow::Result<()> {
        self.folder.try_write("class.yaml", nginx_class())?;
        // One connection polls until the new response arrives, with any number of requests.
        self.folder.try_write("config.yaml", config_map(&[("keep-alive-requests", "1000000000")]))?;
        if self.one_file {
            return self.write_one();
        }
        for number in 0..self.hosts.len() {
            self.folder
                .try_write(&format!("service-{number}.yaml"), service(&format!("service-{number}")))?;
            self.folder.try_write(&format!("ingress-{number}.yaml"), self.ingress(number))?;
            self.folder.try_write(&format!("slice-{number}.yaml"), self.slice(number))?;
        }
        Ok(())
    }

    fn write_one(&self) -> anyhow::Result<()> {
        let mut text = String::new();
        for number in 0..self.hosts.len() {
            for object in [service(&format!("service-{number}")), self.ingress(number), self.slice(number)] {
                text.push_str(&object);
            }
        }
        Ok(self.folder.try_write("all.yaml", text)?)
    }

    /// Changes one object. Returns the host to request, and the backend that should then respond.
    fn edit(&mut self, kind: &str, number: usize) -> anyhow::Result<(String, &'static str)> {
        let host = if kind == "Ingress" {
            let host = format!("new-{number}.example");
            self.hosts[number].push(host.clone());
            host
        } else {
            self.backends[number] = 1 - self.backends[number];
            self.hosts[number][0].clone()
        };
        match (self.one_file, kind) {
            (true, _) => self.write_one()?,
            (false, "Ingress") => {
                self.folder.try_write(&format!("ingress-{number}.yaml"), self.ingress(number))?;
            }
            (false, _) => self.folder.try_write(&format!("slice-{number}.yaml"), self.slice(number))?,
        }
        Ok((host, ["one", "two"][self.backends[number]]))
    }

    fn ingress(&self, number: usize) -> String {
        let hosts: Vec<&str> = self.hosts[number].iter().map(String::as_str).collect();
        ingress(&format!("ingress-{number}"), &hosts, &format!("service-{number}"), None)
    }

    fn slice(&self, number: usize) -> String {
        let first = number * self.endpoints;
        let addresses: Vec<IpAddr> = (first..first + self.endpoints)
            .map(|index| {
                let index = u32::try_from(index).expect("there are fewer endpoints than loopback addresses");
                IpAddr::V4(Ipv4Addr::from_bits(Ipv4Addr::new(127, 64, 0, 1).to_bits() + index))
            })
            .collect();
        slice(&format!("service-{number}"), &addresses, self.ports[self.backends[number]])
    }
}
