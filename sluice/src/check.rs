//! `sluice check`: reports the problems of a manifest folder or a cluster, grouped by annotation,
//! key or field, and how to fix them; what requests get and why; and what differs from the old
//! controller.

mod comparison;
mod counts;
mod effective;
mod groups;
mod hosts;
mod html;
mod http_client;
mod json;
mod markdown;
mod rehearsal;
mod requests;
mod response_groups;
mod responses;
mod text;
mod values;

use std::path::Path;

use anyhow::{Context, Result};
use sluice_config::{Code, ObjectRef, Problem, Severity};
use sluice_controller::source::kube::ApiAccess;
use sluice_controller::{CheckInput, CheckReport, NameLookup};

use crate::flags::{CheckArguments, CheckOutput, ClusterFlags, ServeFlags};
use responses::Responses;
use values::ChartValues;

/// Result of a check.
#[derive(Debug)]
pub(crate) struct Checked {
    /// The report for standard output.
    pub(crate) text: String,
    /// Whether an object would not be served as specified, or a response differs; with `--strict`,
    /// whether there is any problem.
    pub(crate) failed: bool,
}

/// Checks a folder, or the cluster that the flags select.
///
/// # Errors
/// The source or the requests cannot be read, or a controller cannot be reached.
pub(crate) fn check(mut check: CheckArguments) -> Result<Checked> {
    let values = check.values.take().map(|(path, release)| ChartValues::read(&path, &release)).transpose()?;
    // Keeps the folder with the objects of the values until they are read.
    let folder = match &values {
        Some(values) => {
            check.set_flags(values.flags()).context("the flags of --values")?;
            let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
            std::fs::write(folder.path().join("values.json"), values::objects(values).to_string())?;
            Some(folder)
        }
        None => None,
    };
    let CheckArguments { flags, output, strict, requests, comparison, without_effect, .. } = check;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let in_process = comparison.as_ref().is_some_and(|comparison| comparison.new.is_none());
    let names = if in_process { NameLookup::System } else { NameLookup::Placeholder };
    let further = folder.as_ref().map(tempfile::TempDir::path);
    let mut report = runtime.block_on(look(flags, further, names))?;
    report.problems.extend(without_effect.into_iter().map(flag_without_effect));
    report.problems.extend(values.iter().flat_map(ChartValues::problems));
    let escape = report.snapshot.settings.access_log.format.escape;
    let requests = requests::read(&requests, report.log_format.as_deref(), escape)?;
    let responses = match requests {
        Some(requests) => {
            Some(runtime.block_on(responses::send(requests, &report.snapshot, comparison.as_ref()))?)
        }
        None => None,
    };
    let responses = responses.as_ref();
    let text = match output {
        CheckOutput::Text => text::render(&report, responses),
        CheckOutput::Json => json::render(&report, responses),
        CheckOutput::Markdown => markdown::render(&report, responses),
        CheckOutput::Html => html::render(&report, responses),
    };
    let differ = responses.is_some_and(Responses::differ);
    Ok(Checked { text, failed: report.has_errors() || differ || strict && !report.problems.is_empty() })
}

/// Returns the problem of a flag that has no effect, from the reason with what to do.
fn flag_without_effect((flag, reason): (&str, &str)) -> Problem {
    let (reason, remedy) = reason.rsplit_once("; ").unwrap_or((reason, "remove this flag"));
    Problem {
        object: ObjectRef::new("Flag", "", &format!("--{flag}")),
        uid: None,
        field: String::new(),
        severity: Severity::Warning,
        code: Code::FlagWithoutEffect,
        message: format!("it has no effect: {reason}"),
        remedy: remedy.to_owned(),
    }
}

async fn look(flags: ServeFlags, further: Option<&Path>, names: NameLookup) -> Result<CheckReport> {
    let input = CheckInput { options: flags.controller, further, names };
    if let Some(folder) = &flags.manifests {
        return Ok(sluice_controller::check(folder, input)?);
    }
    let ClusterFlags { kubeconfig, apiserver_host, certificate_authority, .. } = &flags.cluster;
    let access = ApiAccess::choose(
        kubeconfig.as_deref(),
        apiserver_host.as_deref(),
        certificate_authority.as_deref(),
    )?;
    Ok(sluice_controller::check_cluster(access, input).await?)
}
