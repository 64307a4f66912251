//! The responses to requests, for a terminal.

use std::fmt::{self, Display, Formatter};

use sluice_config::text::one_line;
use sluice_config::{ObjectRef, Problem};

use super::plural;
use crate::check::response_groups::{ResponseGroup, response_groups};
use crate::check::responses::{Comparison, Responses};

/// Maximum number of groups listed.
const GROUPS: usize = 60;
/// Maximum number of URLs listed per group.
const URLS: usize = 3;
/// Maximum length of a URL or value from elsewhere in bytes.
const LENGTH: usize = 300;

/// The numbers of requests, of kinds of responses, and of differences.
pub(in super::super) struct CountedResponses<'r>(pub(in super::super) &'r Responses);

impl Display for CountedResponses<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Responses { responses, skipped, ambiguous, comparison } = self.0;
        let requests: u64 = responses.iter().map(|response| response.count).sum();
        let kinds: Vec<_> =
            self.0.kinds().iter().map(|(kind, count)| format!("{count} {}", kind.name())).collect();
        write!(f, "responses: {}: {}", counted(requests, responses.len()), kinds.join(", "))?;
        for (reason, skipped) in skipped {
            let first = one_line(&skipped.first, LENGTH);
            write!(f, "\nnot checked: {reason}: {}; the first is {first}", skipped.count)?;
        }
        if *ambiguous > 0 {
            write!(
                f,
                "\nthe log has no host, and several fit {ambiguous} requests; the first was used: add $host to \
                 log-format-upstream for certainty"
            )?;
        }
        if let Some(Comparison { old, new, same, different, not_compared, .. }) = comparison {
            write!(f, "\ncompared: {old} with {new}: {same} the same, {different} different")?;
            for (reason, count) in not_compared {
                write!(f, "\nnot compared: {reason}: {count}")?;
            }
        }
        writeln!(f)
    }
}

/// The differences by cause, then the responses by rule.
pub(super) struct ShownResponses<'r>(pub(super) &'r Responses, pub(super) &'r [Problem]);

impl Display for ShownResponses<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(responses, problems) = self;
        for group in responses.comparison.iter().flat_map(|comparison| &comparison.groups) {
            let count = counted(group.requests, group.distinct);
            writeln!(
                f,
                "\ndifference: {} ({count})\n  because: {}",
                group.title,
                one_line(&group.cause, LENGTH)
            )?;
            for (url, differences) in group.examples.iter().take(URLS) {
                let differences: Vec<_> = differences
                    .iter()
                    .map(|difference| {
                        let (old, new) =
                            (one_line(&difference.old, LENGTH), one_line(&difference.new, LENGTH));
                        format!("{} {old} became {new}", difference.what)
                    })
                    .collect();
                writeln!(f, "  {}: {}", one_line(url, LENGTH), differences.join("; "))?;
            }
            for problem in related(problems, group.object.as_deref()) {
                writeln!(f, "  problem: {}: {}; {}", problem.field, problem.message, problem.remedy)?;
            }
        }
        let groups = response_groups(responses);
        for group in groups.iter().take(GROUPS) {
            write!(f, "{}", ShownGroup(group))?;
        }
        match groups.len().saturating_sub(GROUPS) {
            0 => Ok(()),
            more => writeln!(f, "\n{more} more groups of responses; -o html lists them"),
        }
    }
}

struct ShownGroup<'g, 'r>(&'g ResponseGroup<'r>);

impl Display for ShownGroup<'_, '_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let group = self.0;
        let summary = group.summary();
        let summary = one_line(&summary, LENGTH);
        writeln!(
            f,
            "\n{summary}: {}\n  {}",
            counted(group.requests, group.responses.len()),
            one_line(&group.reason, LENGTH)
        )?;
        for condition in group.conditions {
            writeln!(f, "  depends on {}", one_line(condition, LENGTH))?;
        }
        for response in group.responses.iter().take(URLS) {
            let url = response.request.url();
            writeln!(f, "    {} {}", response.request.method, one_line(&url, LENGTH))?;
        }
        match group.responses.len().saturating_sub(URLS) {
            0 => Ok(()),
            more => writeln!(f, "    and {more} more"),
        }
    }
}

/// Formats a number of requests, and how many of them are distinct.
pub(in super::super) fn counted(requests: u64, distinct: usize) -> String {
    let requests = plural(usize::try_from(requests).unwrap_or(usize::MAX), "request");
    format!("{requests}, {distinct} distinct")
}

/// Returns the problems of the object, which may explain a difference.
pub(in super::super) fn related<'p>(
    problems: &'p [Problem],
    object: Option<&str>,
) -> impl Iterator<Item = &'p Problem> {
    let is = move |other: &ObjectRef| object.is_some_and(|object| other.to_string() == object);
    problems.iter().filter(move |problem| is(&problem.object)).take(URLS)
}
