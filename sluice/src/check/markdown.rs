//! The report as Markdown, for a ticket or a pull request: a table of groups, then each group with
//! its objects.

mod responses;

use std::collections::BTreeSet;
use std::fmt::Write;

use sluice_config::ObjectRef;
use sluice_controller::{CheckReport, SnippetTranslation};

use super::counts::Counted;
use super::groups::{ProblemGroup, groups};
use super::responses::Responses;

/// Maximum number of objects listed per cause, so that the page remains readable.
pub(super) const OBJECTS: usize = 50;

/// Renders the whole report.
pub(super) fn render(report: &CheckReport, responses: Option<&Responses>) -> String {
    let mut page = String::from("# Report of sluice check\n\n");
    for line in (Counted { report, responses }).to_string().lines() {
        line_of(&mut page, format_args!("- {line}"));
    }
    let groups = groups(&report.problems);
    if !groups.is_empty() {
        page.push_str("\n| severity | what | kind | problems | objects |\n|---|---|---|---|---|\n");
    }
    for ProblemGroup { severity, subject, code, count, objects, .. } in &groups {
        line_of(
            &mut page,
            format_args!("| {severity} | {} | {code} | {count} | {objects} |", code_of(subject)),
        );
    }
    if let Some(responses) = responses {
        responses::append(&mut page, responses, &report.problems);
    }
    for SnippetTranslation { object, field, lines } in &report.snippets {
        line_of(
            &mut page,
            format_args!("\n## {} {} is translated to\n", plain(&object.to_string()), code_of(field)),
        );
        for line in lines {
            line_of(&mut page, format_args!("- {}", plain(line)));
        }
    }
    for group in &groups {
        section(&mut page, group);
    }
    page
}

fn section(page: &mut String, group: &ProblemGroup<'_>) {
    let ProblemGroup { severity, subject, code, causes, .. } = group;
    line_of(page, format_args!("\n## {severity}: {} [{code}]\n", code_of(subject)));
    for cause in causes {
        line_of(page, format_args!("- {}; {}", plain(cause.message), plain(cause.remedy)));
        list(page, "  ", &cause.objects);
        if !cause.alike.is_empty() {
            line_of(page, format_args!("  - the same with other names:"));
            list(page, "    ", &cause.alike);
        }
    }
}

fn list(page: &mut String, indent: &str, objects: &BTreeSet<&ObjectRef>) {
    for object in objects.iter().take(OBJECTS) {
        line_of(page, format_args!("{indent}- {}", plain(&object.to_string())));
    }
    if let more @ 1.. = objects.len().saturating_sub(OBJECTS) {
        line_of(page, format_args!("{indent}- and {more} more; `-o json` has all"));
    }
}

fn line_of(page: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(page, "{line}").expect("a String takes any text");
}

/// Formats a name as code that is safe in a table.
fn code_of(name: &str) -> String {
    match name {
        "" => "the object".to_owned(),
        name => format!("`{}`", name.replace('`', "'").replace('|', "\\|")),
    }
}

/// Escapes text from other sources for Markdown and HTML.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => plain.push_str("&lt;"),
            '&' => plain.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '@' => plain.extend(['\\', letter]),
            letter => plain.push(letter),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_means_nothing_to_markdown() {
        assert_eq!(plain("a_b <img> [x](y) `z`|"), "a\\_b &lt;img> \\[x\\](y) \\`z\\`\\|");
        assert_eq!(code_of("a`|b"), "`a'\\|b`");
    }
}
