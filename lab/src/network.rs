//! Network namespaces, through the `ip` program. A lab's namespace has a bridge and no route out; each Pod's hangs off
//! that bridge and knows only the Pod, Service and load balancer ranges, so that nothing can leave the machine.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use rustix::fd::AsFd;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::addresses::{BALANCERS, GATEWAY, NodeIndex, PodAddress, SERVICES, SERVICES_GATEWAY, SERVICES_V6};
use crate::layout::{LabSettings, Layout};
use crate::process::Process;

/// The mark of packets that do not leave a Pod's namespace, wherever they are to go.
pub const STAYS: u32 = 1;

const BRIDGE: &str = "br0";
const GATEWAY_V6: &str = "fd00:10:244::1";

/// Where `ip` keeps a network namespace.
pub fn path(netns: &str) -> PathBuf {
    Path::new("/run/netns").join(netns)
}

/// Whether a network namespace is there.
pub fn exists(netns: &str) -> bool {
    path(netns).exists()
}

/// All network namespaces of a lab: its own and its Pods'.
pub fn all(layout: &Layout) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/run/netns") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
        .filter(|n| layout.owns_netns(n))
        .collect()
}

/// The processes whose network namespace is one of `namespaces`. A process counts by its first thread.
pub fn processes(namespaces: &[String]) -> Vec<Process> {
    let wanted: HashSet<u64> =
        namespaces.iter().filter_map(|netns| Some(fs::metadata(path(netns)).ok()?.ino())).collect();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| fs::metadata(format!("/proc/{pid}/ns/net")).is_ok_and(|ns| wanted.contains(&ns.ino())))
        .filter_map(Process::of)
        .collect()
}

/// The namespaces of the Pods on one node.
pub fn on_node(layout: &Layout, node: NodeIndex) -> Vec<String> {
    let own = format!("{}.", layout.netns());
    let of_node = |netns: &String| {
        netns.strip_prefix(&own).and_then(PodAddress::of_tag).is_some_and(|pod| node.owns(pod))
    };
    all(layout).into_iter().filter(of_node).collect()
}

/// Moves the calling thread, and every process and thread it starts from now on, into a network namespace.
pub fn enter(netns: &str) -> Result<()> {
    let path = path(netns);
    let file =
        File::open(&path).with_context(|| format!("cannot open {}: is the lab up?", path.display()))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .with_context(|| format!("cannot enter the network namespace {netns} (root is needed)"))
}

/// Does something inside a network namespace, on a thread of its own: a socket belongs to the namespace of the thread that
/// made it, wherever it is used.
pub fn inside<T: Send>(netns: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            enter(netns)?;
            work()
        });
        thread.join().map_err(|_| anyhow!("a thread in the network namespace {netns} has panicked"))?
    })
}

/// A command that runs `program` inside a network namespace, as the same process: the child's pid is the program's.
pub fn command(netns: &str, program: &Path) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", path(netns).display())).arg("--").arg(program);
    command
}

/// Makes a lab's own namespace: loopback, a bridge, the nodes' addresses, and no route out.
pub fn create_lab(layout: &Layout, settings: &LabSettings) -> Result<()> {
    let netns = layout.netns();
    ip(&["netns", "add", &netns])?;
    let mut batch = format!(
        "link set lo up\nlink add {BRIDGE} type bridge\naddr add {GATEWAY}/16 dev {BRIDGE}\nlink set {BRIDGE} up\n"
    );
    for node in NodeIndex::first(settings.nodes) {
        batch += &format!("addr add {}/32 dev {BRIDGE}\n", node.address());
    }
    if settings.dual_stack {
        batch += &format!("addr add {GATEWAY_V6}/64 dev {BRIDGE} nodad\n");
    }
    ip_batch(&netns, &batch)?;
    create_services(layout)
}

/// Makes the namespace that all Service addresses belong to: one socket there answers a port of all of them, and takes that
/// port from nobody in the lab's own namespace.
fn create_services(layout: &Layout) -> Result<()> {
    let netns = layout.services_netns();
    ip(&["netns", "add", &netns])?;
    ip_batch(
        &layout.netns(),
        &format!(
            "link add services type veth peer name eth0 netns {netns}\nlink set services master {BRIDGE} up\nroute add \
             {SERVICES} via {SERVICES_GATEWAY}\n"
        ),
    )?;
    ip_batch(
        &netns,
        &format!(
            "link set lo up\naddr add {SERVICES_GATEWAY}/16 dev eth0\nlink set eth0 up\nroute add local {SERVICES} dev lo\n"
        ),
    )
}

/// Makes a Pod's namespace and plugs it into the lab's bridge.
pub fn create_pod(layout: &Layout, pod: PodAddress, dual_stack: bool) -> Result<String> {
    let netns = layout.pod_netns(&pod.tag());
    if exists(&netns) {
        delete(&netns)?;
    }
    ip(&["netns", "add", &netns])?;
    let (link, mac) = (link(pod), pod.mac());
    ip_batch(
        &layout.netns(),
        &format!(
            "link add {link} type veth peer name eth0 address {mac} netns {netns}\nlink set {link} master {BRIDGE} up\n"
        ),
    )?;
    let mut batch = format!(
        "link set lo up\naddr add {pod}/16 dev eth0\nlink set eth0 up\nroute add {SERVICES} via {SERVICES_GATEWAY}\nroute add {BALANCERS} via {GATEWAY}\n\
         rule add fwmark {STAYS} lookup 100\nroute add local default dev lo table 100\n"
    );
    if dual_stack {
        batch += &format!(
            "addr add {}/64 dev eth0 nodad\nroute add {SERVICES_V6} via {GATEWAY_V6} dev eth0\n",
            pod.v6()
        );
    }
    ip_batch(&netns, &batch)?;
    Ok(netns)
}

/// Unplugs a Pod's network cable, or plugs it in again: unplugged, all packets to and from it are lost.
pub fn plug_pod(layout: &Layout, pod: PodAddress, plugged: bool) -> Result<()> {
    let state = if plugged { "up" } else { "down" };
    ip(&["-n", &layout.netns(), "link", "set", &link(pod), state])
}

/// Removes a namespace. Its end of a Pod's cable goes with it, once the last process in it has gone.
pub fn delete(netns: &str) -> Result<()> {
    ip(&["netns", "del", netns])
}

/// Gives the lab's loopback an address, so that what listens in the lab answers on it.
pub fn add_loopback(layout: &Layout, address: &str) -> Result<()> {
    ip(&["-n", &layout.netns(), "addr", "replace", &format!("{address}/32"), "dev", "lo"])
}

/// Takes an address from the lab's loopback.
pub fn remove_loopback(layout: &Layout, address: &str) -> Result<()> {
    ip(&["-n", &layout.netns(), "addr", "del", &format!("{address}/32"), "dev", "lo"])
}

fn link(pod: PodAddress) -> String {
    format!("v{}", pod.tag())
}

fn ip(arguments: &[&str]) -> Result<()> {
    let output =
        Command::new("ip").args(arguments).stdin(Stdio::null()).output().context("cannot run `ip`")?;
    if !output.status.success() {
        bail!("`ip {}`: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

fn ip_batch(netns: &str, batch: &str) -> Result<()> {
    let mut child = Command::new("ip")
        .args(["-n", netns, "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run `ip`")?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(batch.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("`ip -n {netns}`: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
