//! Local ports that kubectl forwards to the admin listeners of Pods.
//!
//! Commands that read several replicas, or read one for minutes, use them: a connection that ends
//! also ends what the replica does for it, whereas a program that was started in a Pod may stay.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver};
use std::thread;

use anyhow::{Context, Result, bail};

use super::children::BoundChild;
use super::kubectl::{Kubectl, MISSING};
use super::pods::GatewayPod;
use crate::observe::Replica;

/// The process that forwards a port. It ends when this is dropped, or this program ends.
#[derive(Debug)]
pub(super) struct Forward {
    child: BoundChild,
    pod: String,
    /// The local address, or the error of kubectl.
    started: Receiver<Result<SocketAddr, String>>,
}

/// Forwarded ports, and the replicas behind them.
#[derive(Debug, Default)]
pub(super) struct Forwards {
    forwards: Vec<Forward>,
    pub(super) replicas: Vec<Replica>,
}

impl Forwards {
    /// Forwards a free port to each Pod. Pods that cannot be reached are named on standard error.
    /// `admin` is the port of Pods without a flag for it.
    ///
    /// # Errors
    /// No Pod can be reached.
    pub(super) fn to(kubectl: &Kubectl, pods: &[GatewayPod], admin: u16) -> Result<Self> {
        // They start at the same time.
        let started: Vec<_> = pods.iter().map(|pod| Forward::start(kubectl, pod, 0, admin)).collect();
        let (mut all, mut errors) = (Self::default(), Vec::new());
        for forward in started {
            match forward.and_then(|forward| Ok((forward.replica()?, forward))) {
                Ok((replica, forward)) => {
                    all.replicas.push(replica);
                    all.forwards.push(forward);
                }
                Err(error) => errors.push(error),
            }
        }
        match errors.pop() {
            Some(error) if all.forwards.is_empty() => return Err(error),
            last => errors.extend(last),
        }
        errors.iter().for_each(|error| eprintln!("kubectl-sluice: {error:#}"));
        Ok(all)
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

    /// Waits for the local address, and returns the replica behind it.
    ///
    /// # Errors
    /// kubectl cannot forward the port; the error is its message.
    pub(super) fn replica(&self) -> Result<Replica> {
        let last = match self.started.recv() {
            Ok(Ok(address)) => return Ok(Replica { name: self.pod.clone(), address }),
            Ok(Err(last)) if !last.is_empty() => last,
            Ok(Err(_)) | Err(_) => "it ended and printed nothing".to_owned(),
        };
        bail!("cannot forward a port to Pod {}: kubectl: {last}", self.pod)
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
