//! Network namespaces, managed by the `ip` program. A lab's namespace has a bridge and no route
//! out. Each Pod's namespace is connected to that bridge and has routes only to the Pod, Service
//! and load balancer ranges, so that no packet can leave the machine.

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

/// Firewall mark of packets that stay in a Pod's namespace, whatever their destination.
pub const STAYS: u32 = 1;

const BRIDGE: &str = "br0";
const GATEWAY_V6: &str = "fd00:10:244::1";

/// Returns the path of a network namespace managed by `ip`.
pub fn path(netns: &str) -> PathBuf {
    Path::new("/run/netns").join(netns)
}

/// Returns whether a network namespace exists.
pub fn exists(netns: &str) -> bool {
    path(netns).exists()
}

/// Returns all network namespaces of a lab: its own and its Pods'.
pub fn all(layout: &Layout) -> Vec<String> {
    let Ok(entries) = fs::read_dir("/run/netns") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|e| e.file_name().into_string().ok())
        .filter(|n| layout.owns_netns(n))
        .collect()
}

/// Returns the processes in these network namespaces. A process counts by its first thread.
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

/// Returns the namespaces of the Pods on one node.
pub fn on_node(layout: &Layout, node: NodeIndex) -> Vec<String> {
    let own = format!("{}.", layout.netns());
    let of_node = |netns: &String| {
        netns.strip_prefix(&own).and_then(PodAddress::of_tag).is_some_and(|pod| node.owns(pod))
    };
    all(layout).into_iter().filter(of_node).collect()
}

/// Moves the calling thread, and all processes and threads that it starts later, into a network
/// namespace.
pub fn enter(netns: &str) -> Result<()> {
    let path = path(netns);
    let file =
        File::open(&path).with_context(|| format!("cannot open {}: is the lab up?", path.display()))?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .with_context(|| format!("cannot enter the network namespace {netns} (root is needed)"))
}

/// Runs `work` inside a network namespace, on a new thread. A socket belongs to the namespace of
/// the thread that created it, wherever it is used.
pub fn inside<T: Send>(netns: &str, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            enter(netns)?;
            work()
        });
        thread.join().map_err(|_| anyhow!("a thread in the network namespace {netns} has panicked"))?
    })
}

/// Returns a command that runs `program` inside a network namespace in the same process: the
/// child's pid is the program's.
pub fn command(netns: &str, program: &Path) -> Command {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net={}", path(netns).display())).arg("--").arg(program);
    command
}

/// Creates a lab's own namespace with loopback, a bridge and the nodes' addresses, but no route
/// out.
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

/// Creates the namespace to which all Service addresses belong. One socket per port there accepts
/// connections to all of them, without occupying that port in the lab's own namespace.
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

/// Creates a Pod's namespace and connects it to the lab's bridge.
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

/// Disconnects a Pod's network, or connects it again. While disconnected, all packets to and from
/// it are lost.
pub fn plug_pod(layout: &Layout, pod: PodAddress, plugged: bool) -> Result<()> {
    let state = if plugged { "up" } else { "down" };
    ip(&["-n", &layout.netns(), "link", "set", &link(pod), state])
}

/// Removes a namespace. A Pod's link disappears with it, once the last process in it has ended.
pub fn delete(netns: &str) -> Result<()> {
    ip(&["netns", "del", netns])
}

/// Adds an address to the lab's loopback, so that listeners in the lab are reachable at it.
pub fn add_loopback(layout: &Layout, address: &str) -> Result<()> {
    ip(&["-n", &layout.netns(), "addr", "replace", &format!("{address}/32"), "dev", "lo"])
}

/// Removes an address from the lab's loopback.
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
