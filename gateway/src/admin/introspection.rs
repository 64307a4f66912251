//! The state of the running gateway as JSON. Field names are stable: scripts and `sluice routes`,
//! `backends`, `certs` and `problems` depend on them.

use std::sync::Arc;

use http::{Request, StatusCode, Uri};
use hyper::body::Incoming;
use serde::Serialize;

use super::server::{Document, PageSource, Pages};
use super::{explain, own_names, view};
use crate::state::State;

/// Paths of the documents, apart from [`EXPLAIN`].
const PATHS: [&str; 5] = ["/backends", "/certs", "/generation", "/problems", "/routes"];
/// Path of the explanation of a request.
const EXPLAIN: &str = "/explain";

/// The documents of the introspection listener.
pub(super) struct Introspection(pub(super) Arc<State>);

impl Pages for Introspection {
    fn refuse(&self, request: &Request<Incoming>) -> Option<Document> {
        own_names::refuse(request.uri(), request.headers())
    }

    fn find(&self, uri: &Uri) -> PageSource {
        let path = uri.path();
        if path == EXPLAIN {
            return PageSource::Here(match explain::explain(&self.0, uri.query().unwrap_or_default()) {
                Ok(explanation) => json(&explanation),
                Err(said) => Document::text(StatusCode::BAD_REQUEST, format!("{said}\n")),
            });
        }
        let page = PATHS.into_iter().chain(["/"]).find(|page| *page == path);
        let missing = || Document::text(StatusCode::NOT_FOUND, format!("see {}\n", PATHS.join(", ")));
        page.map_or_else(|| PageSource::Here(missing()), PageSource::Page)
    }

    fn make(&self, page: &'static str) -> Document {
        answer(&self.0, page)
    }
}

fn answer(state: &State, path: &str) -> Document {
    let configuration = state.configuration.load();
    match path {
        "/routes" => {
            let hosts = configuration.hosts.values().map(|host| view::host(host));
            let streams = configuration.groups.values().filter_map(|group| view::stream(group));
            json(&hosts.chain(streams).collect::<Vec<_>>())
        }
        "/backends" => json(&state.registry.describe().iter().map(view::pool).collect::<Vec<_>>()),
        "/certs" => json(&view::certificates(&configuration, &state.settings())),
        "/problems" => json(&state.problems.all().iter().map(|problem| problem.view()).collect::<Vec<_>>()),
        "/generation" => json(&view::Generation {
            generation: configuration.generation.0,
            hash: format!("{:016x}", configuration.hash()),
            complete: state.readiness.is_complete(),
            ready: state.readiness.is_ready(),
        }),
        // `find` only leads here with the index.
        _ => json(&view::Index { paths: PATHS }),
    }
}

fn json(value: &impl Serialize) -> Document {
    match serde_json::to_string_pretty(value) {
        Ok(mut body) => {
            body.push('\n');
            Document { status: StatusCode::OK, content_type: "application/json", body: body.into() }
        }
        Err(error) => Document::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}
