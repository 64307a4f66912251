//! How metrics are kept: what the reference's command line says about them, and the labels every series has.

/// Settings of [`Telemetry`](super::Telemetry). [`Options::default`] is ingress-nginx's default of each flag.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Keep the request metrics (`--enable-metrics`).
    pub enable_metrics: bool,
    /// Give them a `host` label (`--metrics-per-host`).
    pub per_host: bool,
    /// Also record requests for hosts that no Ingress names (`--metrics-per-undefined-host`).
    pub per_undefined_host: bool,
    /// `2xx` in place of `200` in the `status` label (`--report-status-classes`).
    pub status_classes: bool,
    /// Request metrics that are not kept, with or without prefix (`--exclude-socket-metrics`).
    pub exclude: Vec<String>,
    /// Upper bounds of the histograms of seconds (`--time-buckets`).
    pub time_buckets: Vec<f64>,
    /// Upper bounds of the histograms of request and response bytes (`--length-buckets`).
    pub length_buckets: Vec<f64>,
    /// Upper bounds of the deprecated histogram `bytes_sent` (`--size-buckets`).
    pub size_buckets: Vec<f64>,
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
    /// Where the source is, for `build_info`.
    pub repository: String,
}

impl Default for Options {
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
            controller_namespace: String::new(),
            controller_class: "k8s.io/ingress-nginx".to_owned(),
            controller_pod: String::new(),
            release: env!("CARGO_PKG_VERSION").to_owned(),
            build: String::new(),
            repository: String::new(),
        }
    }
}
