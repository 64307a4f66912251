//! Constructors of [`Problem`]s: each names the object, the field, what is wrong and how to fix it.
//!
//! Problems can contain untrusted text and are printed to logs, terminals and metrics. The
//! constructors therefore limit each part to one line of bounded length.

mod index;

use std::sync::Arc;

use sluice_config::text::one_line;
use sluice_config::{Code, NamespacedName, ObjectRef, Problem, Severity};

pub use index::{Duty, ProblemChanges};
pub(crate) use index::{Finder, ProblemIndex};

/// Maximum length of a name or field in bytes.
const NAME: usize = 320;
/// Maximum length of a message or remedy in bytes.
const MESSAGE: usize = 1200;

/// Creates a problem of severity error: a part of the object is not served as requested.
pub(crate) fn error(
    code: Code,
    object: &ObjectRef,
    field: impl Into<String>,
    message: impl Into<String>,
    remedy: impl Into<String>,
) -> Problem {
    problem(Severity::Error, code, object, field, message, remedy)
}

/// Creates a warning: the object is served as requested, but needs attention.
pub(crate) fn warning(
    code: Code,
    object: &ObjectRef,
    field: impl Into<String>,
    message: impl Into<String>,
    remedy: impl Into<String>,
) -> Problem {
    problem(Severity::Warning, code, object, field, message, remedy)
}

fn problem(
    severity: Severity,
    code: Code,
    object: &ObjectRef,
    field: impl Into<String>,
    message: impl Into<String>,
    remedy: impl Into<String>,
) -> Problem {
    Problem {
        object: shown(object),
        // Set later, for all problems alike, where the objects are available.
        uid: None,
        field: line(field.into(), NAME),
        severity,
        code,
        message: line(message.into(), MESSAGE),
        remedy: line(remedy.into(), MESSAGE),
    }
}

/// Returns `text` as the reason of a closed route, for introspection and logs.
pub(crate) fn reason(text: &str) -> Arc<str> {
    one_line(text, MESSAGE).into()
}

/// Returns the reason with the object and field that close the route.
pub(crate) fn because(object: &ObjectRef, field: &str, why: &str) -> Arc<str> {
    reason(&format!("{object} {field}: {why}"))
}

/// Copies only names that need escaping, which is rare.
fn shown(object: &ObjectRef) -> ObjectRef {
    let part = |text: &Arc<str>| match one_line(text, NAME) {
        std::borrow::Cow::Borrowed(_) => text.clone(),
        std::borrow::Cow::Owned(line) => line.into(),
    };
    let NamespacedName { namespace, name } = &object.name;
    ObjectRef {
        kind: object.kind.clone(),
        name: NamespacedName { namespace: part(namespace), name: part(name) },
    }
}

fn line(text: String, limit: usize) -> String {
    match one_line(&text, limit) {
        std::borrow::Cow::Borrowed(_) => text,
        std::borrow::Cow::Owned(line) => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_problem_forges_a_line_or_fills_the_log() {
        let odd = format!("x\n2026-01-01 ERROR forged\u{1b}[2J{}", "y".repeat(1 << 20));
        let problem = error(
            Code::ManifestInvalid,
            &ObjectRef::new("File", &odd, &odd),
            odd.as_str(),
            odd.as_str(),
            odd.as_str(),
        );
        let text = problem.to_string();
        assert!(text.chars().all(sluice_config::text::is_plain), "{text}");
        assert!(text.len() < 2 * (MESSAGE + 2 * NAME), "{}", text.len());
    }

    proptest::proptest! {
        #[test]
        fn any_text_becomes_one_bounded_line(text in "(\\PC|\\pC){0,300}", repeat in 1..40_usize) {
            let problem = warning(Code::PathUnusual, &ObjectRef::new("Ingress", "a", &text), &text, text.repeat(repeat), &text);
            for part in [&*problem.object.name.name, &problem.field, &problem.message, &problem.remedy] {
                proptest::prop_assert!(part.chars().all(sluice_config::text::is_plain));
                proptest::prop_assert!(part.len() < MESSAGE + 60);
            }
        }
    }
}
