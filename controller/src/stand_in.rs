//! An earlier state that is served while the present one cannot be read, and how it is left again.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_config::{Change, Delta, ListenerGroup, Snapshot, Tuning};

/// The state that the data plane was brought to in the meantime.
pub(crate) struct StandIn(Snapshot);

impl StandIn {
    /// Stands `earlier` in; `group` is what flags say now. The earlier addresses count, but not where flags
    /// have come to ask for other ports: those are what somebody waits for.
    pub(crate) fn new(mut earlier: Snapshot, group: &Arc<ListenerGroup>) -> (Self, Delta) {
        let ports = |group: &ListenerGroup| {
            group.binds.iter().map(|bind| (bind.port, bind.protocol)).collect::<Vec<_>>()
        };
        earlier.groups.retain(|id, old| *id == group.id && ports(old) == ports(group));
        earlier.complete = true;
        let delta = earlier.to_delta(Default::default());
        (Self(earlier), delta)
    }

    /// Makes the first delta of the present state one from the earlier state: what is equal is left out, what
    /// is no more is removed.
    pub(crate) fn leave(self, delta: &mut Delta, tuning: &Arc<Tuning>, group: &Arc<ListenerGroup>) {
        let Self(earlier) = self;
        if earlier.tuning != *tuning {
            delta.tuning.get_or_insert_with(|| tuning.clone());
        } else {
            delta.tuning = None;
        }
        delta.groups = Vec::new();
        if earlier.groups.get(&group.id) != Some(group) {
            delta.groups.push(Change::Put(group.id.clone(), group.clone()));
        }
        difference(earlier.certificates, &mut delta.certificates);
        difference(earlier.endpoint_sets, &mut delta.endpoint_sets);
        difference(earlier.pools, &mut delta.pools);
        difference(earlier.hosts, &mut delta.hosts);
    }
}

fn difference<K: Ord, V: PartialEq>(mut earlier: BTreeMap<K, V>, changes: &mut Vec<Change<K, V>>) {
    changes.retain(|change| match change {
        Change::Put(key, value) => earlier.remove(key).is_none_or(|old| old != *value),
        Change::Remove(_) => false,
    });
    changes.extend(earlier.into_keys().map(Change::Remove));
}

#[cfg(test)]
mod tests {
    use sluice_config::{EndpointSet, EndpointSetKey, GroupId};

    use super::*;

    fn set(service: &str, endpoints: u16) -> (EndpointSetKey, Arc<EndpointSet>) {
        let key = EndpointSetKey { namespace: "n".into(), service: service.into(), port: "".into() };
        let endpoint = |n| sluice_config::Endpoint { address: ([10, 0, 0, 1], 80 + n).into(), zone: None };
        (key.clone(), Arc::new(EndpointSet { key, endpoints: (0..endpoints).map(endpoint).collect() }))
    }

    fn group() -> Arc<ListenerGroup> {
        Arc::new(ListenerGroup { id: GroupId::ingress(), binds: Vec::new(), listeners: Vec::new() })
    }

    #[test]
    fn leaving_puts_what_is_new_or_another_and_removes_what_is_gone() {
        let earlier = Snapshot {
            endpoint_sets: [set("same", 1), set("other", 1), set("gone", 1)].into(),
            groups: [(GroupId::ingress(), group())].into(),
            ..Snapshot::default()
        };
        let (stand_in, delta) = StandIn::new(earlier.clone(), &group());
        assert!(delta.complete);
        assert_eq!(delta.endpoint_sets.len(), 3);
        let puts = [set("same", 1), set("other", 2), set("new", 1)];
        let mut next = Delta {
            endpoint_sets: puts.into_iter().map(|(key, set)| Change::Put(key, set)).collect(),
            ..Delta::default()
        };
        stand_in.leave(&mut next, &earlier.tuning, &group());
        let put = |(key, set)| Change::Put(key, set);
        assert_eq!(
            next.endpoint_sets,
            [put(set("other", 2)), put(set("new", 1)), Change::Remove(set("gone", 1).0)]
        );
        assert!(next.tuning.is_none() && next.groups.is_empty());
    }
}
