//! The report for a terminal: counts, one line per group of problems, then the groups with their
//! objects. The totals appear at the start, and again at the end, which remains visible in a
//! terminal.

mod responses;

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter, Write};

use sluice_config::ObjectRef;
use sluice_controller::{CheckReport, SnippetTranslation};

use super::counts::{Counted, Totals, plural};
use super::groups::{Cause, ProblemGroup, groups};
use super::markdown;
use super::responses::Responses;
use responses::ShownResponses;

/// Maximum number of groups listed at the start.
const LISTED: usize = 40;
/// Maximum number of causes listed per group.
const CAUSES: usize = 10;
/// Maximum number of objects listed per cause.
const OBJECTS: usize = 10;

/// Renders the whole report.
pub(super) fn render(report: &CheckReport, responses: Option<&Responses>) -> String {
    let groups = groups(&report.problems);
    let mut text = format!("{}\n", Counted { report, responses });
    if let Some(responses) = responses {
        write!(text, "{}", ShownResponses(responses, &report.problems)).expect("a String takes any text");
    }
    for SnippetTranslation { object, field, lines } in &report.snippets {
        writeln!(text, "\n{object} {field} is translated to:").expect("a String takes any text");
        for line in lines {
            writeln!(text, "  {line}").expect("a String takes any text");
        }
    }
    if groups.is_empty() {
        return text;
    }
    if groups.len() > 1 {
        write!(text, "\n{}", Listed(&groups)).expect("a String takes any text");
    }
    for group in &groups {
        write!(text, "\n{}", Shown(group)).expect("a String takes any text");
    }
    writeln!(text, "\n{}", Totals(report)).expect("a String takes any text");
    text
}

/// One line per group, in the order of the groups below.
struct Listed<'g, 'p>(&'g [ProblemGroup<'p>]);

impl Display for Listed<'_, '_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let shown = &self.0[..self.0.len().min(LISTED)];
        let counts: Vec<String> = shown.iter().map(frequency).collect();
        let width = counts.iter().map(String::len).max().unwrap_or_default();
        for (ProblemGroup { severity, subject, code, .. }, count) in shown.iter().zip(counts) {
            let separator = if subject.is_empty() { "" } else { " " };
            writeln!(f, "{:7}  {count:width$}  {subject}{separator}[{code}]", severity.as_str())?;
        }
        if let more @ 1.. = self.0.len() - shown.len() {
            writeln!(f, "and {more} more groups")?;
        }
        let cut = |cause: &Cause<'_>| cause.objects.len().max(cause.alike.len()) > OBJECTS;
        if self.0.iter().any(|group| group.causes.len() > CAUSES || group.causes.iter().any(cut)) {
            writeln!(
                f,
                "\nBelow, {OBJECTS} objects are named at most; -o markdown names {}, -o json all.",
                markdown::OBJECTS
            )?;
        }
        Ok(())
    }
}

/// Formats the number of problems and of objects.
fn frequency(ProblemGroup { count, objects, .. }: &ProblemGroup<'_>) -> String {
    match count == objects {
        true => plural(*count, "object"),
        false => format!("{count} times in {}", plural(*objects, "object")),
    }
}

struct Shown<'g, 'p>(&'g ProblemGroup<'p>);

impl Display for Shown<'_, '_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ProblemGroup { severity, subject, code, causes, .. } = self.0;
        let separator = if subject.is_empty() { "" } else { " " };
        writeln!(f, "{severity}: {subject}{separator}[{code}]: {}", frequency(self.0))?;
        for cause in causes.iter().take(CAUSES) {
            writeln!(f, "  {}; {}", cause.message, cause.remedy)?;
            writeln!(f, "    {}", named(&cause.objects))?;
            if !cause.alike.is_empty() {
                writeln!(f, "    the same with other names: {}", named(&cause.alike))?;
            }
        }
        match causes.len().saturating_sub(CAUSES) {
            0 => Ok(()),
            more => writeln!(f, "  {more} more of them; -o json has all"),
        }
    }
}

/// Lists objects; the kind is only repeated when it changes.
fn named(objects: &BTreeSet<&ObjectRef>) -> String {
    let mut text = String::new();
    let mut last = None;
    for (number, object) in objects.iter().take(OBJECTS).enumerate() {
        let separator = if number == 0 { "" } else { ", " };
        match last.replace(&object.kind) == Some(&object.kind) {
            true => write!(text, "{separator}{}", object.name),
            false => write!(text, "{separator}{object}"),
        }
        .expect("a String takes any text");
    }
    match objects.len().saturating_sub(OBJECTS) {
        0 => text,
        more => text + &format!(", and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::{Code, Severity};

    use super::*;

    #[test]
    fn a_large_group_names_some_and_says_how_many_more() {
        let objects: Vec<_> =
            (0..25).map(|number| ObjectRef::new("Ingress", "shop", &format!("i{number:02}"))).collect();
        let all: BTreeSet<_> = objects.iter().collect();
        let cause = |objects| Cause { message: "odd", remedy: "mend it", objects, alike: BTreeSet::new() };
        let (subject, code) = ("proxy-read-timeout".to_owned(), Code::AnnotationInvalid);
        let mut group = ProblemGroup {
            severity: Severity::Warning,
            subject,
            code,
            count: 25,
            objects: 25,
            causes: vec![cause(all)],
        };
        let text = Shown(&group).to_string();
        assert!(
            text.starts_with("warning: proxy-read-timeout [AnnotationInvalid]: 25 objects\n  odd; mend it\n"),
            "{text}"
        );
        assert!(text.contains("    Ingress shop/i00, shop/i01, "), "{text}");
        assert!(text.contains("shop/i09, and 15 more\n") && !text.contains("i10"), "{text}");
        group.causes = objects.iter().map(|object| cause(BTreeSet::from([object]))).collect();
        group.count = 30;
        let text = Shown(&group).to_string();
        assert!(text.contains(": 30 times in 25 objects\n"), "{text}");
        assert!(text.ends_with("  15 more of them; -o json has all\n"), "{text}");
    }
}
