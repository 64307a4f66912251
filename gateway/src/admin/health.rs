//! Readiness, liveness and metrics.

use std::sync::Arc;

use http::{Request, StatusCode, Uri};
use hyper::body::Incoming;
use sluice_config::HostTls;

use super::server::{Document, PageSource, Pages};
use crate::state::State;
use crate::telemetry::{HostCertificate, orphans};

/// The documents for readiness, liveness and metrics. Any host name is accepted, because the
/// kubelet addresses the Pod by IP.
pub(super) struct Health {
    pub(super) state: Arc<State>,
    pub(super) path: String,
}

impl Pages for Health {
    fn refuse(&self, _: &Request<Incoming>) -> Option<Document> {
        None
    }

    fn find(&self, uri: &Uri) -> PageSource {
        let path = uri.path();
        PageSource::Here(match path {
            _ if path == self.path => readiness(&self.state),
            "/livez" => Document::text(StatusCode::OK, "ok\n"),
            "/metrics" => return PageSource::Page("/metrics".into()),
            _ => Document::text(StatusCode::NOT_FOUND, format!("see {}, /livez and /metrics\n", self.path)),
        })
    }

    fn make(&self, _: &str) -> Document {
        metrics(&self.state)
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

/// Returns the page of metrics.
pub(super) fn metrics(state: &State) -> Document {
    let configuration = state.configuration.load();
    let hosts: Vec<(String, _)> = configuration
        .hosts
        .iter()
        .flat_map(|(key, host)| {
            let named = host.tls.iter().flat_map(HostTls::certificates);
            named.filter_map(|id| Some((key.pattern.to_string(), configuration.certificates.get(id)?)))
        })
        .collect();
    let served = hosts.iter().map(|(host, certificate)| HostCertificate { host, certificate });
    let empty = state.registry.empty_sets();
    let orphans = orphans::of(&configuration, |set| empty.contains(set));
    let (health, checked) = (state.registry.health(), state.registry.checked());
    match state.telemetry.render(
        health,
        &checked,
        state.memory_use(),
        state.export_counts(),
        served,
        &orphans,
    ) {
        Ok(body) => Document {
            status: StatusCode::OK,
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            fields: &[],
            body: body.into(),
        },
        Err(error) => Document::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}
