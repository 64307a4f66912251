//! The responses to requests, as Markdown.

use super::{line_of, plain};
use crate::check::counts::counted;
use crate::check::groups::related;
use crate::check::response_groups::response_groups;
use crate::check::responses::Responses;
use sluice_config::Problem;

/// Maximum number of rows of a table.
const ROWS: usize = 500;

/// Appends the differences by cause, and the table of responses.
pub(super) fn append(page: &mut String, responses: &Responses, problems: &[Problem]) {
    if let Some(comparison) = &responses.comparison {
        line_of(page, format_args!("\n## Differences\n"));
        line_of(page, format_args!("{} compared with {}.", plain(&comparison.old), plain(&comparison.new)));
        if comparison.groups.is_empty() {
            line_of(page, format_args!("\nNo response differs."));
        }
        for group in &comparison.groups {
            let count = counted(group.requests, group.distinct);
            line_of(page, format_args!("\n### {} ({count})\n", plain(&group.title)));
            line_of(page, format_args!("- because: {}", plain(&group.cause)));
            for problem in related(problems, group.object.as_deref()) {
                line_of(
                    page,
                    format_args!("- problem: {}; {}", plain(&problem.message), plain(&problem.remedy)),
                );
            }
            line_of(page, format_args!("\n| request | what | old | new |\n|---|---|---|---|"));
            for (url, differences) in &group.examples {
                for difference in differences {
                    let cells =
                        [url, &difference.what, &difference.old, &difference.new].map(|cell| plain(cell));
                    line_of(page, format_args!("| {} |", cells.join(" | ")));
                }
            }
        }
    }
    line_of(
        page,
        format_args!(
            "\n## Responses\n\n| requests | gets | why | depends on | example |\n|---:|---|---|---|---|"
        ),
    );
    let groups = response_groups(responses);
    for group in groups.iter().take(ROWS) {
        let example = group.responses.first().map(|response| response.request.url()).unwrap_or_default();
        let cells = [group.summary(), group.reason.clone(), group.conditions.join("; "), example]
            .map(|cell| plain(&cell));
        line_of(page, format_args!("| {} | {} |", group.requests, cells.join(" | ")));
    }
    if let more @ 1.. = groups.len().saturating_sub(ROWS) {
        line_of(page, format_args!("\nand {more} more; `-o html` has all"));
    }
}
