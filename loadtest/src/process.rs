//! The gateway as a child process.

use std::fs::{self, File};
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::NamedTempFile;

use crate::bench::usage;
use crate::client::Target;

/// How long a gateway may take to be ready or to end.
const PATIENCE: Duration = Duration::from_secs(120);
/// How many ports are tried, from 20000 on.
const PORTS: u32 = 12_000;

/// Where a gateway's objects come from.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A folder of manifests.
    Manifests(&'a Path),
    /// The API of a cluster.
    Kubeconfig(&'a Path),
}

/// A running gateway. Killed when dropped, unless it was stopped before.
#[derive(Debug)]
pub struct Gateway {
    /// Plain HTTP.
    pub http: SocketAddr,
    /// TLS.
    pub https: SocketAddr,
    /// From start to ready.
    pub start: Duration,
    child: Child,
    log: NamedTempFile,
}

impl Gateway {
    /// Starts the program on a folder, with the settings of `default/sluice`, and waits until it is ready.
    ///
    /// # Errors
    /// It cannot be started, ends at once, or is not ready in time; its log is in the message.
    pub async fn start(program: &Path, folder: &Path) -> anyhow::Result<Self> {
        Self::start_on(program, Source::Manifests(folder)).await
    }

    /// The same on any source.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_on(program: &Path, source: Source<'_>) -> anyhow::Result<Self> {
        let [http, https, healthz, admin] = free_ports()?;
        let log = NamedTempFile::new().context("cannot make a log file")?;
        let started = Instant::now();
        let child = serve_command(program, source, [http, https, healthz, admin])
            .arg("--enable-metrics")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.reopen().context("cannot open the log file")?)
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut gateway = Self { http, https, start: Duration::ZERO, child, log };
        let health = Target::plain(healthz, "health");
        while !matches!(health.get_once("/healthz").await, Ok(answer) if answer.status == 200) {
            let ended = gateway.child.try_wait()?;
            anyhow::ensure!(
                ended.is_none() && started.elapsed() < PATIENCE,
                "the gateway is not ready ({ended:?}):\n{}",
                gateway.log()
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        gateway.start = started.elapsed();
        Ok(gateway)
    }

    /// Resident memory in bytes.
    ///
    /// # Errors
    /// The process is gone, or this is not Linux.
    pub fn resident(&self) -> anyhow::Result<u64> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        Ok(kilobytes.with_context(|| format!("no VmRSS in {path}"))? * 1024)
    }

    /// CPU time of all its threads so far.
    pub fn cpu_time(&self) -> Duration {
        usage::cpu_time(&[self.child.id()]).total()
    }

    /// Ends it as Kubernetes does, and waits for it.
    ///
    /// # Errors
    /// It does not end in time, or not well.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).context("the gateway ended on its own")?;
        let asked = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                anyhow::ensure!(status.success(), "the gateway ended with {status}:\n{}", self.log());
                return Ok(());
            }
            anyhow::ensure!(asked.elapsed() < PATIENCE, "the gateway does not end:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        let mut text = String::new();
        let read = File::open(self.log.path()).and_then(|mut file| file.read_to_string(&mut text));
        match read {
            Ok(_) => text
                .lines()
                .rev()
                .take(20)
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect::<Vec<_>>()
                .join("\n"),
            Err(error) => format!("no log: {error}"),
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It has ended already when it was stopped.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The command that serves a source, with the settings of `default/sluice`, on the ports of HTTP, HTTPS, health
/// and the address of the admin listener, in this order.
pub fn serve_command(program: &Path, source: Source<'_>, listen: [SocketAddr; 4]) -> Command {
    let (flag, path) = match source {
        Source::Manifests(folder) => ("--manifests", folder),
        Source::Kubeconfig(file) => ("--kubeconfig", file),
    };
    let [http, https, healthz, admin] = listen;
    let mut command = Command::new(program);
    command
        .args(["serve", "--configmap", "default/sluice", flag])
        .arg(path)
        .args(["--http-port", &http.port().to_string()])
        .args(["--https-port", &https.port().to_string()])
        .args(["--healthz-port", &healthz.port().to_string()])
        .args(["--admin-address", &admin.to_string()]);
    command
}

/// Ports that are free now, below those that connections take their source ports from. What was given out comes
/// again last, so that a process never meets the connections of the one before it.
///
/// # Errors
/// There are too few.
pub fn free_ports<const N: usize>() -> anyhow::Result<[SocketAddr; N]> {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let first = std::process::id() % PORTS;
    let mut free = Vec::new();
    for _ in 0..PORTS {
        if free.len() == N {
            break;
        }
        let port = 20_000 + u16::try_from((first + GIVEN.fetch_add(1, Ordering::Relaxed)) % PORTS)?;
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            free.push(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        }
    }
    free.try_into().map_err(|_| anyhow::anyhow!("no free ports from 20000 to 32000"))
}
