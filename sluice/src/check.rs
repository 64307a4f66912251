//! `sluice check`: every problem of a folder of manifests, by object, with what to do.

use std::fmt::Write;
use std::path::Path;

use sluice_config::{ObjectRef, Problem};
use sluice_controller::CheckReport;
use sluice_controller::Options;
use sluice_controller::source::files::FileSourceError;

use crate::flags::Output;

/// What a look at a folder came to.
#[derive(Debug)]
pub(crate) struct Checked {
    /// For standard output.
    pub(crate) text: String,
    /// Whether an object would not be served as it asks.
    pub(crate) failed: bool,
}

/// Looks at a folder.
///
/// # Errors
/// The folder cannot be read.
pub(crate) fn check(folder: &Path, options: Options, output: Output) -> Result<Checked, FileSourceError> {
    let report = sluice_controller::check(folder, options)?;
    let text = match output {
        Output::Table => render(&report),
        Output::Json => json(&report),
    };
    Ok(Checked { text, failed: report.has_errors() })
}

/// For programs: the problems as the admin listener has them, and what there is.
fn json(report: &CheckReport) -> String {
    let counts = &report.counts;
    let problems: Vec<_> = report.problems.iter().map(Problem::view).collect();
    let answer = serde_json::json!({
        "problems": problems,
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

/// Problems under their objects, then what there is.
fn render(report: &CheckReport) -> String {
    let mut text = String::new();
    let mut last: Option<&ObjectRef> = None;
    for problem in &report.problems {
        if last != Some(&problem.object) {
            writeln!(text, "{}", problem.object).expect("a String takes any text");
            last = Some(&problem.object);
        }
        let separator = if problem.field.is_empty() { "" } else { ": " };
        let (severity, field) = (problem.severity, &problem.field);
        let (message, remedy, code) = (&problem.message, &problem.remedy, problem.code);
        writeln!(text, "  {severity}: {field}{separator}{message}; {remedy} [{code}]")
            .expect("a String takes any text");
    }
    let counts = &report.counts;
    let kinds = |kinds: &std::collections::BTreeMap<String, usize>| {
        kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
    };
    if !text.is_empty() {
        text.push('\n');
    }
    writeln!(text, "read: {}", kinds(&counts.objects)).expect("a String takes any text");
    if !counts.skipped.is_empty() {
        writeln!(text, "not served and skipped: {}", kinds(&counts.skipped))
            .expect("a String takes any text");
    }
    let closed = match counts.closed {
        0 => String::new(),
        closed => format!(" ({closed} of them closed)"),
    };
    writeln!(
        text,
        "served: {} hosts, {} rules{closed}, {} pools, {} endpoints, {} certificates; {} problems",
        counts.hosts,
        counts.rules,
        counts.pools,
        counts.endpoints,
        counts.certificates,
        report.problems.len()
    )
    .expect("a String takes any text");
    text
}
