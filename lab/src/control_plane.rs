//! Start of etcd, the API server, the controllers and the scheduler.
//!
//! Left out on purpose: the node lifecycle controller, which on a busy machine would remove all
//! endpoints of a healthy node; leader election; and all controllers that need a cloud or a disk.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::addresses::{API_PORT, ETCD_PORT, GATEWAY, SERVICES, SERVICES_V6};
use crate::layout::{LabSettings, Layout};
use crate::network;
use crate::process::{self, Process};
use crate::programs::{Unit, find};

/// The role of etcd's process.
pub const ETCD: &str = "etcd";
/// The role of the API server's process.
pub const API: &str = "kube-apiserver";
/// The role of the controllers' process.
pub const CONTROLLERS: &str = "kube-controller-manager";
/// The role of the scheduler's process.
pub const SCHEDULER: &str = "kube-scheduler";

const CONTROLLERS_RUN: [&str; 21] = [
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "root-ca-certificate-publisher-controller",
    "namespace-controller",
    "garbage-collector-controller",
    "pod-garbage-collector-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "deployment-controller",
    "replicaset-controller",
    "daemonset-controller",
    "statefulset-controller",
    "job-controller",
    "cronjob-controller",
    "disruption-controller",
    "horizontal-pod-autoscaler-controller",
    "resourcequota-controller",
    "service-cidr-controller",
    "validatingadmissionpolicy-status-controller",
    "clusterrole-aggregation-controller",
];

/// Options of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiOptions {
    /// Whether watches may start with a list (`sendInitialEvents`), which older servers refuse.
    pub streaming_lists: bool,
}

impl Default for ApiOptions {
    fn default() -> Self {
        Self { streaming_lists: true }
    }
}

/// Starts etcd.
pub fn start_etcd(layout: &Layout) -> Result<Process> {
    let (client, peer) = (format!("http://127.0.0.1:{ETCD_PORT}"), "http://127.0.0.1:2380");
    let mut command = network::command(&layout.netns(), &find(Unit::Etcd, "etcd")?);
    flag(&mut command, "name", "lab");
    flag(&mut command, "data-dir", layout.etcd().display());
    flag(&mut command, "listen-client-urls", &client);
    flag(&mut command, "advertise-client-urls", &client);
    flag(&mut command, "listen-peer-urls", peer);
    flag(&mut command, "initial-advertise-peer-urls", peer);
    flag(&mut command, "initial-cluster", format_args!("lab={peer}"));
    // A lab does not survive the machine, so no data must reach the disk.
    command.arg("--unsafe-no-fsync");
    flag(&mut command, "log-level", "warn");
    process::start(layout, ETCD, &mut command)
}

/// Starts the API server.
pub fn start_api(layout: &Layout, settings: &LabSettings, options: ApiOptions) -> Result<Process> {
    let mut command = network::command(&layout.netns(), &find(Unit::Kubernetes, API)?);
    let pki = |file: &str| layout.pki(file);
    flag(&mut command, "etcd-servers", format_args!("http://127.0.0.1:{ETCD_PORT}"));
    flag(&mut command, "advertise-address", GATEWAY);
    flag(&mut command, "bind-address", "0.0.0.0");
    flag(&mut command, "secure-port", API_PORT);
    flag(&mut command, "service-cluster-ip-range", services(settings));
    flag(&mut command, "allow-privileged", true);
    flag_path(&mut command, "client-ca-file", &pki("ca.crt"));
    flag_path(&mut command, "tls-cert-file", &pki("apiserver.crt"));
    flag_path(&mut command, "tls-private-key-file", &pki("apiserver.key"));
    flag(&mut command, "service-account-issuer", "https://kubernetes.default.svc.cluster.local");
    flag_path(&mut command, "service-account-key-file", &pki("tokens.pub"));
    flag_path(&mut command, "service-account-signing-key-file", &pki("tokens.key"));
    flag(&mut command, "authorization-mode", "Node,RBAC");
    flag(&mut command, "enable-admission-plugins", "NodeRestriction");
    flag(&mut command, "disable-admission-plugins", "TaintNodesByCondition");
    flag_path(&mut command, "kubelet-client-certificate", &pki("kubelet-client.crt"));
    flag_path(&mut command, "kubelet-client-key", &pki("kubelet-client.key"));
    flag_path(&mut command, "kubelet-certificate-authority", &pki("ca.crt"));
    flag(&mut command, "kubelet-preferred-address-types", "InternalIP");
    // The API server then connects to webhooks at the Pod address instead of the Service address.
    flag(&mut command, "enable-aggregator-routing", true);
    if !options.streaming_lists {
        flag(&mut command, "feature-gates", "WatchList=false");
    }
    process::start(layout, API, &mut command)
}

/// Starts the controllers and the scheduler. Must be called once the API server is ready:
/// controllers that start earlier exit, because the roles that they check do not exist yet.
pub fn start_controllers(layout: &Layout, settings: &LabSettings) -> Result<()> {
    let mut command = network::command(&layout.netns(), &find(Unit::Kubernetes, CONTROLLERS)?);
    flag_path(&mut command, "kubeconfig", &layout.kubeconfig("admin"));
    flag(&mut command, "bind-address", "127.0.0.1");
    flag(&mut command, "leader-elect", false);
    flag(&mut command, "use-service-account-credentials", false);
    flag_path(&mut command, "root-ca-file", &layout.pki("ca.crt"));
    flag_path(&mut command, "service-account-private-key-file", &layout.pki("tokens.key"));
    flag(&mut command, "allocate-node-cidrs", false);
    flag(&mut command, "service-cluster-ip-range", services(settings));
    flag(&mut command, "kube-api-qps", 100);
    flag(&mut command, "kube-api-burst", 200);
    flag(&mut command, "controllers", CONTROLLERS_RUN.join(","));
    process::start(layout, CONTROLLERS, &mut command)?;

    let mut command = network::command(&layout.netns(), &find(Unit::Kubernetes, SCHEDULER)?);
    let kubeconfig = layout.kubeconfig("scheduler");
    flag_path(&mut command, "kubeconfig", &kubeconfig);
    flag_path(&mut command, "authentication-kubeconfig", &kubeconfig);
    flag_path(&mut command, "authorization-kubeconfig", &kubeconfig);
    flag(&mut command, "bind-address", "127.0.0.1");
    flag(&mut command, "leader-elect", false);
    process::start(layout, SCHEDULER, &mut command)?;
    Ok(())
}

fn services(settings: &LabSettings) -> String {
    if settings.dual_stack { format!("{SERVICES},{SERVICES_V6}") } else { SERVICES.to_owned() }
}

fn flag(command: &mut Command, name: &str, value: impl std::fmt::Display) {
    command.arg(format!("--{name}={value}"));
}

fn flag_path(command: &mut Command, name: &str, value: &Path) {
    flag(command, name, value.display());
}
