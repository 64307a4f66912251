//! `sluice check`: what is wrong in a folder of manifests, grouped by annotation, key or field, with what to do.

mod groups;
mod markdown;
mod text;

use std::path::Path;

use sluice_config::{Problem, Severity};
use sluice_controller::source::files::FileSourceError;
use sluice_controller::{CheckReport, Options};

use crate::flags::CheckOutput;
use groups::{Group, Total, groups};

/// What a look at a folder came to.
#[derive(Debug)]
pub(crate) struct Checked {
    /// For standard output.
    pub(crate) text: String,
    /// Whether an object would not be served as it asks; strictly, whether there is any problem.
    pub(crate) failed: bool,
}

/// Looks at a folder.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn check(
    folder: &Path,
    options: Options,
    output: CheckOutput,
    strict: bool,
) -> Result<Checked, FileSourceError> {
    let report = sluice_controller::check(folder, options)?;
    let text = match output {
        CheckOutput::Text => text::render(&report),
        CheckOutput::Json => json(&report),
        CheckOutput::Markdown => markdown::render(&report),
    };
    Ok(Checked { text, failed: report.has_errors() || strict && !report.problems.is_empty() })
}

/// For programs: the problems as the admin listener has them, their groups, and what there is.
fn json(report: &CheckReport) -> String {
    let counts = &report.counts;
    let problems: Vec<_> = report.problems.iter().map(Problem::view).collect();
    let group = |Group { severity, subject, code, count, objects, .. }: &Group<'_>| {
        serde_json::json!({
            "severity": severity.as_str(),
            "subject": subject,
            "code": code.as_str(),
            "problems": count,
            "objects": objects,
        })
    };
    let groups: Vec<_> = groups(&report.problems).iter().map(group).collect();
    let total = |severity| Total::of(&report.problems, severity).problems;
    let answer = serde_json::json!({
        "problems": problems,
        "groups": groups,
        "errors": total(Severity::Error),
        "warnings": total(Severity::Warning),
        "read": counts.objects,
        "skipped": counts.skipped,
        "served": {
            "hosts": counts.hosts,
            "rules": counts.rules,
            "closed": counts.closed,
            "pools": counts.pools,
            "endpoints": counts.endpoints,
            "certificates": counts.certificates,
        },
    });
    format!("{answer:#}\n")
}
