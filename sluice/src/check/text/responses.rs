//! The responses to requests, for a terminal.

use std::fmt::{self, Display, Formatter};

use sluice_config::Problem;
use sluice_config::text::one_line;

use crate::check::counts::{LENGTH, counted};
use crate::check::groups::related;
use crate::check::response_groups::{ResponseGroup, response_groups};
use crate::check::responses::Responses;

/// Maximum number of groups listed.
const GROUPS: usize = 60;
/// Maximum number of URLs listed per group.
const URLS: usize = 3;

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
