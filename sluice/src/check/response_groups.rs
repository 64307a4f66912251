//! Groups of equal responses: one line of the report for all requests that one rule answers alike.

use std::collections::BTreeMap;

use super::effective::ResponseKind;
use super::responses::{CheckedResponse, Responses};

/// Responses of one kind, by one rule, for one reason.
#[derive(Debug)]
pub(super) struct ResponseGroup<'r> {
    pub(super) kind: ResponseKind,
    pub(super) status: Option<u16>,
    pub(super) backend: Option<&'r str>,
    /// The rule, and the check that decides.
    pub(super) reason: String,
    /// Checks that depend on what the requests do not show.
    pub(super) conditions: &'r [String],
    /// Names of the rule's policies.
    pub(super) policies: &'r [String],
    /// Number of requests.
    pub(super) requests: u64,
    /// The most frequent first.
    pub(super) responses: Vec<&'r CheckedResponse>,
}

impl ResponseGroup<'_> {
    /// Describes the response in a few words; the target of a redirect only if there is one.
    pub(super) fn summary(&self) -> String {
        let mut words = vec![self.kind.name().to_owned()];
        words.extend(self.status.map(|status| status.to_string()));
        words.extend(self.backend.map(str::to_owned));
        let mut locations =
            self.responses.iter().filter_map(|response| response.effective.location.as_deref());
        if let Some(first) = locations.next() {
            let same = locations.all(|location| location == first);
            words.push(if same { format!("to {first}") } else { "to a location of each request".to_owned() });
        }
        words.join(" ")
    }
}

/// Groups the responses. The kinds have a fixed order; within one, frequent groups come first.
pub(super) fn response_groups(responses: &Responses) -> Vec<ResponseGroup<'_>> {
    let mut groups: BTreeMap<_, ResponseGroup<'_>> = BTreeMap::new();
    for response in &responses.responses {
        let effective = &response.effective;
        let (kind, status, backend) = (effective.kind, effective.status, effective.backend.as_deref());
        let (reason, conditions) = (effective.reason(), &effective.explanation.conditions[..]);
        let group = groups.entry((kind, reason.clone(), backend, status, conditions)).or_insert_with(|| {
            ResponseGroup {
                kind,
                status,
                backend,
                reason,
                conditions,
                policies: &effective.explanation.policies,
                requests: 0,
                responses: Vec::new(),
            }
        });
        group.requests += response.count;
        group.responses.push(response);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    for group in &mut groups {
        group.responses.sort_by_key(|response| std::cmp::Reverse(response.count));
    }
    groups.sort_by_key(|group| (group.kind, std::cmp::Reverse(group.requests)));
    groups
}
