//! What the running gateway has, as JSON. Field names are stable: scripts and `sluice routes`, `backends`,
//! `certs` and `problems` rely on them.

use http::StatusCode;
use serde::Serialize;

use super::server::Document;
use super::view;
use crate::state::State;

/// What there is to read.
const PATHS: [&str; 5] = ["/backends", "/certs", "/generation", "/problems", "/routes"];

pub(super) fn answer(state: &State, path: &str) -> Document {
    let configuration = state.configuration.load();
    match path {
        "/" => json(&view::Index { paths: PATHS }),
        "/routes" => json(&configuration.hosts.values().map(|host| view::host(host)).collect::<Vec<_>>()),
        "/backends" => json(&state.registry.describe().iter().map(view::pool).collect::<Vec<_>>()),
        "/certs" => json(&view::certificates(&configuration, &state.tuning.load())),
        "/problems" => json(&state.problems().iter().map(view::problem).collect::<Vec<_>>()),
        "/generation" => json(&view::Generation {
            generation: configuration.generation.0,
            hash: format!("{:016x}", configuration.hash()),
            complete: state.readiness.is_complete(),
            ready: state.readiness.is_ready(),
        }),
        _ => Document::text(StatusCode::NOT_FOUND, format!("see {}\n", PATHS.join(", "))),
    }
}

fn json(value: &impl Serialize) -> Document {
    match serde_json::to_string_pretty(value) {
        Ok(mut body) => {
            body.push('\n');
            Document { status: StatusCode::OK, content_type: "application/json", body }
        }
        Err(error) => Document::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}
