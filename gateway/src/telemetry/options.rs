//! Settings of the metrics: the flags of the reference and the labels that all series have.

/// Settings of [`Telemetry`](super::Telemetry). [`TelemetryOptions::default`] has the defaults of
/// ingress-nginx.
#[derive(Clone, Debug, PartialEq)]
pub struct TelemetryOptions {
    /// Enables the request metrics (`--enable-metrics`).
    pub enable_metrics: bool,
    /// Adds a `host` label to them (`--metrics-per-host`).
    pub per_host: bool,
    /// Also records requests for hosts without an Ingress (`--metrics-per-undefined-host`).
    pub per_undefined_host: bool,
    /// Reports the `status` label as `2xx` instead of `200` (`--report-status-classes`).
    pub status_classes: bool,
    /// Names of disabled request metrics, with or without prefix (`--exclude-socket-metrics`).
    pub exclude: Vec<String>,
    /// Upper bounds of the duration histograms in seconds (`--time-buckets`).
    pub time_buckets: Vec<f64>,
    /// Upper bounds of the request and response size histograms in bytes (`--length-buckets`).
    pub length_buckets: Vec<f64>,
    /// Upper bounds of the deprecated histogram `bytes_sent` in bytes (`--size-buckets`).
    pub size_buckets: Vec<f64>,
    /// Growth of the buckets of native histograms; off up to 1 (`--bucket-factor`).
    pub bucket_factor: f64,
    /// Buckets that a native histogram uses at most; 0 is no limit (`--max-buckets`).
    pub max_buckets: usize,
    /// The `controller_namespace` label (`POD_NAMESPACE`).
    pub controller_namespace: String,
    /// The `controller_class` label (`--controller-class`).
    pub controller_class: String,
    /// The `controller_pod` label (`POD_NAME`).
    pub controller_pod: String,
    /// The version, for `build_info`.
    pub release: String,
    /// The commit, for `build_info`.
    pub build: String,
    /// The URL of the source repository, for `build_info`.
    pub repository: String,
}

impl Default for TelemetryOptions {
    fn default() -> Self {
        Self {
            enable_metrics: false,
            per_host: true,
            per_undefined_host: false,
            status_classes: false,
            exclude: Vec::new(),
            time_buckets: vec![0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0],
            length_buckets: (1..=10).map(|tens| f64::from(tens) * 10.0).collect(),
            size_buckets: (1..=7).map(|exponent| 10_f64.powi(exponent)).collect(),
            bucket_factor: 0.0,
            max_buckets: 100,
            controller_namespace: String::new(),
            controller_class: "k8s.io/ingress-nginx".to_owned(),
            controller_pod: String::new(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            build: String::new(),
            repository: String::new(),
        }
    }
}
