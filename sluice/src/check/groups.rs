//! Groups of similar problems with their objects. A report of thousands of single problems would be
//! useless.
//!
//! A group contains the problems of one kind with one annotation, key or field. It lists its
//! causes, each with a description, the remedy and the objects. Errors come first; larger groups
//! precede smaller ones.

use std::collections::{BTreeMap, BTreeSet};

use sluice_config::{Code, ObjectRef, Problem, Severity};

/// Problems of one kind with one annotation, key or field.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ProblemGroup<'p> {
    pub(super) severity: Severity,
    /// The annotation, the ConfigMap key, or the field without its indices; empty if the problem
    /// concerns the whole object.
    pub(super) subject: String,
    pub(super) code: Code,
    /// Number of problems.
    pub(super) count: usize,
    /// Number of objects.
    pub(super) objects: usize,
    /// The most frequent cause first.
    pub(super) causes: Vec<Cause<'p>>,
}

/// Problems with the same message, and with messages that differ only in a name or two.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cause<'p> {
    pub(super) message: &'p str,
    pub(super) remedy: &'p str,
    pub(super) objects: BTreeSet<&'p ObjectRef>,
    /// Objects with a similar message.
    pub(super) alike: BTreeSet<&'p ObjectRef>,
}

/// Maximum number of similar causes that are listed separately.
const APART: usize = 3;
/// Maximum number of problems that are listed beside a difference of responses.
const RELATED: usize = 3;
/// Maximum number of kinds of causes with which other causes are compared.
const KINDS: usize = 50;

/// Number of problems of a severity, and of objects that have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Total {
    pub(super) problems: usize,
    pub(super) objects: usize,
}

impl Total {
    pub(super) fn of(problems: &[Problem], severity: Severity) -> Self {
        let those = || problems.iter().filter(|problem| problem.severity == severity);
        let objects: BTreeSet<_> = those().map(|problem| &problem.object).collect();
        Self { problems: those().count(), objects: objects.len() }
    }
}

/// Returns all groups.
pub(super) fn groups(problems: &[Problem]) -> Vec<ProblemGroup<'_>> {
    let mut by_group: BTreeMap<_, Vec<&Problem>> = BTreeMap::new();
    for problem in problems {
        by_group.entry((problem.severity, subject(&problem.field), problem.code)).or_default().push(problem);
    }
    let mut groups: Vec<ProblemGroup<'_>> = by_group
        .into_iter()
        .map(|((severity, subject, code), problems)| ProblemGroup {
            severity,
            subject,
            code,
            count: problems.len(),
            objects: problems.iter().map(|problem| &problem.object).collect::<BTreeSet<_>>().len(),
            causes: causes(&problems),
        })
        .collect();
    groups.sort_by_key(|group| (group.severity, std::cmp::Reverse(group.count)));
    groups
}

fn causes<'p>(problems: &[&'p Problem]) -> Vec<Cause<'p>> {
    let mut by_words: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    for problem in problems {
        let words = (problem.message.as_str(), problem.remedy.as_str());
        by_words.entry(words).or_default().insert(&problem.object);
    }
    let cause = |((message, remedy), objects)| Cause { message, remedy, objects, alike: BTreeSet::new() };
    let mut causes: Vec<_> = by_words.into_iter().map(cause).collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.objects.len()));
    let mut kinds: Vec<Vec<Cause<'_>>> = Vec::new();
    for cause in causes {
        match kinds
            .iter_mut()
            .take(KINDS)
            .find(|kind| kind.first().is_some_and(|first| first.is_like(&cause)))
        {
            Some(kind) => kind.push(cause),
            None => kinds.push(vec![cause]),
        }
    }
    kinds.into_iter().flat_map(merged).collect()
}

/// Merges similar causes into one.
fn merged(kind: Vec<Cause<'_>>) -> Vec<Cause<'_>> {
    if kind.len() <= APART {
        return kind;
    }
    let mut kind = kind.into_iter();
    let Some(mut first) = kind.next() else { return Vec::new() };
    first.alike = kind.flat_map(|cause| cause.objects).collect();
    vec![first]
}

impl Cause<'_> {
    /// Returns whether another cause has the same message except for a few words, such as the names
    /// of hosts and Secrets.
    fn is_like(&self, other: &Self) -> bool {
        let words = |cause: &Self| [cause.message, cause.remedy].map(|text| text.split(' ').count());
        if words(self) != words(other) {
            return false;
        }
        let pairs = [(self.message, other.message), (self.remedy, other.remedy)];
        let pairs = pairs.iter().flat_map(|(one, other)| one.split(' ').zip(other.split(' ')));
        let (count, different) = pairs.fold((0, 0), |(count, different), (one, other)| {
            (count + 1, different + usize::from(one != other))
        });
        different * 4 <= count
    }
}

/// Returns the subject of a field: the name of an annotation or key, or the field without its
/// indices.
fn subject(field: &str) -> String {
    for named in ["metadata.annotations[", "data["] {
        if let Some(name) = field.strip_prefix(named).and_then(|rest| rest.strip_suffix(']')) {
            return name.to_owned();
        }
    }
    let mut subject = String::with_capacity(field.len());
    let mut rest = field;
    while let Some((before, after)) = rest.split_once('[') {
        let Some((index, behind)) = after.split_once(']') else { break };
        subject.push_str(before);
        let number = !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit());
        subject.push_str(&if number { "[]".to_owned() } else { format!("[{index}]") });
        rest = behind;
    }
    subject + rest
}

/// Returns the problems of the object, which may explain a difference.
pub(super) fn related<'p>(
    problems: &'p [Problem],
    object: Option<&str>,
) -> impl Iterator<Item = &'p Problem> {
    let is = move |other: &ObjectRef| object.is_some_and(|object| other.to_string() == object);
    problems.iter().filter(move |problem| is(&problem.object)).take(RELATED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(severity: Severity, name: &str, field: &str, message: &str) -> Problem {
        Problem {
            object: ObjectRef::new("Ingress", "shop", name),
            uid: None,
            field: field.to_owned(),
            severity,
            code: Code::AnnotationInvalid,
            message: message.to_owned(),
            remedy: "mend it".to_owned(),
        }
    }

    #[test]
    fn a_subject_is_a_name_or_a_field_without_its_indices() {
        for (field, expected) in [
            (
                "metadata.annotations[nginx.ingress.kubernetes.io/auth-url]",
                "nginx.ingress.kubernetes.io/auth-url",
            ),
            ("data[keep-alive]", "keep-alive"),
            ("spec.rules[12].http.paths[3].path", "spec.rules[].http.paths[].path"),
            ("spec.selector[app]", "spec.selector[app]"),
            ("spec.broken[1", "spec.broken[1"),
            ("", ""),
        ] {
            assert_eq!(subject(field), expected);
        }
    }

    #[test]
    fn errors_come_first_then_the_largest_and_the_same_words_are_said_once() {
        let annotation = "metadata.annotations[a]";
        let problems = [
            problem(Severity::Warning, "a", annotation, "odd"),
            problem(Severity::Error, "a", "spec.rules[0].host", "bad host"),
            problem(Severity::Error, "a", annotation, "no number: x"),
            problem(Severity::Error, "b", annotation, "no number: y"),
            problem(Severity::Error, "c", annotation, "no number: y"),
        ];
        let groups = groups(&problems);
        let seen: Vec<_> =
            groups.iter().map(|group| (group.severity, group.subject.as_str(), group.count)).collect();
        assert_eq!(
            seen,
            [
                (Severity::Error, "a", 3),
                (Severity::Error, "spec.rules[].host", 1),
                (Severity::Warning, "a", 1)
            ]
        );
        let causes: Vec<_> =
            groups[0].causes.iter().map(|cause| (cause.message, cause.objects.len())).collect();
        assert_eq!(causes, [("no number: y", 2), ("no number: x", 1)]);
        assert_eq!(Total::of(&problems, Severity::Error), Total { problems: 4, objects: 3 });
    }

    #[test]
    fn what_differs_by_a_name_is_said_once_from_the_fourth_on() {
        let words =
            |number: usize| format!("Secret team-{number}/users does not exist; the routes answer 503");
        let problems = |count: usize| -> Vec<Problem> {
            let one = |number: usize| problem(Severity::Error, &format!("i{number}"), "a", &words(number));
            let mut all: Vec<Problem> = (0..count).map(one).collect();
            all.push(problem(
                Severity::Error,
                "other",
                "a",
                "something quite different is wrong with this one",
            ));
            all
        };
        let counted = |problems: &[Problem]| -> Vec<(usize, usize)> {
            let groups = groups(problems);
            groups[0].causes.iter().map(|cause| (cause.objects.len(), cause.alike.len())).collect()
        };
        assert_eq!(counted(&problems(3)), [(1, 0); 4]);
        let many = counted(&problems(30));
        assert!(many.len() == 2 && many.contains(&(1, 29)) && many.contains(&(1, 0)), "{many:?}");
    }
}
