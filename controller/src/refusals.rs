//! Refusals of the data plane. A refusal stands until its part is sent again or removed, or until
//! the data plane accepts it.

use std::collections::BTreeMap;

use sluice_config::{Change, Code, Delta, ObjectRef, Problem, Refusal, Report, Subject};

use crate::problem::error;

/// Standing refusals, by subject.
#[derive(Debug, Default)]
pub(crate) struct Refusals(BTreeMap<Subject, Refusal>);

/// An affected object and its field.
pub(crate) type AffectedField = (ObjectRef, String);

impl Refusals {
    /// Forgets the refusals of parts that `delta` sends or removes. Call it before the delta is
    /// applied. Returns the forgotten subjects.
    pub(crate) fn forget(&mut self, delta: &Delta) -> Vec<Subject> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut said: Vec<Subject> = Vec::new();
        said.extend(delta.settings.is_some().then_some(Subject::GlobalSettings));
        said.extend(subjects(&delta.certificates, Subject::Certificate));
        said.extend(subjects(&delta.endpoint_sets, Subject::EndpointSet));
        said.extend(subjects(&delta.resources, Subject::Resource));
        said.extend(subjects(&delta.pools, Subject::Pool));
        said.extend(subjects(&delta.hosts, Subject::Host));
        said.extend(subjects(&delta.groups, Subject::Group));
        said.retain(|subject| self.0.remove(subject).is_some());
        said
    }

    /// Records the refusals of a report. Returns the subjects that are refused now, or no longer.
    pub(crate) fn take(&mut self, report: &Report) -> Vec<Subject> {
        let Report::Applied { refused, accepted, .. } = report else { return Vec::new() };
        let mut changed: Vec<Subject> =
            accepted.iter().filter(|subject| self.0.remove(subject).is_some()).cloned().collect();
        for refusal in refused {
            self.0.insert(refusal.subject.clone(), refusal.clone());
            changed.push(refusal.subject.clone());
        }
        changed
    }

    /// Returns the standing refusal of `subject`.
    pub(crate) fn get(&self, subject: &Subject) -> Option<&Refusal> {
        self.0.get(subject)
    }
}

/// Returns the problems of the objects that `refusal` affects.
pub(crate) fn problems(refusal: &Refusal, affected: Vec<AffectedField>) -> Vec<Problem> {
    let Refusal { subject, code, reason, .. } = refusal;
    let fate = match subject {
        Subject::Host(_) => "every path of the host answers 503",
        Subject::Resource(_) => "routes that need it answer 503",
        Subject::Pool(_) => "its endpoints are served unchecked",
        _ => "what it had before stays in force",
    };
    let message = format!("the data plane refuses {subject}: {reason}; {fate}");
    let remedy = match code {
        Code::HealthCheckRefused => {
            "correct the object, or ask for fewer different checks of its Service port; \
             it is tried again when the object changes, or there is room"
        }
        _ => "correct the object; it is tried again when it changes",
    };
    let one = |(object, field): AffectedField| error(*code, &object, field, message.as_str(), remedy);
    affected.into_iter().map(one).collect()
}

fn subjects<'a, K: Clone, V>(
    changes: &'a [Change<K, V>],
    subject: impl Fn(K) -> Subject + 'a,
) -> impl Iterator<Item = Subject> + 'a {
    changes.iter().map(move |change| subject(change.key().clone()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_config::{Generation, NamespacedName};

    use super::*;

    #[test]
    fn a_refusal_stands_until_its_part_is_sent_again() {
        let mut refusals = Refusals::default();
        let report = |refused, accepted| {
            let (generation, took) = (Generation(1), Duration::ZERO);
            Report::Applied { generation, took, refused, accepted }
        };
        let subject = Subject::Certificate(NamespacedName::new("shop", "tls"));
        let refusal = Refusal {
            subject: subject.clone(),
            origin: None,
            code: Code::CertificateRefused,
            reason: "bad curve".into(),
        };
        assert_eq!(refusals.take(&report(vec![refusal.clone()], vec![])), std::slice::from_ref(&subject));
        assert_eq!(refusals.take(&report(vec![], vec![])), []);
        assert!(refusals.get(&subject).is_some());
        assert_eq!(refusals.forget(&Delta::default()), []);
        let again = Delta {
            certificates: vec![Change::Remove(NamespacedName::new("shop", "tls"))],
            ..Delta::default()
        };
        assert_eq!(refusals.forget(&again), std::slice::from_ref(&subject));
        assert!(refusals.get(&subject).is_none());
        refusals.take(&report(vec![refusal], vec![]));
        let accepted = report(vec![], vec![subject.clone()]);
        assert_eq!(refusals.take(&accepted), std::slice::from_ref(&subject), "it is used after all");
        assert!(refusals.get(&subject).is_none());
    }
}
