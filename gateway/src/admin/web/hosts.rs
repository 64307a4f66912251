//! Hosts and rules with their traffic.

use std::cmp::Reverse;
use std::sync::Arc;

use askama::Template;
use sluice_config::{Host, HostPattern, Rule};

use super::listing::{Listing, ROWS, encoded, passes};
use super::{Frame, Input};
use crate::admin::format;
use crate::admin::traffic::Comparison;
use crate::admin::view;
use crate::telemetry::Traffic;

/// Orders of the list: name in the URL, and title.
const ORDERS: [(&str, &str); 4] =
    [("host", "Host"), ("rate", "Requests"), ("errors", "Server errors"), ("p99", "p99")];

#[derive(Template)]
#[template(path = "hosts.html")]
pub(super) struct HostsPage {
    frame: Frame,
    covers: String,
    is_counted: bool,
    order: String,
    only_closed: bool,
    listing: Listing,
    rows: Vec<Row>,
    /// TCP and UDP services: listener and Service.
    streams: Vec<(String, String)>,
}

/// A rule as a line.
struct Row {
    host: String,
    path: String,
    path_type: &'static str,
    /// Where requests go, or the reason why the rule is closed.
    to: String,
    is_closed: bool,
    origin: String,
    requests: String,
    rate: String,
    errors: String,
    p50: String,
    p99: String,
    /// The query of its explanation.
    explain: String,
}

/// A rule with its figures, before it is formatted.
struct Candidate {
    host: Arc<Host>,
    rule: usize,
    traffic: Traffic,
}

impl Candidate {
    fn rule(&self) -> &Rule {
        &self.host.rules[self.rule]
    }

    fn passes(&self, filter: &str) -> bool {
        let rule = self.rule();
        let object = rule.origin.object.to_string();
        let closed = rule.policies.deny.as_ref().map_or("", |deny| &*deny.reason);
        let (host, destination) = (self.host.key.pattern.to_string(), destination(&self.host, rule));
        let texts = [&*host, view::rule(rule).path, &*object, &*destination, closed];
        passes(filter, &texts)
    }
}

pub(super) fn page(input: &Input<'_>, frame: Frame) -> HostsPage {
    let figures = input.recent.read(input.state, frame.uptime());
    let parameters = &input.parameters;
    let (filter, order) = (parameters.filter(), parameters.text("sort"));
    let only_closed = parameters.has("closed");
    let configuration = input.state.configuration.load();
    let candidate = |host: &Arc<Host>, rule: usize| Candidate {
        host: host.clone(),
        rule,
        traffic: figures.of(host, &host.rules[rule]),
    };
    let mut all: Vec<Candidate> = configuration
        .hosts
        .values()
        .flat_map(|host| (0..host.rules.len()).map(move |rule| candidate(host, rule)))
        .filter(|one| !only_closed || one.rule().policies.deny.is_some())
        .filter(|one| one.passes(&filter))
        .collect();
    sort(&mut all, &order, &figures);
    let (listing, shown) = parameters.page(all, &["sort", "closed"]);
    let rows = shown.iter().map(|one| row(one, &figures)).collect();
    let covers = match figures.is_since_start() {
        true => format!("the time since the start, {} ago", format::long(figures.covers())),
        false => format!("the last {}", format::long(figures.covers())),
    };
    HostsPage {
        covers,
        is_counted: figures.is_counted,
        order,
        only_closed,
        listing,
        rows,
        streams: streams(input),
        frame,
    }
}

fn sort(all: &mut [Candidate], order: &str, figures: &Comparison) {
    let by_size = |traffic: &Traffic| Reverse(traffic.requests);
    match order {
        "rate" => all.sort_by_key(|one| by_size(&one.traffic)),
        "errors" => all.sort_by_key(|one| (Reverse(one.traffic.server_errors), by_size(&one.traffic))),
        "p99" => {
            let p99 = |one: &Candidate| {
                // The figures are not negative, so their bits have their order.
                let seconds = one.traffic.quantile(0.99, &figures.bounds).map(|quantile| quantile.at_least());
                Reverse(seconds.map(f64::to_bits))
            };
            all.sort_by_cached_key(p99);
        }
        // The order of the configuration.
        _ => {}
    }
}

fn row(one: &Candidate, figures: &Comparison) -> Row {
    let (rule, traffic) = (one.rule(), &one.traffic);
    let view::RuleView { path_type, path, .. } = view::rule(rule);
    let host = one.host.key.pattern.to_string();
    let closed =
        rule.policies.deny.as_ref().map(|deny| format!("closed with {}: {}", deny.status, deny.reason));
    let is_counted = figures.is_counted;
    let shown = |text: String| if is_counted { text } else { "-".to_owned() };
    Row {
        explain: explanation(&one.host, path),
        host,
        path: path.to_owned(),
        path_type,
        is_closed: closed.is_some(),
        to: closed.unwrap_or_else(|| destination(&one.host, rule)),
        origin: rule.origin.object.to_string(),
        requests: shown(format::count(traffic.requests)),
        rate: shown(format::rate(traffic.requests, figures.covers())),
        errors: shown(format::share(traffic.server_errors, traffic.requests)),
        p50: shown(format::quantile(traffic, 0.5, &figures.bounds)),
        p99: shown(format::quantile(traffic, 0.99, &figures.bounds)),
    }
}

/// Returns the query that explains a request for a rule.
fn explanation(host: &Host, path: &str) -> String {
    let scheme = if host.has_https { "https" } else { "http" };
    let name = match &host.key.pattern {
        HostPattern::Any => "any.example".to_owned(),
        pattern => pattern.to_string().replace('*', "any"),
    };
    format!("?url={}", encoded(&format!("{scheme}://{name}{path}")))
}

/// Describes where a rule sends its requests.
fn destination(host: &Host, rule: &Rule) -> String {
    if let Some(stream) = &host.passthrough {
        return format!("TLS is passed through to {}", stream.service);
    }
    let own = view::rule(rule).destination();
    let canaries = rule.policies.canaries.iter().map(|canary| format!("canary {}", canary.service));
    std::iter::once(own).chain(canaries).collect::<Vec<_>>().join(", ")
}

/// Returns the TCP and UDP services.
fn streams(input: &Input<'_>) -> Vec<(String, String)> {
    let configuration = input.state.configuration.load();
    let streams = configuration.groups.values().filter_map(|group| view::stream(group));
    let row = |host: view::HostView<'_>| Some((host.host, host.stream?.service));
    streams.filter_map(row).take(ROWS).collect()
}

impl HostsPage {
    /// Returns the orders: name, title, and whether it is the selected one.
    fn orders(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        ORDERS.into_iter().map(|(name, title)| (name, title, name == self.order))
    }
}
