//! Readiness, liveness and metrics.

use http::StatusCode;
use sluice_config::HostTls;

use super::server::Document;
use crate::state::State;
use crate::telemetry::ServedCertificate;

pub(super) fn answer(state: &State, health_path: &str, path: &str) -> Document {
    match path {
        _ if path == health_path => readiness(state),
        "/livez" => Document::text(StatusCode::OK, "ok\n"),
        "/metrics" => metrics(state),
        _ => Document::text(StatusCode::NOT_FOUND, format!("see {health_path}, /livez and /metrics\n")),
    }
}

/// 500 rather than 503, as the reference has it: probes and alerts know it.
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

fn metrics(state: &State) -> Document {
    let configuration = state.configuration.load();
    let hosts: Vec<(String, _)> = configuration
        .hosts
        .iter()
        .filter_map(|(key, host)| match &host.tls {
            Some(HostTls { certificate: Some(id) }) => {
                Some((key.pattern.to_string(), configuration.certificates.get(id)?))
            }
            _ => None,
        })
        .collect();
    let served = hosts.iter().map(|(host, certificate)| ServedCertificate { host, certificate });
    match state.telemetry.render(state.registry.health(), served) {
        Ok(body) => Document {
            status: StatusCode::OK,
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            body,
        },
        Err(error) => Document::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}
