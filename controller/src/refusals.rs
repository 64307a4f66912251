//! What the data plane could not use, as problems. A refusal stands until its part is sent again or removed.

use std::collections::BTreeMap;

use sluice_config::{Change, Delta, ObjectRef, Problem, Report};

use crate::problem::error;

/// Standing refusals, by subject.
#[derive(Debug, Default)]
pub struct Refusals(BTreeMap<String, String>);

impl Refusals {
    /// Before a delta is applied: what it says anew is no longer refused. Returns whether that changes
    /// anything.
    pub fn forget(&mut self, delta: &Delta) -> bool {
        let before = self.0.len();
        if before > 0 {
            subjects("certificate", &delta.certificates).for_each(|subject| drop(self.0.remove(&subject)));
            subjects("endpoints", &delta.endpoint_sets).for_each(|subject| drop(self.0.remove(&subject)));
            let resources = delta.resources.iter().map(|change| format!("resource {}", change.key()));
            resources.for_each(|subject| drop(self.0.remove(&subject)));
            subjects("pool", &delta.pools).for_each(|subject| drop(self.0.remove(&subject)));
            let hosts = delta.hosts.iter().map(|change| format!("host {}", change.key().pattern));
            hosts.for_each(|subject| drop(self.0.remove(&subject)));
            if delta.tuning.is_some() || !delta.groups.is_empty() {
                self.0.retain(|subject, _| {
                    let part = subject.split(' ').next();
                    matches!(part, Some("certificate" | "endpoints" | "pool" | "host" | "resource"))
                });
            }
        }
        self.0.len() != before
    }

    /// Takes in what the data plane says of a delta. Returns whether anything is new.
    pub fn take(&mut self, report: &Report) -> bool {
        let Report::Applied { refused, .. } = report else { return false };
        for refusal in refused {
            self.0.insert(refusal.subject.clone(), refusal.reason.clone());
        }
        !refused.is_empty()
    }

    /// As problems.
    pub fn problems(&self) -> impl Iterator<Item = Problem> {
        self.0.iter().map(|(subject, reason)| {
            let (part, name) = subject.split_once(' ').unwrap_or((subject, ""));
            let object = match (part, name.split_once('/')) {
                ("certificate", Some((namespace, name))) => ObjectRef::new("Secret", namespace, name),
                _ => ObjectRef::new(part, "", name),
            };
            let fate = match part {
                "resource" => "routes that need it answer 503",
                "host" => "every path of the host answers 503",
                _ => "what it had before stays in force",
            };
            let message = format!("refused by the data plane: {reason}; {fate}");
            error(&object, "", message, "correct the object; it is tried again when it changes")
        })
    }
}

fn subjects<K: std::fmt::Display, V>(part: &str, changes: &[Change<K, V>]) -> impl Iterator<Item = String> {
    changes.iter().map(move |change| format!("{part} {}", change.key()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_config::{Generation, NamespacedName, Refusal};

    use super::*;

    #[test]
    fn a_refusal_stands_until_its_part_is_sent_again() {
        let mut refusals = Refusals::default();
        let report = |refused| Report::Applied { generation: Generation(1), took: Duration::ZERO, refused };
        let refusal = Refusal { subject: "certificate shop/tls".into(), reason: "bad curve".into() };
        assert!(refusals.take(&report(vec![refusal])));
        assert!(!refusals.take(&report(vec![])));
        let problem = refusals.problems().next().unwrap();
        assert_eq!(problem.object, ObjectRef::new("Secret", "shop", "tls"));
        assert!(!refusals.forget(&Delta::default()));
        let again = Delta {
            certificates: vec![Change::Remove(NamespacedName::new("shop", "tls"))],
            ..Delta::default()
        };
        assert!(refusals.forget(&again));
        assert_eq!(refusals.problems().count(), 0);
    }
}
