//! The response to a review: which problems reject an Ingress, their order and their wording.

use sluice_config::{Class, Code, ObjectRef, Problem, Severity};

/// Maximum number of bytes of a rejection.
const LONGEST: usize = 8 * 1024;
/// Maximum number of bytes of a warning: clients print no more.
const LONGEST_WARNING: usize = 250;
/// Maximum number of warnings in a response.
const WARNINGS: usize = 16;

/// The decision on one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    /// The reason for the rejection, if it is rejected.
    pub(super) refusal: Option<String>,
    /// Warnings about the object.
    pub(super) warnings: Vec<String>,
}

/// Decides on an object from the problems of its review.
pub(super) fn decide(object: &ObjectRef, problems: &[Problem]) -> Decision {
    let mut refusals: Vec<(u8, String)> = Vec::new();
    let mut warnings = Vec::new();
    for problem in problems {
        let is_own = problem.object == *object;
        match rank(problem, is_own) {
            Some(rank) => refusals.push((rank, refusal(problem, is_own))),
            None if is_own => warnings.push(cut(text(problem), LONGEST_WARNING)),
            None => {}
        }
    }
    refusals.sort();
    warnings.truncate(WARNINGS);
    let refusals: Vec<String> = refusals.into_iter().map(|(_, text)| text).collect();
    let refusal = (!refusals.is_empty()).then(|| cut(refusals.join("\n"), LONGEST));
    Decision { refusal, warnings }
}

/// Returns the rank of the check that found a problem, in the order of ingress-nginx. `None` if the
/// problem does not reject the Ingress.
fn rank(problem: &Problem, is_own: bool) -> Option<u8> {
    if !is_own {
        // The object would take a path from another Ingress that owns it.
        return (problem.code == Code::PathConflict).then_some(6);
    }
    match problem.code {
        Code::CatchAllDisabled => Some(1),
        // Existing Ingresses with such a path are served; new ones are rejected.
        Code::PathUnusual => Some(2),
        Code::AnnotationForbidden => Some(4),
        Code::PathConflict | Code::CanaryConflict => Some(6),
        // The expression may be valid for nginx but not for Sluice. Once stored, it would close its
        // route.
        Code::ExpressionInvalid => Some(5),
        Code::SnippetNotTranslated => Some(4),
        _ if is_snippet(problem) => Some(4),
        _ if problem.severity == Severity::Warning => None,
        _ => match problem.code.class() {
            Class::OwnFault => Some(5),
            Class::Conflict => Some(6),
            // The reference may be created later, or the fault is not the author's.
            Class::MissingReference | Class::NotServed | Class::DataPlane | Class::Source => None,
        },
    }
}

/// Returns the name of the annotation that a problem concerns.
fn annotation(problem: &Problem) -> Option<&str> {
    problem.field.strip_prefix("metadata.annotations[")?.strip_suffix(']')
}

fn is_snippet(problem: &Problem) -> bool {
    problem.code == Code::AnnotationNotServed
        && annotation(problem).is_some_and(|name| name.ends_with("-snippet"))
}

/// Returns the text of a rejection. It starts with the words of ingress-nginx, for which users
/// search.
fn refusal(problem: &Problem, is_own: bool) -> String {
    let (name, text) = (annotation(problem), text(problem));
    match (problem.code, name) {
        _ if !is_own => {
            let what = problem.message.split(" is already defined").next().unwrap_or_default();
            format!(
                "{what} is already defined in ingress {}, which would lose it; {}",
                problem.object.name, problem.remedy
            )
        }
        (Code::CatchAllDisabled, _) => format!(
            "this deployment is trying to create a catch-all ingress while DisableCatchAll flag is set to true: {text}"
        ),
        (Code::PathUnusual | Code::ExpressionInvalid, _) => format!("ingress contains invalid paths: {text}"),
        (_, Some(name)) if is_snippet(problem) => format!(
            "{name} annotation cannot be used. Snippet directives are disabled by the Ingress administrator: {text}"
        ),
        (Code::AnnotationForbidden, Some(name)) if problem.message.contains("contains the word") => {
            format!("{name} annotation contains invalid word: {text}")
        }
        (Code::AnnotationForbidden, Some(name)) => {
            format!("annotation {name} is too risky for environment: {text}")
        }
        (Code::AnnotationInvalid, Some(name)) => format!("annotation {name} contains invalid value: {text}"),
        _ => text,
    }
}

fn text(problem: &Problem) -> String {
    let field = if problem.field.is_empty() { String::new() } else { format!("{}: ", problem.field) };
    format!("{field}{}; {} [{}]", problem.message, problem.remedy, problem.code)
}

fn cut(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        text.truncate(text.floor_char_boundary(longest - 3));
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{error, warning};

    fn object() -> ObjectRef {
        ObjectRef::new("Ingress", "shop", "web")
    }

    #[test]
    fn faults_refuse_in_the_order_of_ingress_nginx_and_are_all_listed() {
        let annotation = "metadata.annotations[nginx.ingress.kubernetes.io/proxy-body-size]";
        let problems = [
            error(Code::PathConflict, &object(), "spec.rules[0].http.paths[0].path", "taken", "move it"),
            error(Code::AnnotationInvalid, &object(), annotation, "\"x\" is no size", "write 1m"),
            error(Code::CatchAllDisabled, &object(), "spec.defaultBackend", "set", "remove it"),
        ];
        let refusal = decide(&object(), &problems).refusal.unwrap();
        let lines: Vec<&str> = refusal.lines().collect();
        assert!(
            lines[0]
                .starts_with("this deployment is trying to create a catch-all ingress while DisableCatchAll")
        );
        assert!(lines[1].starts_with(
            "annotation nginx.ingress.kubernetes.io/proxy-body-size contains invalid value: metadata.annotations["
        ));
        assert!(lines[2].contains("taken; move it [PathConflict]") && lines.len() == 3, "{refusal}");
    }

    #[test]
    fn missing_references_and_features_cause_warnings() {
        let problems = [
            error(Code::SecretNotFound, &object(), "spec.tls[0]", "no Secret", "make it"),
            error(Code::ServiceNotFound, &object(), "spec", "no Service", "make it"),
            error(Code::AnnotationNotServed, &object(), "metadata.annotations[a/mirror]", "not yet", "wait"),
            warning(Code::AnnotationUnknown, &object(), "metadata.annotations[a/b]", "x".repeat(999), "y"),
        ];
        let decision = decide(&object(), &problems);
        assert_eq!((decision.refusal, decision.warnings.len()), (None, 4));
        assert!(decision.warnings.iter().all(|warning| warning.len() <= LONGEST_WARNING));
    }

    #[test]
    fn snippets_and_conflicting_paths_are_refused() {
        let field = "metadata.annotations[nginx.ingress.kubernetes.io/server-snippet]";
        let snippet = error(Code::AnnotationNotServed, &object(), field, "not served", "remove it");
        let refusal = decide(&object(), &[snippet]).refusal.unwrap();
        assert!(
            refusal.contains("server-snippet annotation cannot be used. Snippet directives are disabled")
        );
        let other = ObjectRef::new("Ingress", "shop", "other");
        let message = "host \"a\" and path \"/\" is already defined in ingress shop/web, and is left out";
        let taken = error(Code::PathConflict, &other, "spec", message, "move it");
        let elsewhere = error(Code::AnnotationInvalid, &other, "spec", "bad", "correct it");
        let decision = decide(&object(), &[taken, elsewhere]);
        let refusal = decision.refusal.unwrap();
        assert!(
            refusal.starts_with("host \"a\" and path \"/\" is already defined in ingress shop/other,"),
            "{refusal}"
        );
        assert!(decision.warnings.is_empty(), "errors of other objects are not reported");
    }
}
