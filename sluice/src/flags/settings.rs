//! The values of all flags, one struct per consumer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use sluice_controller::admission::AdmissionOptions;
use sluice_controller::{DutyOptions, Options};
use sluice_gateway::state::setting_values::SettingValue;
use sluice_gateway::worker::engine_choice::EngineChoice;

/// The flags of `serve` and `check`.
#[derive(Clone, Debug)]
pub(crate) struct ServeFlags {
    /// `--manifests`: the folder that contains the configuration.
    pub(crate) manifests: Option<PathBuf>,
    /// The cluster that contains the configuration if there is no folder.
    pub(crate) cluster: ClusterFlags,
    /// Settings of the control plane.
    pub(crate) controller: Options,
    /// Settings of the controller's duties: status, Events, leader election.
    pub(crate) duties: DutyOptions,
    /// Settings of the validating webhook.
    pub(crate) webhook: WebhookFlags,
    /// Settings of the data plane and its listeners.
    pub(crate) gateway: GatewayFlags,
    /// GeoIP2 databases.
    pub(crate) geoip: GeoipFlags,
    /// `--resolv-conf`: DNS configuration for names outside the cluster; `None` is that of the
    /// system.
    pub(crate) resolv_conf: Option<PathBuf>,
    /// `--v`: the verbosity of klog.
    pub(crate) verbosity: i64,
    /// `--version`: print the version and exit.
    pub(crate) version: bool,
    /// All flags with their values as text, without secrets.
    pub(crate) values: Vec<SettingValue>,
}

/// The connection to the Kubernetes API, and the behaviour while it is unreachable.
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
    /// `--snapshot-max-age`; zero stands for no limit.
    pub(crate) snapshot_max_age: Duration,
}

/// Flags of GeoIP2 databases.
#[derive(Clone, Debug, Default)]
pub(crate) struct GeoipFlags {
    /// `--geoip-path`: their folder; `None` reads none.
    pub(crate) path: Option<PathBuf>,
    /// `--maxmind-edition-ids`.
    pub(crate) editions: Vec<String>,
    /// `--maxmind-license-key`; a secret. Empty for no download from MaxMind.
    pub(crate) license_key: String,
    /// `--maxmind-mirror`; empty for none.
    pub(crate) mirror: String,
    /// `--maxmind-retries-count`.
    pub(crate) retries_count: i64,
    /// `--maxmind-retries-timeout`.
    pub(crate) retries_timeout: Duration,
}

/// Flags of the validating webhook, which is off without an address.
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
    /// Returns the options of the webhook, if it is enabled.
    pub(crate) fn options(&self) -> Option<AdmissionOptions> {
        let (certificate, key) = (self.certificate.clone()?, self.key.clone()?);
        Some(AdmissionOptions { address: self.address?, certificate, key })
    }
}

/// Flags of the data plane that are not part of `GlobalSettings`: they cannot change at run time.
#[derive(Clone, Debug)]
pub(crate) struct GatewayFlags {
    /// `--healthz-port`: port of `/healthz`, `/livez` and `/metrics`.
    pub(crate) healthz_port: u16,
    /// `--healthz-host`; `None` stands for all addresses.
    pub(crate) healthz_host: Option<IpAddr>,
    /// `--health-check-path`: path of the readiness check.
    pub(crate) health_check_path: String,
    /// `--admin-address`: address of the admin listener.
    pub(crate) admin_address: SocketAddr,
    /// `--driver`: the engine that forwards requests to endpoints.
    pub(crate) engine: EngineChoice,
    /// `--body-temp-path`: folder for request bodies that are too large for memory.
    pub(crate) body_temp_path: Option<PathBuf>,
    /// `--cache-path`: folder for bodies of stored responses; `None` stores them in memory only.
    pub(crate) cache_path: Option<PathBuf>,
    /// `--waf-timeout`: time limit for each decision of the web application firewall.
    pub(crate) waf_timeout: Duration,
    /// `--enable-metrics`: collect request metrics.
    pub(crate) enable_metrics: bool,
    /// `--metrics-per-host`: set the `host` label.
    pub(crate) metrics_per_host: bool,
    /// `--metrics-per-undefined-host`: also for hosts without an Ingress.
    pub(crate) metrics_per_undefined_host: bool,
    /// `--report-status-classes`: report `2xx` instead of `200`.
    pub(crate) report_status_classes: bool,
    /// `--exclude-socket-metrics`: names of metrics that are not exported.
    pub(crate) exclude_socket_metrics: Vec<String>,
    /// `--time-buckets` in seconds.
    pub(crate) time_buckets: Vec<f64>,
    /// `--bucket-factor`: growth of the buckets of native histograms.
    pub(crate) bucket_factor: f64,
    /// `--max-buckets`: buckets that a native histogram uses at most.
    pub(crate) max_buckets: i64,
    /// `--length-buckets` in bytes.
    pub(crate) length_buckets: Vec<f64>,
    /// `--size-buckets` in bytes.
    pub(crate) size_buckets: Vec<f64>,
    /// `--shutdown-grace-period`: how long new connections are accepted after SIGTERM.
    pub(crate) shutdown_grace_period: Duration,
    /// `--post-shutdown-grace-period`: how long the process remains after its last request.
    pub(crate) post_shutdown_grace_period: Duration,
    /// Environment variable `POD_NAME`: label `controller_pod` of the metrics.
    pub(crate) pod_name: String,
    /// Environment variable `POD_NAMESPACE`: label `controller_namespace` of the metrics.
    pub(crate) pod_namespace: String,
}

impl ServeFlags {
    /// Returns empty flags to be filled with the defaults, which are defined only in the table.
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
                engine: EngineChoice::Direct,
                body_temp_path: None,
                cache_path: None,
                waf_timeout: Duration::ZERO,
                enable_metrics: false,
                metrics_per_host: false,
                metrics_per_undefined_host: false,
                report_status_classes: false,
                exclude_socket_metrics: Vec::new(),
                time_buckets: Vec::new(),
                bucket_factor: 0.0,
                max_buckets: 0,
                length_buckets: Vec::new(),
                size_buckets: Vec::new(),
                shutdown_grace_period: Duration::ZERO,
                post_shutdown_grace_period: Duration::ZERO,
                pod_name: String::new(),
                pod_namespace: String::new(),
            },
            geoip: GeoipFlags::default(),
            resolv_conf: None,
            verbosity: 0,
            version: false,
            values: Vec::new(),
        }
    }
}
