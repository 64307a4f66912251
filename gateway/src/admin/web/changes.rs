//! What changed last, and when it took effect.

use askama::Template;

use super::{Frame, Input};
use crate::admin::format;
use crate::state::change_log::{AppliedChange, ChangedPart};

#[derive(Template)]
#[template(path = "changes.html")]
pub(super) struct ChangesPage {
    frame: Frame,
    lists: [(&'static str, Vec<Row>); 2],
}

struct Row {
    generation: u64,
    at: String,
    ago: String,
    took: String,
    what: String,
    refused: usize,
}

pub(super) fn page(input: &Input<'_>, frame: Frame) -> ChangesPage {
    let changes = &input.state.changes;
    let rows = |changes: Vec<AppliedChange>| changes.iter().map(row).collect();
    let lists = [
        ("Configuration", rows(changes.of_configuration())),
        ("Endpoints alone", rows(changes.of_endpoints())),
    ];
    ChangesPage { frame, lists }
}

fn row(change: &AppliedChange) -> Row {
    let what: Vec<String> = change.parts.iter().map(part).collect();
    Row {
        generation: change.generation,
        at: format::moment(change.at),
        ago: format::ago(change.at),
        took: format::took(change.took),
        what: if what.is_empty() { "the configuration is complete".to_owned() } else { what.join("; ") },
        refused: change.refused,
    }
}

fn part(part: &ChangedPart) -> String {
    let ChangedPart { kind, put, removed, names } = part;
    let counts = match (put, removed) {
        (put, 0) => format!("{put} set"),
        (0, removed) => format!("{removed} removed"),
        (put, removed) => format!("{put} set, {removed} removed"),
    };
    let more = if put + removed > names.len() && !names.is_empty() { ", ..." } else { "" };
    match names.is_empty() {
        true => (*kind).to_owned(),
        false => format!("{kind} ({counts}): {}{more}", names.join(", ")),
    }
}
