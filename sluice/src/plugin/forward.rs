//! Local ports that kubectl forwards to the admin listeners of Pods.
//!
//! Commands that read several replicas, or read one for minutes, use them: a connection that ends
//! also ends what the replica does for it, whereas a program that was started in a Pod may stay.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::children::BoundChild;
use super::kubectl::{Kubectl, MISSING};
use super::pods::GatewayPod;
use crate::observe::Replica;

/// Time limit for the start of a forwarded port. Without it, a node that does not answer would hold
/// up what the other Pods report.
pub(super) const STARTS_WITHIN: Duration = Duration::from_secs(20);

/// The process that forwards a port. It ends when this is dropped, or this program ends.
#[derive(Debug)]
pub(super) struct Forward {
    child: BoundChild,
    pod: String,
    /// The local address, or the error of kubectl.
    started: Receiver<Result<SocketAddr, String>>,
}

/// Forwarded ports, and the replicas behind them.
#[derive(Debug)]
pub(super) struct Forwards {
    /// They end when this is dropped.
    _forwards: Vec<Forward>,
    pub(super) replicas: Vec<Replica>,
}

impl Forwards {
    /// Forwards a free port to each Pod, and waits at most for `limit`. `admin` is the port of Pods
    /// without a flag for it.
    ///
    /// # Errors
    /// kubectl cannot be run.
    pub(super) fn to(kubectl: &Kubectl, pods: &[GatewayPod], admin: u16, limit: Duration) -> Result<Self> {
        // They start at the same time.
        let started = pods.iter().map(|pod| Forward::start(kubectl, pod, 0, admin));
        let forwards = started.collect::<Result<Vec<_>>>()?;
        let end = Instant::now() + limit;
        let replicas = forwards.iter().map(|forward| forward.replica(end)).collect();
        Ok(Self { _forwards: forwards, replicas })
    }
}

impl Forward {
    /// Starts to forward a local port to the admin listener of a Pod; 0 is any free one. `admin` is
    /// the port of a Pod without a flag for it.
    ///
    /// # Errors
    /// kubectl cannot be run.
    pub(super) fn start(kubectl: &Kubectl, pod: &GatewayPod, port: u16, admin: u16) -> Result<Self> {
        let ports =
            format!("{}:{}", if port == 0 { String::new() } else { port.to_string() }, pod.admin_port(admin));
        let mut command = kubectl.command();
        command.args(["port-forward", &format!("pod/{}", pod.name), "--namespace", &pod.namespace]);
        command.args(["--address", "127.0.0.1", &ports]).stdin(Stdio::null());
        let mut child =
            BoundChild::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped())).context(MISSING)?;
        let (Some(out), Some(errors)) = (child.0.stdout.take(), child.0.stderr.take()) else {
            bail!(MISSING)
        };
        let (sender, started) = mpsc::channel();
        // Both outputs are read to the end, because a full pipe would stop kubectl.
        let errors = thread::spawn(move || BufReader::new(errors).lines().map_while(Result::ok).last());
        thread::spawn(move || {
            let mut lines = BufReader::new(out).lines().map_while(Result::ok);
            let address = lines.find_map(|line| forwarded(&line));
            let result = address.ok_or_else(|| errors.join().ok().flatten().unwrap_or_default());
            // Without a receiver, the program ends anyway.
            let _ = sender.send(result);
            lines.for_each(drop);
        });
        Ok(Self { child, pod: format!("{}/{}", pod.namespace, pod.name), started })
    }

    /// Waits for the local address until `end`, and returns the replica behind it.
    pub(super) fn replica(&self, end: Instant) -> Replica {
        let failed = match self.started.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Ok(address)) => return Replica { name: self.pod.clone(), address: Ok(address) },
            Ok(Err(last)) if !last.is_empty() => format!("kubectl: {last}"),
            Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                "kubectl ended and printed nothing".to_owned()
            }
            Err(RecvTimeoutError::Timeout) => "its node does not answer in time".to_owned(),
        };
        Replica {
            name: self.pod.clone(),
            address: Err(format!("cannot forward a port to this Pod: {failed}")),
        }
    }

    /// Waits until kubectl ends.
    ///
    /// # Errors
    /// The system has lost the process.
    pub(super) fn wait(&mut self) -> Result<()> {
        self.child.0.wait()?;
        Ok(())
    }
}

/// Returns the local address in a line of kubectl: `Forwarding from 127.0.0.1:41235 -> 10246`.
fn forwarded(line: &str) -> Option<SocketAddr> {
    line.strip_prefix("Forwarding from ")?.split(' ').next()?.parse().ok()
}
