//! `sluice check`: reports the problems of a manifest folder or a cluster, grouped by annotation,
//! key or field, and how to fix them.

mod groups;
mod markdown;
mod text;

use anyhow::Result;
use sluice_config::{Problem, Severity};
use sluice_controller::source::kube::Access;
use sluice_controller::{CheckReport, SnippetTranslation};

use crate::flags::{Check, CheckOutput, ClusterFlags, ServeFlags};
use groups::{Group, Total, groups};

/// Result of a check.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The report for standard output.
    pub(crate) text: String,
    /// Whether an object would not be served as specified; with `--strict`, whether there is any
    /// problem.
    pub(crate) failed: bool,
}

/// Checks a folder, or the cluster that the flags select.
///
/// # Errors
/// The source cannot be read.
pub(crate) fn check(Check { flags, output, strict }: Check) -> Result<Checked> {
    let report = look(flags)?;
    let text = match output {
        CheckOutput::Text => text::render(&report),
        CheckOutput::Json => json(&report),
        CheckOutput::Markdown => markdown::render(&report),
    };
    Ok(Checked { text, failed: report.has_errors() || strict && !report.problems.is_empty() })
}

fn look(flags: ServeFlags) -> Result<CheckReport> {
    if let Some(folder) = &flags.manifests {
        return Ok(sluice_controller::check(folder, flags.controller)?);
    }
    let ClusterFlags { kubeconfig, apiserver_host, certificate_authority, .. } = &flags.cluster;
    let access =
        Access::choose(kubeconfig.as_deref(), apiserver_host.as_deref(), certificate_authority.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(runtime.block_on(sluice_controller::check_cluster(access, flags.controller))?)
}

/// Renders the report as JSON: problems as on the admin listener, their groups, and counts.
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
    let snippet = |SnippetTranslation { object, field, lines }: &SnippetTranslation| serde_json::json!({ "object": object.to_string(), "field": field, "directives": lines });
    let snippets: Vec<_> = report.snippets.iter().map(snippet).collect();
    let total = |severity| Total::of(&report.problems, severity).problems;
    let answer = serde_json::json!({
        "problems": problems,
        "groups": groups,
        "snippets": snippets,
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
