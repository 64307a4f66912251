//! The report for a terminal: groups of problems with the objects that have them, then what there is.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Formatter, Write};

use sluice_config::{ObjectRef, Severity};
use sluice_controller::CheckReport;

use super::groups::{Group, Total, groups};

/// Causes of a group that are shown.
const CAUSES: usize = 10;
/// Objects of a cause that are named.
const OBJECTS: usize = 10;

/// All of it.
pub(super) fn render(report: &CheckReport) -> String {
    let mut text = String::new();
    for group in groups(&report.problems) {
        writeln!(text, "{}", Shown(&group)).expect("a String takes any text");
    }
    writeln!(text, "{}", Counted(report)).expect("a String takes any text");
    text
}

struct Shown<'g, 'p>(&'g Group<'p>);

impl Display for Shown<'_, '_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Group { severity, subject, code, count, objects, causes } = self.0;
        let separator = if subject.is_empty() { "" } else { " " };
        write!(f, "{severity}: {subject}{separator}[{code}]: ")?;
        match count == objects {
            true => writeln!(f, "{}", plural(*count, "object"))?,
            false => writeln!(f, "{count} times in {}", plural(*objects, "object"))?,
        }
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

/// Objects, with each kind said once.
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

/// What was read, what is served and how many problems there are.
pub(super) struct Counted<'r>(pub(super) &'r CheckReport);

impl Display for Counted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let counts = &self.0.counts;
        let kinds = |kinds: &std::collections::BTreeMap<String, usize>| {
            kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
        };
        writeln!(f, "read: {}", kinds(&counts.objects))?;
        if !counts.skipped.is_empty() {
            writeln!(f, "not served and skipped: {}", kinds(&counts.skipped))?;
        }
        let closed = match counts.closed {
            0 => String::new(),
            closed => format!(" ({closed} of them closed)"),
        };
        writeln!(
            f,
            "served: {}, {}{closed}, {}, {}, {}",
            plural(counts.hosts, "host"),
            plural(counts.rules, "rule"),
            plural(counts.pools, "pool"),
            plural(counts.endpoints, "endpoint"),
            plural(counts.certificates, "certificate"),
        )?;
        let totals = Severity::ALL.map(|severity| {
            let Total { problems, objects } = Total::of(&self.0.problems, severity);
            let counted = plural(problems, severity.as_str());
            if problems == 0 { counted } else { format!("{counted} in {}", plural(objects, "object")) }
        });
        write!(f, "problems: {}", totals.join(", "))
    }
}

fn plural(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use sluice_config::Code;

    use super::*;
    use crate::check::groups::Cause;

    #[test]
    fn a_large_group_names_some_and_says_how_many_more() {
        let objects: Vec<_> =
            (0..25).map(|number| ObjectRef::new("Ingress", "shop", &format!("i{number:02}"))).collect();
        let all: BTreeSet<_> = objects.iter().collect();
        let cause = |objects| Cause { message: "odd", remedy: "mend it", objects, alike: BTreeSet::new() };
        let (subject, code) = ("proxy-read-timeout".to_owned(), Code::AnnotationInvalid);
        let mut group = Group {
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
