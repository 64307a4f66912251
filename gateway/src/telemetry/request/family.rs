//! The request metrics with the names of the reference, and their buckets.

use prometheus::core::{Collector, Desc, Describer};
use prometheus::{Histogram, HistogramOpts};

use super::histogram::Bounds;
use super::native::NativeBuckets;
use crate::telemetry::error::TelemetryError;
use crate::telemetry::options::TelemetryOptions;

/// Labels whose values differ between requests or targets; `host` is added with `per_host`.
const LABELS: [&str; 7] = ["status", "method", "path", "namespace", "ingress", "service", "canary"];

/// A request metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Requests,
    Connect,
    Header,
    Response,
    Request,
    RequestSize,
    ResponseSize,
    BytesSent,
}

/// The enabled metrics and the bounds of their histograms.
#[derive(Debug)]
pub(super) struct Families {
    /// The metrics with their descriptors for the registry.
    pub(super) kept: Vec<(Family, Desc)>,
    /// Bounds of all durations.
    pub(super) times: Bounds,
    /// Bounds of `request_size` and `response_size`.
    pub(super) lengths: Bounds,
    /// Bounds of `bytes_sent`.
    pub(super) sizes: Bounds,
    /// Buckets of the native histograms of durations, if they are on.
    pub(super) native: Option<NativeBuckets>,
}

impl Family {
    const ALL: [Self; 8] = [
        Self::Requests,
        Self::Connect,
        Self::Header,
        Self::Response,
        Self::Request,
        Self::RequestSize,
        Self::ResponseSize,
        Self::BytesSent,
    ];

    /// Returns the reference's name without its prefix, and the help text.
    fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Requests => ("requests", "Client requests."),
            Self::Connect => {
                ("connect_duration_seconds", "Seconds until the connection to the endpoint was established.")
            }
            Self::Header => {
                ("header_duration_seconds", "Seconds until the endpoint had sent the head of its response.")
            }
            Self::Response => (
                "response_duration_seconds",
                "Seconds until the endpoint had sent its response, or the attempt failed.",
            ),
            Self::Request => {
                ("request_duration_seconds", "Seconds from the request to the end of the response.")
            }
            Self::RequestSize => ("request_size", "Bytes of the request, head and body."),
            Self::ResponseSize => ("response_size", "Bytes of the response, head and body."),
            Self::BytesSent => ("bytes_sent", "Bytes sent to the client; use response_size."),
        }
    }

    fn is_wanted(self, options: &TelemetryOptions) -> bool {
        let (name, _) = self.name();
        let excluded = |text: &String| text.strip_prefix("nginx_ingress_controller_").unwrap_or(text) == name;
        !options.exclude.iter().any(excluded)
    }
}

impl Families {
    pub(super) fn new(options: &TelemetryOptions) -> Result<Self, TelemetryError> {
        let mut labels = LABELS.map(str::to_owned).to_vec();
        if options.per_host {
            labels.push("host".to_owned());
        }
        let mut kept = Vec::new();
        for family in Family::ALL.into_iter().filter(|family| family.is_wanted(options)) {
            let (name, help) = family.name();
            let opts = crate::telemetry::reference_opts(options, name, help).variable_labels(labels.clone());
            kept.push((family, opts.describe()?));
        }
        Ok(Self {
            kept,
            times: bounds(&options.time_buckets)?,
            lengths: bounds(&options.length_buckets)?,
            sizes: bounds(&options.size_buckets)?,
            native: NativeBuckets::new(options.bucket_factor, options.max_buckets),
        })
    }
}

/// Validates the bounds with the library: ascending, without the infinite one, the library's
/// default if empty.
fn bounds(buckets: &[f64]) -> Result<Bounds, TelemetryError> {
    let opts = HistogramOpts::new("bounds", "Of no metric.").buckets(buckets.to_vec());
    let families = Histogram::with_opts(opts)?.collect();
    let metrics = families.iter().flat_map(|family| family.get_metric());
    let buckets = metrics.flat_map(|metric| metric.get_histogram().get_bucket());
    Ok(Bounds::new(buckets.map(|bucket| bucket.upper_bound()).collect()))
}
