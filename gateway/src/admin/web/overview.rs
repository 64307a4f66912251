//! The start page: whether the replica is well, in a few figures.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use askama::Template;
use sluice_config::Severity;

use super::{Frame, Input};
use crate::admin::format;
use crate::registry::HealthCounts;
use crate::telemetry::MemoryUse;

/// Certificates that expire sooner are warned about.
pub(super) const SOON: Duration = Duration::from_secs(14 * 86_400);

#[derive(Template)]
#[template(path = "overview.html")]
pub(super) struct OverviewPage {
    frame: Frame,
    state: ReadinessNote,
    covers: String,
    numbers: Vec<Number>,
    facts: Vec<(&'static str, String)>,
}

/// Whether requests are served.
struct ReadinessNote {
    class: &'static str,
    text: &'static str,
}

/// A figure with its name.
struct Number {
    name: &'static str,
    value: String,
    /// A second line; empty for none.
    note: String,
    /// `error`, `warning`, or nothing.
    class: &'static str,
}

impl Number {
    fn new(name: &'static str, value: String, note: impl Into<String>) -> Self {
        Self { name, value, note: note.into(), class: "" }
    }

    fn with_class(self, class: &'static str) -> Self {
        Self { class, ..self }
    }
}

pub(super) fn page(input: &Input<'_>, frame: Frame) -> OverviewPage {
    let figures = input.recent.read(input.state, frame.uptime());
    let covers = match figures.is_since_start() {
        true => format!("Rates and durations since the start, {} ago.", format::long(figures.covers())),
        false => format!("Rates and durations of the last {}.", format::long(figures.covers())),
    };
    let mut numbers = vec![Number::new(
        "Requests per second",
        format::rate(figures.requests(), figures.covers()),
        format!("{} since the start", format::count(frame.status.requests)),
    )];
    if figures.is_counted {
        let whole = figures.whole();
        let errors = Number::new(
            "Server errors",
            format::share(whole.server_errors, whole.requests),
            format!("client errors {}", format::share(whole.client_errors, whole.requests)),
        );
        numbers.push(errors.with_class(if whole.server_errors > 0 { "error" } else { "" }));
        numbers.push(Number::new(
            "Duration p50",
            format::quantile(&whole, 0.5, &figures.bounds),
            format!("p99 {}", format::quantile(&whole, 0.99, &figures.bounds)),
        ));
    }
    numbers.push(connections(&frame));
    numbers.extend(problems(input));
    numbers.push(endpoints(input));
    numbers.push(memory(input.state.memory_use()));
    let status = &frame.status;
    numbers.push(Number::new(
        "Resident memory",
        format::bytes(status.resident),
        format!(
            "{} of {} file descriptors",
            format::count(status.descriptors),
            format::count(status.descriptor_limit)
        ),
    ));
    numbers.extend(next_expiry(input));
    let facts = facts(input, &frame);
    OverviewPage { state: state(input), covers, numbers, facts, frame }
}

fn state(input: &Input<'_>) -> ReadinessNote {
    let readiness = &input.state.readiness;
    let (class, text) = match () {
        () if readiness.is_ready() => ("good", "Ready: requests are served."),
        () if readiness.is_draining() => ("warning", "Shutting down: running requests finish."),
        () if readiness.is_complete() => ("error", "Not ready: not all listeners are bound."),
        () => ("error", "Not ready: the first complete configuration has not been read."),
    };
    ReadinessNote { class, text }
}

fn connections(frame: &Frame) -> Number {
    let status = &frame.status;
    let note = format!(
        "{} requests in progress, {} accepted, {} refused",
        status.in_progress,
        format::count(status.accepted),
        format::count(status.refused)
    );
    let class = if status.refused > 0 { "warning" } else { "" };
    Number::new("Client connections", status.connections.to_string(), note).with_class(class)
}

fn problems(input: &Input<'_>) -> [Number; 1] {
    let problems = input.state.problems.all();
    let of = |severity| problems.iter().filter(|problem| problem.severity == severity).count();
    let (errors, warnings) = (of(Severity::Error), of(Severity::Warning));
    let class = match (errors, warnings) {
        (0, 0) => "good",
        (0, _) => "warning",
        _ => "error",
    };
    [Number::new("Errors in objects", errors.to_string(), format!("{warnings} warnings")).with_class(class)]
}

fn endpoints(input: &Input<'_>) -> Number {
    let HealthCounts { healthy, ejected, failing } = input.state.registry.health();
    let class = if ejected + failing > 0 { "warning" } else { "" };
    let note = format!("{ejected} ejected, {failing} fail checks");
    Number::new("Healthy endpoints", format::count(healthy as u64), note).with_class(class)
}

fn memory(memory: MemoryUse) -> Number {
    let MemoryUse { taken, limit, waits, refusals, cache: _ } = memory;
    let note = format!("of {}; {waits} waits, {refusals} refusals", format::bytes(limit as u64));
    let class = if refusals > 0 { "warning" } else { "" };
    Number::new("Memory for bodies", format::bytes(taken as u64), note).with_class(class)
}

/// The certificate in use that expires first.
fn next_expiry(input: &Input<'_>) -> Option<Number> {
    let configuration = input.state.configuration.load();
    let settings = input.state.settings();
    let default = settings.default_certificate.as_ref();
    let of_hosts = configuration.served_certificates(default).map(|(_, certificate)| certificate);
    let used = of_hosts.chain(default.and_then(|id| configuration.certificates.get(id)));
    let first = used.min_by_key(|certificate| certificate.facts.not_after)?;
    let (class, text) = expires_in(first.facts.not_after);
    Some(Number::new("Next certificate expires", text, first.id.to_string()).with_class(class))
}

/// Returns the class of an expiry, and the time until then.
pub(super) fn expires_in(not_after: i64) -> (&'static str, String) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let end = Duration::from_secs(u64::try_from(not_after).unwrap_or(0));
    match end.checked_sub(now) {
        None => ("error", "expired".to_owned()),
        Some(left) if left < SOON => ("warning", format!("in {}", format::long(left))),
        Some(left) => ("", format!("in {} d", left.as_secs() / 86_400)),
    }
}

fn facts(input: &Input<'_>, frame: &Frame) -> Vec<(&'static str, String)> {
    let status = &frame.status;
    let configuration = input.state.configuration.load();
    let rules: usize = configuration.hosts.values().map(|host| host.rules.len()).sum();
    let mut facts = vec![
        ("Running for", format::long(frame.uptime())),
        (
            "Configuration",
            format!(
                "generation {}, {} hosts, {} rules, {} certificates",
                configuration.generation.0,
                configuration.hosts.len(),
                rules,
                configuration.certificates.len()
            ),
        ),
    ];
    if let Some(change) = input.state.changes.last() {
        let text = format!(
            "{}, in effect {} after {} of applying",
            format::moment(change.at),
            format::ago(change.at),
            format::took(change.took)
        );
        facts.push(("Last change", text));
    }
    let source = match &status.source {
        None => "a folder of manifests".to_owned(),
        Some(contact) if contact.last_answer == 0 => {
            "the Kubernetes API, which has not answered yet".to_owned()
        }
        Some(contact) => {
            let last = UNIX_EPOCH + Duration::from_secs(u64::try_from(contact.last_answer).unwrap_or(0));
            let away = match contact.away {
                Duration::ZERO => String::new(),
                away => format!("; it has not answered for {}", format::long(away)),
            };
            format!("the Kubernetes API, last answer {}{away}", format::ago(last))
        }
    };
    facts.push(("Source", source));
    facts.push(("Leader", leader(&status.elections)));
    facts.push(("Retries", format!("{} attempts after the first", format::count(status.retries))));
    facts
}

/// Describes the elections. The holder of a Lease is unknown to a replica that does not hold it.
fn leader(elections: &[(String, bool)]) -> String {
    if elections.is_empty() {
        return "no election: this replica writes to the cluster, if any does".to_owned();
    }
    let election = |(name, leads): &(String, bool)| match leads {
        true => format!("this replica holds {name}"),
        false => format!("this replica does not hold {name}"),
    };
    elections.iter().map(election).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_without_the_lease_does_not_claim_that_another_holds_it() {
        let election = |leads| leader(&[("sluice-leader".to_owned(), leads)]);
        assert_eq!(election(false), "this replica does not hold sluice-leader");
        assert_eq!(election(true), "this replica holds sluice-leader");
    }
}
