//! The last changes of the configuration: what changed, when it took effect, and how long that
//! took.
//!
//! Changes of endpoints, which are frequent, have a list of their own, so that they do not displace
//! others.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use sluice_config::{Change, Delta, Refusal};

/// Number of changes in each list.
const CHANGES: usize = 50;
/// Number of names of each kind in a change.
const NAMES: usize = 8;

/// A change that took effect.
#[derive(Clone, Debug)]
pub(crate) struct AppliedChange {
    /// Its number.
    pub(crate) generation: u64,
    /// When it took effect.
    pub(crate) at: SystemTime,
    /// How long that took.
    pub(crate) took: Duration,
    /// What changed, by kind.
    pub(crate) parts: Vec<ChangedPart>,
    /// Number of parts that were refused.
    pub(crate) refused: usize,
}

/// The changed entries of one kind.
#[derive(Clone, Debug)]
pub(crate) struct ChangedPart {
    /// The kind in plural.
    pub(crate) kind: &'static str,
    /// Number of added and changed entries.
    pub(crate) put: usize,
    /// Number of removed entries.
    pub(crate) removed: usize,
    /// The first names.
    pub(crate) names: Vec<String>,
}

/// The last changes.
#[derive(Debug, Default)]
pub(crate) struct ChangeLog(Mutex<Lists>);

#[derive(Debug, Default)]
struct Lists {
    configuration: VecDeque<AppliedChange>,
    endpoints: VecDeque<AppliedChange>,
}

impl ChangeLog {
    /// Records an applied delta.
    pub(super) fn record(&self, delta: &Delta, took: Duration, refused: &[Refusal]) {
        let mut parts = Vec::new();
        if delta.settings.is_some() {
            parts.push(ChangedPart { kind: "settings", put: 1, removed: 0, names: Vec::new() });
        }
        parts.extend(part("hosts", &delta.hosts, |key| &key.pattern));
        parts.extend(part("certificates", &delta.certificates, |key| key));
        parts.extend(part("resources", &delta.resources, |key| key));
        parts.extend(part("listeners", &delta.groups, |key| key));
        let is_of_endpoints = parts.is_empty() && delta.pools.is_empty();
        parts.extend(part("pools", &delta.pools, |key| key));
        parts.extend(part("endpoint sets", &delta.endpoint_sets, |key| key));
        let change = AppliedChange {
            generation: delta.generation.0,
            at: SystemTime::now(),
            took,
            parts,
            refused: refused.len(),
        };
        // Poisoning can be ignored: the lists are consistent after each statement.
        let mut lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let list = if is_of_endpoints { &mut lists.endpoints } else { &mut lists.configuration };
        list.truncate(CHANGES - 1);
        list.push_front(change);
    }

    /// Returns the last changes of endpoints alone, newest first.
    pub(crate) fn of_endpoints(&self) -> Vec<AppliedChange> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).endpoints.iter().cloned().collect()
    }

    /// Returns the last other changes, newest first.
    pub(crate) fn of_configuration(&self) -> Vec<AppliedChange> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).configuration.iter().cloned().collect()
    }

    /// Returns the last change of any kind.
    pub(crate) fn last(&self) -> Option<AppliedChange> {
        let lists = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = [lists.configuration.front(), lists.endpoints.front()];
        newest.into_iter().flatten().max_by_key(|change| change.generation).cloned()
    }
}

fn part<K, V, N: Display>(
    kind: &'static str,
    changes: &[Change<K, V>],
    name: impl Fn(&K) -> &N,
) -> Option<ChangedPart> {
    if changes.is_empty() {
        return None;
    }
    let put = changes.iter().filter(|change| matches!(change, Change::Put(..))).count();
    let names = changes.iter().take(NAMES).map(|change| name(change.key()).to_string()).collect();
    Some(ChangedPart { kind, put, removed: changes.len() - put, names })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sluice_config::{EndpointSet, EndpointSetKey, Generation, GlobalSettings};

    use super::*;

    fn endpoints(generation: u64, sets: usize) -> Delta {
        let set = |number: usize| {
            let service = format!("web-{number}");
            let key = EndpointSetKey {
                namespace: "shop".into(),
                service: service.as_str().into(),
                port: "80".into(),
            };
            Change::Put(key.clone(), Arc::new(EndpointSet { key, endpoints: Vec::new() }))
        };
        Delta {
            generation: Generation(generation),
            endpoint_sets: (0..sets).map(set).collect(),
            ..Delta::default()
        }
    }

    #[test]
    fn many_changes_of_endpoints_displace_no_other() {
        let log = ChangeLog::default();
        let settings = Some(Arc::new(GlobalSettings::default()));
        log.record(&Delta { generation: Generation(1), settings, ..Delta::default() }, Duration::ZERO, &[]);
        for generation in 2..200 {
            log.record(&endpoints(generation, 1), Duration::ZERO, &[]);
        }
        assert_eq!(log.of_configuration().len(), 1);
        assert_eq!(log.of_configuration()[0].parts[0].kind, "settings");
        let of_endpoints = log.of_endpoints();
        assert_eq!((of_endpoints.len(), of_endpoints[0].generation), (CHANGES, 199));
        assert_eq!(log.last().unwrap().generation, 199);
    }

    #[test]
    fn a_large_change_is_recorded_with_its_first_names() {
        let log = ChangeLog::default();
        log.record(&endpoints(1, 5000), Duration::ZERO, &[]);
        let part = log.last().unwrap().parts.remove(0);
        assert_eq!((part.put, part.removed, part.names.len()), (5000, 0, NAMES));
        assert_eq!(part.names[0], "shop/web-0:80");
    }
}
