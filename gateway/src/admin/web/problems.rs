//! Problems of objects, with the text of their Events.

use std::sync::Arc;

use askama::Template;
use sluice_config::{Problem, Severity};

use super::listing::{Listing, passes};
use super::{Frame, Input};

#[derive(Template)]
#[template(path = "problems.html")]
pub(super) struct ProblemsPage {
    frame: Frame,
    only_errors: bool,
    listing: Listing,
    rows: Vec<Row>,
}

struct Row {
    severity: &'static str,
    code: &'static str,
    object: String,
    field: String,
    message: String,
    remedy: String,
}

pub(super) fn page(input: &Input<'_>, frame: Frame) -> ProblemsPage {
    let filter = input.parameters.filter();
    let only_errors = input.parameters.has("errors");
    let problems = input.state.problems.all();
    let wanted = |problem: &&Arc<Problem>| {
        let Problem { object, field, code, message, remedy, .. } = &***problem;
        let object = object.to_string();
        let texts: [&str; 5] = [&object, field, code.as_str(), message, remedy];
        (!only_errors || problem.severity == Severity::Error) && passes(&filter, &texts)
    };
    let mut all: Vec<_> = problems.iter().filter(wanted).cloned().collect();
    // Stable: objects stay sorted.
    all.sort_by_key(|problem| problem.severity != Severity::Error);
    let (listing, shown) = input.parameters.page(all, &["errors"]);
    ProblemsPage { frame, only_errors, listing, rows: shown.iter().map(|problem| row(problem)).collect() }
}

fn row(problem: &Problem) -> Row {
    Row {
        severity: problem.severity.as_str(),
        code: problem.code.as_str(),
        object: problem.object.to_string(),
        field: problem.field.to_string(),
        message: problem.message.to_string(),
        remedy: problem.remedy.to_string(),
    }
}
