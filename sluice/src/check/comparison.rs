//! Comparison of the old controller with the new one, and its differences grouped by cause.
//!
//! The old controller's responses come from its access log, or from the running controller. Two
//! differences have one cause if the same things differ and the same rule and check decide.

use std::collections::BTreeMap;

use super::effective::{EffectiveResponse, ResponseKind};
use super::http_client::{NoResponse, ResponseHead};
use super::requests::{CheckedRequest, LoggedAnswerer, RecordedResponse};

/// Maximum number of examples of a cause.
const EXAMPLES: usize = 5;

/// One thing that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Difference {
    /// The thing: `status`, `Location`, a field, or `backend`.
    pub(super) what: String,
    pub(super) old: String,
    pub(super) new: String,
}

/// Result of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Both responses are equal.
    Same,
    /// They differ in these things.
    Different(Vec<Difference>),
    /// They cannot be compared, for this reason.
    NotCompared(String),
}

/// Differences with one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DifferenceGroup {
    /// What differs, such as `status 200 became 404`.
    pub(super) title: String,
    /// The rule and check that decide in the new controller.
    pub(super) cause: String,
    /// The Ingress of the rule, as `Ingress namespace/name`.
    pub(super) object: Option<String>,
    /// Number of distinct requests.
    pub(super) distinct: usize,
    /// Number of requests, with their frequency in the log.
    pub(super) requests: u64,
    /// URLs with their differences.
    pub(super) examples: Vec<(String, Vec<Difference>)>,
}

/// Compares an effective response with the log of the old controller.
pub(super) fn with_record(recorded: &RecordedResponse, effective: &EffectiveResponse) -> Verdict {
    use LoggedAnswerer::{Controller, Endpoint, Unknown};
    let RecordedResponse { status, answerer, location, credentials } = recorded;
    let new = || effective.summary();
    let forwards = matches!(effective.kind, ResponseKind::Backend | ResponseKind::PassedThrough);
    let backend =
        |old: String| Verdict::Different(vec![Difference { what: "backend".to_owned(), old, new: new() }]);
    let status_differs = || {
        Verdict::Different(vec![Difference {
            what: "status".to_owned(),
            old: status.to_string(),
            new: new(),
        }])
    };
    if *answerer != Controller
        && forwards
        && let (Some(old), Some(new)) = (location, &effective.main_backend)
        && old != new
    {
        return backend(format!("backend {old}"));
    }
    match (answerer, forwards) {
        _ if *credentials && effective.status == Some(401) => {
            Verdict::NotCompared("the request had a password, which the log does not contain".to_owned())
        }
        // The controller would give its own status, whatever answered before.
        (Unknown, false) if effective.status.is_some_and(|new| new != *status) => status_differs(),
        (Unknown, _) => Verdict::NotCompared(
            "the log does not say which Service answered; add $proxy_upstream_name and $upstream_addr to log-format-upstream"
                .to_owned(),
        ),
        (Endpoint(_), true) => Verdict::Same,
        (Endpoint(Some(upstream)), false) => backend(format!("backend {upstream} ({status})")),
        (Endpoint(None), false) => backend(format!("an endpoint ({status})")),
        (Controller, true) if !effective.explanation.conditions.is_empty() => Verdict::NotCompared(format!(
            "the old controller answered itself, and the new one does too if a check refuses ({})",
            effective.explanation.conditions.join("; ")
        )),
        (Controller, true) if *status == 503 => {
            Verdict::NotCompared("the Service had no endpoints at the time of the log (503)".to_owned())
        }
        (Controller, true) => backend(format!("{status} by the controller itself")),
        (Controller, false) if effective.status == Some(*status) => Verdict::Same,
        (Controller, false) => status_differs(),
    }
}

/// Compares two responses.
pub(super) fn of_responses(
    old: &Result<ResponseHead, NoResponse>,
    new: &Result<ResponseHead, NoResponse>,
    fields: &[String],
) -> Verdict {
    let (old, new) = match (old, new) {
        (Ok(old), Ok(new)) => (old, new),
        (old, new) => {
            let words = |side: &Result<ResponseHead, NoResponse>| match side {
                Ok(head) => format!("status {}", head.status),
                Err(error) => error.to_string(),
            };
            let difference = Difference { what: "response".to_owned(), old: words(old), new: words(new) };
            return Verdict::Different(vec![difference]);
        }
    };
    let mut differences = Vec::new();
    if old.status != new.status {
        let (old, new) = (old.status.to_string(), new.status.to_string());
        differences.push(Difference { what: "status".to_owned(), old, new });
    }
    for name in std::iter::once("location").chain(fields.iter().map(String::as_str)) {
        let (before, after) = (old.field(name), new.field(name));
        if before != after {
            let shown = |value: Option<String>| value.unwrap_or_else(|| "absent".to_owned());
            differences.push(Difference { what: name.to_owned(), old: shown(before), new: shown(after) });
        }
    }
    if differences.is_empty() { Verdict::Same } else { Verdict::Different(differences) }
}

/// Groups differences by cause. The most frequent comes first.
pub(super) fn groups<'r>(
    different: impl Iterator<Item = (&'r CheckedRequest, u64, &'r EffectiveResponse, &'r [Difference])>,
) -> Vec<DifferenceGroup> {
    let mut groups: BTreeMap<(String, String), DifferenceGroup> = BTreeMap::new();
    for (request, count, effective, differences) in different {
        let title = differences.iter().map(title).collect::<Vec<_>>().join(", ");
        let cause = effective.reason();
        let group = groups.entry((title.clone(), cause.clone())).or_insert_with(|| DifferenceGroup {
            title,
            cause,
            object: effective.explanation.object.clone(),
            distinct: 0,
            requests: 0,
            examples: Vec::new(),
        });
        group.distinct += 1;
        group.requests += count;
        if group.examples.len() < EXAMPLES {
            group.examples.push((format!("{} {}", request.method, request.url()), differences.to_vec()));
        }
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by(|one, other| other.requests.cmp(&one.requests).then_with(|| one.title.cmp(&other.title)));
    groups
}

/// Describes a difference without what varies between requests of one cause.
fn title(Difference { what, old, new }: &Difference) -> String {
    match what.as_str() {
        "status" => format!("status {old} became {}", new.split(" to ").next().unwrap_or(new)),
        "backend" => format!("{old} became {}", new.split(" to ").next().unwrap_or(new)),
        "response" => format!("{old} became {new}"),
        "location" => format!("Location differs{}", location_part(old, new)),
        field => format!("{field} differs"),
    }
}

/// Names the first part of two URLs that differs.
fn location_part(old: &str, new: &str) -> &'static str {
    match (old, new) {
        ("absent", _) => ": only the new controller redirects",
        (_, "absent") => ": only the old controller redirects",
        _ => {
            let parts = |url: &str| {
                let url: Option<http::Uri> = url.parse().ok();
                url.map(|url| (url.scheme_str().map(str::to_owned), url.authority().map(ToString::to_string)))
            };
            match (parts(old), parts(new)) {
                (Some((one, _)), Some((other, _))) if one != other => " in its scheme",
                (Some((_, one)), Some((_, other))) if one != other => " in its host",
                _ => " in its path",
            }
        }
    }
}

#[cfg(test)]
mod tests;
