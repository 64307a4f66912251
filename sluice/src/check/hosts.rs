//! Hosts of requests from an access log without hosts, such as one in ingress-nginx's default
//! format: the host whose rule leads the logged path to the logged Service.

use std::collections::{BTreeMap, HashMap};

use sluice_config::{Action, Backend, Host, HostPattern, Snapshot};

use super::rehearsal::Rehearsal;
use super::requests::{CheckedRequest, LoggedAnswerer, Requests};

/// Maximum number of hosts that are tried for a request.
const CANDIDATES: usize = 50;
/// Statuses of redirects from http to https.
const REDIRECTS: [u16; 4] = [301, 302, 307, 308];

/// Completes the requests without a host. Returns the number of those that more than one host
/// could have received.
pub(super) fn complete(requests: &mut Requests, snapshot: &Snapshot, rehearsal: &Rehearsal) -> u64 {
    if requests.distinct.iter().all(|(request, _)| !request.authority.is_empty()) {
        return 0;
    }
    let candidates = candidates(snapshot);
    let mut known = HashMap::new();
    let mut ambiguous = 0;
    for (mut request, count) in std::mem::take(&mut requests.distinct) {
        if !request.authority.is_empty() {
            requests.distinct.push((request, count));
            continue;
        }
        let service = request.recorded.as_ref().and_then(|recorded| recorded.location.clone());
        let service = service.unwrap_or_default();
        let hosts = candidates.get(&service).map(Vec::as_slice).unwrap_or_default();
        let key = (service, request.target.clone());
        let found = known.entry(key).or_insert_with_key(|(service, _)| {
            let mut leading =
                hosts.iter().take(CANDIDATES).filter(|host| leads(&request, host, service, rehearsal));
            leading.next().map(|host| (host, leading.next().is_some()))
        });
        match found {
            Some((host, several)) => {
                ambiguous += if *several { count } else { 0 };
                let redirected = request.recorded.as_ref().is_some_and(|recorded| {
                    !matches!(recorded.answerer, LoggedAnswerer::Endpoint(_)) && REDIRECTS.contains(&recorded.status)
                });
                request.authority.clone_from(&host.name);
                request.https = host.https && !redirected;
                requests.distinct.push((request, count));
            }
            None => requests.skip(
                "requests of an unknown host: the log has none, and no rule leads the path to the logged Service; add $host to \
                 log-format-upstream",
                || request.target.clone(),
            ),
        }
    }
    ambiguous
}

/// A host that forwards to a Service. Hosts without https come first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct CandidateHost {
    https: bool,
    name: String,
}

/// Returns the hosts that forward to each Service.
fn candidates(snapshot: &Snapshot) -> BTreeMap<String, Vec<CandidateHost>> {
    let mut candidates: BTreeMap<String, Vec<CandidateHost>> = BTreeMap::new();
    let mut hosts: Vec<_> = snapshot
        .hosts
        .values()
        .map(|host| (CandidateHost { https: host.has_https, name: name(&host.key.pattern) }, host))
        .collect();
    // In a fixed order, because the first host that fits is used.
    hosts.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (candidate, host) in hosts {
        for service in services(host) {
            let hosts = candidates.entry(service).or_default();
            if hosts.last() != Some(&candidate) {
                hosts.push(candidate.clone());
            }
        }
    }
    candidates
}

fn services(host: &Host) -> impl Iterator<Item = String> + '_ {
    host.rules
        .iter()
        .flat_map(|rule| match &rule.action {
            Action::Forward(backends) => &backends[..],
            Action::Redirect(_) | Action::RedirectToHost(_) | Action::Answer(_) => &[],
        })
        .filter_map(|weighted| match &weighted.backend {
            Backend::Pool { service, .. } => Some(service.to_string()),
            Backend::Invalid { service, .. } => service.as_ref().map(ToString::to_string),
            Backend::Default => None,
        })
}

/// Returns a name that matches the pattern.
fn name(pattern: &HostPattern) -> String {
    match pattern {
        HostPattern::Exact(name) => name.to_string(),
        HostPattern::OneLabel(name) | HostPattern::Suffix(name) => format!("any.{name}"),
        // No name is known that matches the expression: the log has to name it.
        HostPattern::Regex(_) | HostPattern::Any => "any.invalid".to_owned(),
    }
}

/// Returns whether the router leads the request to the Service, if it is for this host.
fn leads(request: &CheckedRequest, host: &CandidateHost, service: &str, rehearsal: &Rehearsal) -> bool {
    let request = CheckedRequest { authority: host.name.clone(), https: host.https, ..request.clone() };
    rehearsal.explain(&request).services.iter().any(|name| name == service)
}
