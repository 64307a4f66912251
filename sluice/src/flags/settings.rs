//! What the command line amounts to, once parsed: one struct per reader.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use sluice_controller::admission::AdmissionOptions;
use sluice_controller::{DutyOptions, Options};
use sluice_gateway::driver::Driver;

/// Everything that flags can say to `serve` and `check`.
#[derive(Clone, Debug)]
pub(crate) struct ServeFlags {
    /// `--manifests`: the folder the configuration comes from.
    pub(crate) manifests: Option<PathBuf>,
    /// Which cluster the configuration comes from where it is not a folder.
    pub(crate) cluster: ClusterFlags,
    /// The settings of the control plane.
    pub(crate) controller: Options,
    /// What the controller does beside serving.
    pub(crate) duties: DutyOptions,
    /// The validating webhook.
    pub(crate) webhook: WebhookFlags,
    /// The settings of the data plane and its listeners.
    pub(crate) gateway: GatewayFlags,
    /// `--resolv-conf`: how names outside of the cluster are looked up; `None` is the system's way.
    pub(crate) resolv_conf: Option<PathBuf>,
    /// `--v`: klog's verbosity.
    pub(crate) verbosity: i64,
    /// `--version`: print it and end.
    pub(crate) version: bool,
}

/// How to reach a Kubernetes API, and what to do while it is away.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClusterFlags {
    /// `--kubeconfig`.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// `--apiserver-host`.
    pub(crate) apiserver_host: Option<String>,
    /// `--certificate-authority`.
    pub(crate) certificate_authority: Option<PathBuf>,
    /// `--snapshot-file`.
    pub(crate) snapshot_file: Option<PathBuf>,
    /// `--snapshot-max-age`; zero for any age.
    pub(crate) snapshot_max_age: Duration,
}

/// Flags of the validating webhook: none without an address.
#[derive(Clone, Debug, Default)]
pub(crate) struct WebhookFlags {
    /// `--validating-webhook`.
    pub(crate) address: Option<SocketAddr>,
    /// `--validating-webhook-certificate`.
    pub(crate) certificate: Option<PathBuf>,
    /// `--validating-webhook-key`.
    pub(crate) key: Option<PathBuf>,
}

impl WebhookFlags {
    /// Where the webhook is, if there is to be one.
    pub(crate) fn options(&self) -> Option<AdmissionOptions> {
        let (certificate, key) = (self.certificate.clone()?, self.key.clone()?);
        Some(AdmissionOptions { address: self.address?, certificate, key })
    }
}

/// Flags of the data plane that are not part of `GlobalSettings`: they hold for the life of the process.
#[derive(Clone, Debug)]
pub(crate) struct GatewayFlags {
    /// `--healthz-port`: `/healthz`, `/livez` and `/metrics`.
    pub(crate) healthz_port: u16,
    /// `--healthz-host`; `None` is every address.
    pub(crate) healthz_host: Option<IpAddr>,
    /// `--health-check-path`: the readiness URL.
    pub(crate) health_check_path: String,
    /// `--admin-address`: the introspection listener.
    pub(crate) admin_address: SocketAddr,
    /// `--driver`: what carries requests to endpoints.
    pub(crate) driver: Driver,
    /// `--body-temp-path`: where request bodies wait that are too large for memory.
    pub(crate) body_temp_path: Option<PathBuf>,
    /// `--enable-metrics`: request metrics are collected.
    pub(crate) enable_metrics: bool,
    /// `--metrics-per-host`: the `host` label is filled.
    pub(crate) metrics_per_host: bool,
    /// `--metrics-per-undefined-host`: also for hosts that no Ingress names.
    pub(crate) metrics_per_undefined_host: bool,
    /// `--report-status-classes`: `2xx` in place of `200`.
    pub(crate) report_status_classes: bool,
    /// `--exclude-socket-metrics`: names that are not exported.
    pub(crate) exclude_socket_metrics: Vec<String>,
    /// `--time-buckets`, seconds.
    pub(crate) time_buckets: Vec<f64>,
    /// `--length-buckets`, bytes.
    pub(crate) length_buckets: Vec<f64>,
    /// `--size-buckets`, bytes.
    pub(crate) size_buckets: Vec<f64>,
    /// `--shutdown-grace-period`: how long new connections are still taken after SIGTERM.
    pub(crate) shutdown_grace_period: Duration,
    /// `--post-shutdown-grace-period`: how long the process stays after its last request.
    pub(crate) post_shutdown_grace_period: Duration,
    /// Environment variable `POD_NAME`: label `controller_pod` of the metrics.
    pub(crate) pod_name: String,
    /// Environment variable `POD_NAMESPACE`: label `controller_namespace` of the metrics.
    pub(crate) pod_namespace: String,
}

impl ServeFlags {
    /// Empty places for the table to write its defaults into; the defaults themselves are in the table alone.
    pub(super) fn empty() -> Self {
        Self {
            manifests: None,
            cluster: ClusterFlags::default(),
            controller: Options::default(),
            duties: DutyOptions::default(),
            webhook: WebhookFlags::default(),
            gateway: GatewayFlags {
                healthz_port: 0,
                healthz_host: None,
                health_check_path: String::new(),
                admin_address: (Ipv4Addr::UNSPECIFIED, 0).into(),
                driver: Driver::Direct,
                body_temp_path: None,
                enable_metrics: false,
                metrics_per_host: false,
                metrics_per_undefined_host: false,
                report_status_classes: false,
                exclude_socket_metrics: Vec::new(),
                time_buckets: Vec::new(),
                length_buckets: Vec::new(),
                size_buckets: Vec::new(),
                shutdown_grace_period: Duration::ZERO,
                post_shutdown_grace_period: Duration::ZERO,
                pod_name: String::new(),
                pod_namespace: String::new(),
            },
            resolv_conf: None,
            verbosity: 0,
            version: false,
        }
    }
}
