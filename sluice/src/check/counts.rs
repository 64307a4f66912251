//! The counts at the start of a report, as text.

use std::fmt::{self, Display, Formatter};

use sluice_config::Severity;
use sluice_config::text::one_line;
use sluice_controller::{CheckReport, IngressCounts};

use super::groups::Total;
use super::responses::{Comparison, Responses};

/// Maximum length of a URL or value from elsewhere in bytes.
pub(super) const LENGTH: usize = 300;

/// The numbers of objects read and served, of responses, and of problems.
pub(super) struct Counted<'r> {
    pub(super) report: &'r CheckReport,
    pub(super) responses: Option<&'r Responses>,
}

impl Display for Counted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let counts = &self.report.counts;
        let kinds = |kinds: &std::collections::BTreeMap<String, usize>| {
            kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
        };
        writeln!(f, "read: {}", kinds(&counts.objects))?;
        if !counts.skipped.is_empty() {
            writeln!(f, "not served and skipped: {}", kinds(&counts.skipped))?;
        }
        let IngressCounts { of_other_classes, of_other_namespaces, .. } = counts.ingresses;
        let unserved =
            [(of_other_classes, "another class or none"), (of_other_namespaces, "other namespaces")];
        let unserved = unserved.iter().filter(|(count, _)| *count > 0);
        let unserved: Vec<String> = unserved
            .map(|(count, of)| {
                format!("{count} {} of {of}", if *count == 1 { "Ingress" } else { "Ingresses" })
            })
            .collect();
        if !unserved.is_empty() {
            writeln!(f, "not served: {}", unserved.join(", "))?;
        }
        let closed = match counts.closed {
            0 => String::new(),
            closed => format!(" ({closed} of them closed)"),
        };
        writeln!(
            f,
            "served: {}, {}{closed}, {}, {}, {}",
            plural(counts.hosts, "host"),
            plural(counts.rules, "rule"),
            plural(counts.pools, "pool"),
            plural(counts.endpoints, "endpoint"),
            plural(counts.certificates, "certificate"),
        )?;
        if let Some(responses) = self.responses {
            CountedResponses(responses).fmt(f)?;
        }
        Totals(self.report).fmt(f)
    }
}

/// The numbers of requests, of kinds of responses, and of differences.
struct CountedResponses<'r>(&'r Responses);

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

/// The number of problems.
pub(super) struct Totals<'r>(pub(super) &'r CheckReport);

impl Display for Totals<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let totals = Severity::ALL.map(|severity| {
            let Total { problems, objects } = Total::of(&self.0.problems, severity);
            let counted = plural(problems, severity.as_str());
            if problems == 0 { counted } else { format!("{counted} in {}", plural(objects, "object")) }
        });
        write!(f, "problems: {}", totals.join(", "))
    }
}

/// Formats a number of requests, and how many of them are distinct.
pub(super) fn counted(requests: u64, distinct: usize) -> String {
    let requests = plural(usize::try_from(requests).unwrap_or(usize::MAX), "request");
    format!("{requests}, {distinct} distinct")
}

pub(super) fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
