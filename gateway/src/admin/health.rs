//! Readiness, liveness and metrics.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, HeaderMap};
use http::{Request, StatusCode, Uri};
use hyper::body::Incoming;

use super::pages::{Document, PageSource, Pages};
use crate::state::State;
use crate::telemetry::{HostCertificate, orphans, protobuf};

/// Names of the pages of metrics.
const TEXT: &str = "/metrics";
const PROTOBUF: &str = "/metrics in protobuf";

/// The label of names that no host has, as in ingress-nginx.
const NO_HOST: &str = "_";

/// The documents for readiness, liveness and metrics. Any host name is accepted, because the
/// kubelet addresses the Pod by IP.
pub(super) struct HealthPages {
    pub(super) state: Arc<State>,
}

impl Pages for HealthPages {
    fn refuse(&self, _: &Request<Incoming>) -> Option<Document> {
        None
    }

    fn find(&self, uri: &Uri, fields: &HeaderMap) -> PageSource {
        let path = uri.path();
        PageSource::Here(match path {
            _ if path == self.state.health_path() => readiness(&self.state),
            "/livez" => Document::text(StatusCode::OK, "ok\n"),
            "/metrics" => {
                let accept = fields.get(ACCEPT).and_then(|accept| accept.to_str().ok());
                let page = if accept.is_some_and(protobuf::is_accepted) { PROTOBUF } else { TEXT };
                return PageSource::Page(page.into());
            }
            _ => {
                let health = self.state.health_path();
                Document::text(StatusCode::NOT_FOUND, format!("see {health}, /livez and /metrics\n"))
            }
        })
    }

    fn make(&self, page: &str) -> Document {
        let format = if page == PROTOBUF { MetricsFormat::Protobuf } else { MetricsFormat::Text };
        metrics(&self.state, format)
    }
}

/// Returns 500 instead of 503, like the reference: probes and alerts expect it.
fn readiness(state: &State) -> Document {
    let readiness = &state.readiness;
    if readiness.is_ready() {
        return Document::text(StatusCode::OK, "ok\n");
    }
    let reason = if readiness.is_draining() {
        "shutting down\n"
    } else if readiness.is_complete() {
        "not all listeners are bound\n"
    } else {
        "waiting for the first complete configuration\n"
    };
    Document::text(StatusCode::INTERNAL_SERVER_ERROR, reason)
}

/// A format of the page of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MetricsFormat {
    /// Prometheus' text format.
    Text,
    /// Prometheus' protobuf format.
    Protobuf,
}

/// Returns the page of metrics.
pub(super) fn metrics(state: &State, format: MetricsFormat) -> Document {
    let configuration = state.configuration.load();
    let settings = state.settings();
    let default = settings.default_certificate.as_ref();
    let hosts: Vec<(String, _)> = configuration
        .served_certificates(default)
        .map(|(key, certificate)| (key.pattern.to_string(), certificate))
        // The default certificate also serves all other names.
        .chain(default.and_then(|id| Some((NO_HOST.to_owned(), configuration.certificates.get(id)?))))
        .collect();
    let served = hosts.iter().map(|(host, certificate)| HostCertificate { host, certificate });
    let empty = state.registry.empty_sets();
    let orphans = orphans::of(&configuration, |set| empty.contains(set));
    let (health, checked) = (state.registry.health(), state.registry.checked());
    let families =
        state.telemetry.gather(health, &checked, state.memory_use(), state.export_counts(), served, &orphans);
    let body = families.and_then(|families| match format {
        MetricsFormat::Text => state.telemetry.text(&families).map(Bytes::from),
        MetricsFormat::Protobuf => Ok(state.telemetry.protobuf(&families).into()),
    });
    match body {
        Ok(body) => Document {
            status: StatusCode::OK,
            content_type: match format {
                MetricsFormat::Text => "text/plain; version=0.0.4; charset=utf-8",
                MetricsFormat::Protobuf => protobuf::CONTENT_TYPE,
            },
            fields: &[],
            body,
        },
        Err(error) => Document::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}
