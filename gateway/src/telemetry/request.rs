//! The reference's request metrics, without formatting a label while a request runs.
//!
//! All labels but method and status are known when a route is compiled. What a route records into
//! ([`TargetMeters`]) therefore keeps the series of each (method, status) it has seen in a small sorted list
//! that is replaced as a whole when it grows: to record is one search and a few atomic additions.
//!
//! Routes with equal labels share one `TargetMeters`, a new version of a route takes over the one of the old
//! version, and when the last is dropped its series go with it. So a counter survives every change of its
//! Ingress but its end. There are two for every route, most of which never see a request: so they share the
//! texts of the configuration, and their list is the empty one of all until there is something in it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::Method;
use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry};

use super::error::TelemetryError;
use super::options::Options;

/// Hosts without an Ingress that get series of their own; more are put together under `_`, because the
/// names come from clients.
const UNDEFINED_HOSTS: usize = 1000;

/// All request metrics.
pub struct RequestMeters {
    vectors: Vectors,
    per_host: bool,
    per_undefined_host: bool,
    status_classes: bool,
    targets: Mutex<Targets>,
    no_cells: Arc<Cells>,
    undefined: ArcSwap<HashMap<String, Arc<TargetMeters>>>,
}

type Targets = HashMap<Arc<TargetLabels>, Weak<TargetMeters>>;

struct Vectors {
    requests: Option<IntCounterVec>,
    connect: Option<HistogramVec>,
    header: Option<HistogramVec>,
    response: Option<HistogramVec>,
    request: Option<HistogramVec>,
    request_size: Option<HistogramVec>,
    response_size: Option<HistogramVec>,
    bytes_sent: Option<HistogramVec>,
}

/// The labels of a target that a request does not decide.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TargetLabels {
    /// The host as the Ingress has it.
    pub host: Arc<str>,
    /// The path as the Ingress has it.
    pub path: Arc<str>,
    /// Namespace of the Ingress.
    pub namespace: Arc<str>,
    /// Name of the Ingress.
    pub ingress: Arc<str>,
    /// Name of the Service.
    pub service: Arc<str>,
}

/// What requests to one target are recorded into.
pub struct TargetMeters {
    meters: Arc<RequestMeters>,
    labels: Arc<TargetLabels>,
    cells: ArcSwap<Cells>,
}

/// Sorted by cell.
type Cells = Vec<(Cell, Arc<Series>)>;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    method: u8,
    status: u16,
}

struct Series {
    requests: Option<IntCounter>,
    request: Option<Histogram>,
    request_size: Option<Histogram>,
    response_size: Option<Histogram>,
    bytes_sent: Option<Histogram>,
    /// Made with the first request that had an endpoint.
    upstream: OnceLock<UpstreamSeries>,
}

struct UpstreamSeries {
    connect: Option<Histogram>,
    header: Option<Histogram>,
    response: Option<Histogram>,
}

/// What is recorded of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// From the choice of the endpoint to a standing connection.
    pub connect: Option<Duration>,
    /// From the choice of the endpoint to the head of its response.
    pub header: Option<Duration>,
    /// From the choice of the endpoint to the end of its response.
    pub response: Option<Duration>,
    /// From the request's head to the end.
    pub request: Duration,
    /// Octets of the request.
    pub request_size: u64,
    /// Octets sent to the client.
    pub bytes_sent: u64,
}

/// The methods that have a label value of their own (RFC 9110 §9, RFC 5789, RFC 4918 for nginx's LOCK); all
/// others share the last, because a client can make up as many as it likes.
const METHODS: [&str; 17] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "COPY",
    "LOCK",
    "MKCOL",
    "MOVE",
    "PROPFIND",
    "PROPPATCH",
    "UNLOCK",
    "OTHER",
];

impl RequestMeters {
    /// Registers the metrics. Fails on buckets that do not rise and on two metrics of one name.
    pub fn new(options: &Options, registry: &Registry) -> Result<Arc<Self>, TelemetryError> {
        Ok(Arc::new(Self {
            vectors: Vectors::new(options, registry)?,
            per_host: options.per_host,
            per_undefined_host: options.per_undefined_host,
            status_classes: options.status_classes,
            targets: Mutex::default(),
            no_cells: Arc::default(),
            undefined: ArcSwap::default(),
        }))
    }

    /// The meters of a target, shared by all that have its labels.
    pub fn target(self: &Arc<Self>, mut labels: TargetLabels) -> Arc<TargetMeters> {
        if !self.per_host {
            labels.host = Arc::default();
        }
        let mut targets = self.lock();
        if let Some(target) = targets.get(&labels).and_then(Weak::upgrade) {
            return target;
        }
        let labels = Arc::new(labels);
        let cells = ArcSwap::new(self.no_cells.clone());
        let target = Arc::new(TargetMeters { meters: self.clone(), labels: labels.clone(), cells });
        targets.insert(labels, Arc::downgrade(&target));
        target
    }

    /// The meters of a host that no Ingress names; `None` unless they are asked for.
    pub fn undefined_host(self: &Arc<Self>, host: &str) -> Option<Arc<TargetMeters>> {
        if !(self.per_undefined_host && self.per_host) {
            return None;
        }
        let known = self.undefined.load();
        let host = if known.contains_key(host) || known.len() < UNDEFINED_HOSTS { host } else { "_" };
        if let Some(target) = known.get(host) {
            return Some(target.clone());
        }
        let target = self.target(TargetLabels { host: host.into(), ..TargetLabels::default() });
        self.undefined.rcu(|known| {
            let mut known = HashMap::clone(known);
            known.insert(host.to_owned(), target.clone());
            known
        });
        Some(target)
    }

    fn lock(&self) -> MutexGuard<'_, Targets> {
        // The map is whole after every statement: a panic elsewhere leaves nothing half done.
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The label values of a series, in the order of [`Vectors::new`].
    fn values<'a>(&self, labels: &'a TargetLabels, cell: Cell, status: &'a mut String) -> Vec<&'a str> {
        *status = match self.status_classes {
            true => format!("{}xx", cell.status / 100),
            false => cell.status.to_string(),
        };
        let method = METHODS[usize::from(cell.method)];
        let TargetLabels { host, path, namespace, ingress, service } = labels;
        let mut values = vec![status.as_str(), method, path, namespace, ingress, service, ""];
        if self.per_host {
            values.push(host);
        }
        values
    }
}

impl TargetMeters {
    /// Records a request that has ended.
    pub fn record(&self, method: &Method, status: u16, sample: &Sample) {
        let method = METHODS.iter().position(|known| *known == method.as_str());
        let method = method.unwrap_or(METHODS.len() - 1) as u8;
        let status = if self.meters.status_classes { status / 100 * 100 } else { status };
        let cell = Cell { method, status };
        let cells = self.cells.load();
        let upstream = || self.with_values(cell, |vectors, values| vectors.upstream_series(values));
        match cells.binary_search_by_key(&cell, |(cell, _)| *cell) {
            Ok(at) => cells[at].1.record(sample, upstream),
            Err(_) => self.add(cell).record(sample, upstream),
        }
    }

    fn with_values<T>(&self, cell: Cell, make: impl FnOnce(&Vectors, &[&str]) -> T) -> T {
        let mut status = String::new();
        make(&self.meters.vectors, &self.meters.values(&self.labels, cell, &mut status))
    }

    fn add(&self, cell: Cell) -> Arc<Series> {
        let series = Arc::new(self.with_values(cell, |vectors, values| vectors.series(values)));
        self.cells.rcu(|cells| match cells.binary_search_by_key(&cell, |(cell, _)| *cell) {
            Ok(_) => cells.clone(),
            Err(at) => {
                let mut more = Vec::with_capacity(cells.len() + 1);
                more.extend_from_slice(&cells[..at]);
                more.push((cell, series.clone()));
                more.extend_from_slice(&cells[at..]);
                Arc::new(more)
            }
        });
        series
    }
}

impl Drop for TargetMeters {
    fn drop(&mut self) {
        let mut targets = self.meters.lock();
        // A successor with the same labels may have been made since the last reference went.
        if targets.get(&self.labels).is_some_and(|target| target.strong_count() > 0) {
            return;
        }
        targets.remove(&self.labels);
        for (cell, _) in self.cells.load().iter() {
            self.with_values(*cell, |vectors, values| vectors.remove(values));
        }
    }
}

impl Series {
    fn record(&self, sample: &Sample, upstream: impl FnOnce() -> UpstreamSeries) {
        let observe = |histogram: &Option<Histogram>, value: Option<f64>| {
            if let (Some(histogram), Some(value)) = (histogram, value) {
                histogram.observe(value);
            }
        };
        if let Some(requests) = &self.requests {
            requests.inc();
        }
        if sample.connect.or(sample.header).or(sample.response).is_some() {
            let upstream = self.upstream.get_or_init(upstream);
            observe(&upstream.connect, sample.connect.map(|time| time.as_secs_f64()));
            observe(&upstream.header, sample.header.map(|time| time.as_secs_f64()));
            observe(&upstream.response, sample.response.map(|time| time.as_secs_f64()));
        }
        observe(&self.request, Some(sample.request.as_secs_f64()));
        observe(&self.request_size, Some(sample.request_size as f64));
        observe(&self.response_size, Some(sample.bytes_sent as f64));
        observe(&self.bytes_sent, Some(sample.bytes_sent as f64));
    }
}

impl Vectors {
    fn new(options: &Options, registry: &Registry) -> Result<Self, TelemetryError> {
        let mut labels = vec!["status", "method", "path", "namespace", "ingress", "service", "canary"];
        if options.per_host {
            labels.push("host");
        }
        let wanted = |name: &str| {
            !options.exclude.iter().any(|excluded| {
                excluded.strip_prefix("nginx_ingress_controller_").unwrap_or(excluded) == name
            })
        };
        let histogram = |name: &str, help: &str, buckets: &[f64]| {
            if !wanted(name) {
                return Ok(None);
            }
            let opts = HistogramOpts::from(super::reference_opts(options, name, help));
            let vector = HistogramVec::new(opts.buckets(buckets.to_vec()), &labels)?;
            registry.register(Box::new(vector.clone()))?;
            Ok::<_, TelemetryError>(Some(vector))
        };
        let counter = |name: &str, help: &str| {
            if !wanted(name) {
                return Ok(None);
            }
            let opts: Opts = super::reference_opts(options, name, help);
            let vector = IntCounterVec::new(opts, &labels)?;
            registry.register(Box::new(vector.clone()))?;
            Ok::<_, TelemetryError>(Some(vector))
        };
        let (time, length, size) = (&options.time_buckets, &options.length_buckets, &options.size_buckets);
        Ok(Self {
            requests: counter("requests", "Client requests.")?,
            connect: histogram(
                "connect_duration_seconds",
                "Seconds until the connection to the endpoint stood.",
                time,
            )?,
            header: histogram(
                "header_duration_seconds",
                "Seconds until the endpoint had sent the head of its response.",
                time,
            )?,
            response: histogram(
                "response_duration_seconds",
                "Seconds until the endpoint had sent its response.",
                time,
            )?,
            request: histogram(
                "request_duration_seconds",
                "Seconds from the request to the end of the response.",
                time,
            )?,
            request_size: histogram("request_size", "Octets of the request, head and body.", length)?,
            response_size: histogram("response_size", "Octets of the response, head and body.", length)?,
            bytes_sent: histogram("bytes_sent", "Octets sent to the client; use response_size.", size)?,
        })
    }

    fn series(&self, values: &[&str]) -> Series {
        Series {
            requests: self.requests.as_ref().map(|vector| vector.with_label_values(values)),
            request: histogram(&self.request, values),
            request_size: histogram(&self.request_size, values),
            response_size: histogram(&self.response_size, values),
            bytes_sent: histogram(&self.bytes_sent, values),
            upstream: OnceLock::new(),
        }
    }

    fn upstream_series(&self, values: &[&str]) -> UpstreamSeries {
        UpstreamSeries {
            connect: histogram(&self.connect, values),
            header: histogram(&self.header, values),
            response: histogram(&self.response, values),
        }
    }

    fn remove(&self, values: &[&str]) {
        // A series that is gone already needs no removing: that is the only error there is.
        if let Some(requests) = &self.requests {
            let _ = requests.remove_label_values(values);
        }
        let histograms = [
            &self.connect,
            &self.header,
            &self.response,
            &self.request,
            &self.request_size,
            &self.response_size,
            &self.bytes_sent,
        ];
        for histogram in histograms.into_iter().flatten() {
            let _ = histogram.remove_label_values(values);
        }
    }
}

fn histogram(vector: &Option<HistogramVec>, values: &[&str]) -> Option<Histogram> {
    vector.as_ref().map(|vector| vector.with_label_values(values))
}

impl std::fmt::Debug for RequestMeters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RequestMeters").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for TargetMeters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TargetMeters").field("labels", &self.labels).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    fn meters(change: impl FnOnce(&mut Options)) -> (Registry, Arc<RequestMeters>) {
        let mut options =
            Options { controller_namespace: "ns".into(), controller_pod: "pod".into(), ..Options::default() };
        change(&mut options);
        let registry = Registry::new();
        let meters = RequestMeters::new(&options, &registry).unwrap();
        (registry, meters)
    }

    fn labels(host: &str) -> TargetLabels {
        TargetLabels {
            host: host.into(),
            path: "/cart".into(),
            namespace: "shop".into(),
            ingress: "web".into(),
            service: "cart".into(),
        }
    }

    fn text(registry: &Registry) -> String {
        TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
    }

    #[test]
    fn a_request_is_recorded_with_all_labels() {
        let (registry, meters) = meters(|_| ());
        let sample = Sample { request: Duration::from_millis(7), bytes_sent: 120, ..Sample::default() };
        meters.target(labels("a.example")).record(&Method::GET, 200, &sample);
        let target = meters.target(labels("a.example"));
        target.record(&Method::GET, 200, &sample);
        let text = text(&registry);
        let tail = "canary=\"\",controller_class=\"k8s.io/ingress-nginx\",controller_namespace=\"ns\",\
                    controller_pod=\"pod\",host=\"a.example\",ingress=\"web\",method=\"GET\",\
                    namespace=\"shop\",path=\"/cart\",service=\"cart\",status=\"200\"";
        // The first target was dropped with its series before the second was made.
        assert!(text.contains(&format!("nginx_ingress_controller_requests{{{tail}}} 1\n")), "{text}");
        assert!(
            text.contains(&format!(
                "nginx_ingress_controller_request_duration_seconds_bucket{{{tail},le=\"0.01\"}} 1"
            )),
            "{text}"
        );
        assert!(!text.contains("connect_duration_seconds_count{"), "no endpoint, yet a sample: {text}");
    }

    #[test]
    fn a_counter_survives_until_the_last_target_with_its_labels_is_gone() {
        let (registry, meters) = meters(|_| ());
        let old = meters.target(labels("a.example"));
        let other = meters.target(labels("b.example"));
        old.record(&Method::GET, 200, &Sample::default());
        other.record(&Method::GET, 200, &Sample::default());
        let new = meters.target(labels("a.example"));
        drop(old);
        new.record(&Method::GET, 200, &Sample::default());
        assert!(text(&registry).lines().any(|line| line.contains("a.example") && line.ends_with(" 2")));
        drop(new);
        let text = text(&registry);
        assert!(!text.contains("a.example"), "{text}");
        assert!(text.contains("b.example"), "{text}");
    }

    #[test]
    fn made_up_methods_share_a_label_value() {
        let (registry, meters) = meters(|options| options.status_classes = true);
        let target = meters.target(labels("a.example"));
        for method in ["BREW", "WHEN", "get"] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            target.record(&method, 418, &Sample::default());
        }
        let text = text(&registry);
        let line = text.lines().find(|line| line.starts_with("nginx_ingress_controller_requests{")).unwrap();
        assert!(line.contains("method=\"OTHER\"") && line.contains("status=\"4xx\"") && line.ends_with(" 3"));
    }

    #[test]
    fn excluded_metrics_and_the_host_label_can_be_left_out() {
        let (registry, meters) = meters(|options| {
            options.per_host = false;
            options.exclude = vec!["nginx_ingress_controller_bytes_sent".into(), "request_size".into()];
        });
        let target = meters.target(labels("a.example"));
        target.record(&Method::GET, 200, &Sample::default());
        let text = text(&registry);
        assert!(!text.contains("host=") && !text.contains("bytes_sent") && !text.contains("request_size"));
        assert!(text.contains("response_size"));
    }

    #[test]
    fn undefined_hosts_are_recorded_when_asked_for_and_bounded() {
        let (_, silent) = meters(|_| ());
        assert!(silent.undefined_host("x.example").is_none());
        let (registry, meters) = meters(|options| options.per_undefined_host = true);
        for number in 0..UNDEFINED_HOSTS + 10 {
            let target = meters.undefined_host(&format!("h{number}.example")).unwrap();
            target.record(&Method::GET, 404, &Sample::default());
        }
        let text = text(&registry);
        assert!(text.contains("host=\"h0.example\"") && !text.contains("host=\"h1005.example\""));
        let line = text.lines().find(|line| {
            line.starts_with("nginx_ingress_controller_requests{") && line.contains("host=\"_\"")
        });
        assert!(line.unwrap().ends_with(" 10"));
    }
}
