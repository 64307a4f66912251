//! The state of the running gateway as JSON. Field names are stable: scripts and `sluice routes`,
//! `backends`, `certs`, `problems` and `top` depend on them.

use std::sync::Arc;

use http::{Method, Request, StatusCode, Uri};
use hyper::body::Incoming;
use serde::Serialize;

use super::pages::{Document, PageSource, Pages};
use super::purge;
use super::traffic::TrafficSample;
use super::web::{self, Finding, Web};
use super::{explain, health, live, own_names, view};
use crate::state::State;

/// Paths of the documents, apart from [`EXPLAIN`], [`METRICS`], the [streams](live) and the
/// [pages](web).
const PATHS: [&str; 9] = [
    "/backends",
    "/cache",
    "/certs",
    "/changes",
    "/generation",
    "/problems",
    "/routes",
    "/settings",
    "/traffic",
];
/// Path of the page of metrics.
const METRICS: &str = "/metrics";
/// Path of the figures of requests, with `?rules` also of all rules.
const TRAFFIC: &str = "/traffic";
/// Path of the explanation of a request.
const EXPLAIN: &str = "/explain";

/// The documents of the admin listener.
pub(super) struct Introspection {
    state: Arc<State>,
    web: Web,
}

impl Introspection {
    pub(super) fn new(state: Arc<State>) -> Self {
        Self { state, web: Web::default() }
    }
}

impl Pages for Introspection {
    fn refuse(&self, request: &Request<Incoming>) -> Option<Document> {
        own_names::refuse(request.uri(), request.headers())
    }

    fn act(&self, request: &Request<Incoming>) -> Option<Document> {
        let is_purge = request.method() == Method::DELETE && request.uri().path() == purge::PATH;
        is_purge.then(|| purge::purge(&self.state.cache, request.uri().query().unwrap_or_default()))
    }

    fn find(&self, uri: &Uri, _: &http::HeaderMap) -> PageSource {
        let (path, query) = (uri.path(), uri.query().unwrap_or_default());
        match Web::find(path) {
            Some(Finding::Document(document)) => return PageSource::Here(document),
            // Pages and explanations depend on the query.
            Some(Finding::Page) => return PageSource::Page(format!("{path}?{query}").into()),
            None if path == live::TAP || path == live::TRACE_NEXT => {
                return match live::open(&self.state, path, query) {
                    Ok(lines) => PageSource::Lines(lines),
                    Err(refusal) => PageSource::Here(refusal),
                };
            }
            None if [EXPLAIN, METRICS, TRAFFIC].contains(&path) => {
                return PageSource::Page(format!("{path}?{query}").into());
            }
            None => {}
        }
        let page = PATHS.into_iter().chain(["/"]).find(|page| *page == path);
        let missing = || {
            let said = format!("see {} for people, or {}\n", web::ROOT, PATHS.join(", "));
            Document::text(StatusCode::NOT_FOUND, said)
        };
        page.map_or_else(|| PageSource::Here(missing()), |page| PageSource::Page(page.into()))
    }

    fn make(&self, page: &str) -> Document {
        match page.split_once('?') {
            Some((EXPLAIN, query)) => match explain::explain(&self.state, query) {
                Ok(explanation) => json(&explanation),
                Err(said) => Document::text(StatusCode::BAD_REQUEST, format!("{said}\n")),
            },
            Some((METRICS, _)) => health::metrics(&self.state, health::MetricsFormat::Text),
            Some((TRAFFIC, query)) => json(&TrafficSample::read(&self.state, query == "rules")),
            Some((path, query)) => self.web.make(&self.state, path, query),
            None => answer(&self.state, page),
        }
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
        purge::PATH => json(&state.cache.usage()),
        "/certs" => json(&view::certificates(&configuration, &state.settings())),
        "/problems" => json(&state.problems.all().iter().map(|problem| problem.view()).collect::<Vec<_>>()),
        "/generation" => {
            let status = state.telemetry.status();
            json(&view::GenerationView {
                generation: configuration.generation.0,
                hash: format!("{:016x}", configuration.hash()),
                complete: state.readiness.is_complete(),
                ready: state.readiness.is_ready(),
                replica: status.replica(),
                version: status.release,
            })
        }
        "/settings" => json(&view::settings(state)),
        "/changes" => json(&view::changes(state)),
        // `find` only leads here with the index.
        _ => json(&view::Index { paths: PATHS, page: web::ROOT }),
    }
}

fn json(value: &impl Serialize) -> Document {
    match serde_json::to_string_pretty(value) {
        Ok(mut body) => {
            body.push('\n');
            Document {
                status: StatusCode::OK,
                content_type: "application/json",
                fields: &[],
                body: body.into(),
            }
        }
        Err(error) => Document::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}
