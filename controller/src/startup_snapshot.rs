//! Service from an earlier state while the current one cannot be read.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_config::{Change, Delta, GlobalSettings, ListenerGroup, Snapshot};

/// The earlier state that the data plane serves.
pub(crate) struct StartupSnapshot(Snapshot);

impl StartupSnapshot {
    /// Prepares `earlier` for service with the listener group `group` of the flags. Addresses are
    /// those of `earlier`, because a ConfigMap that is unreadable now may have set them. Ports are
    /// those of the flags.
    pub(crate) fn new(mut earlier: Snapshot, group: &Arc<ListenerGroup>) -> (Self, Delta) {
        let mut standing = ListenerGroup::clone(group);
        let addresses = |old: &Arc<ListenerGroup>| Some(old.binds.first()?.addresses.clone());
        if let Some(addresses) = earlier.groups.get(&group.id).and_then(addresses) {
            standing.binds.iter_mut().for_each(|bind| bind.addresses.clone_from(&addresses));
        }
        earlier.groups = [(group.id.clone(), Arc::new(standing))].into();
        earlier.complete = true;
        let delta = earlier.to_delta(Default::default());
        (Self(earlier), delta)
    }

    /// Converts the first delta of the current state to one relative to the earlier state: equal
    /// values are omitted, absent ones removed.
    pub(crate) fn leave(self, delta: &mut Delta, settings: &Arc<GlobalSettings>, group: &Arc<ListenerGroup>) {
        let Self(earlier) = self;
        if earlier.settings != *settings {
            delta.settings.get_or_insert_with(|| settings.clone());
        } else {
            delta.settings = None;
        }
        delta.groups = Vec::new();
        if earlier.groups.get(&group.id) != Some(group) {
            delta.groups.push(Change::Put(group.id.clone(), group.clone()));
        }
        difference(earlier.certificates, &mut delta.certificates);
        difference(earlier.resources, &mut delta.resources);
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
    fn earlier_addresses_and_present_ports() {
        let bind = |address: [u8; 4], port| sluice_config::Bind {
            addresses: vec![address.into()],
            port,
            declared_port: 80,
            protocol: sluice_config::BindProtocol::Http,
            source: "--http-port".into(),
        };
        let group = |bind| Arc::new(ListenerGroup { binds: vec![bind], ..ListenerGroup::clone(&group()) });
        let earlier = Snapshot {
            groups: [(GroupId::ingress(), group(bind([127, 0, 0, 1], 80)))].into(),
            ..Snapshot::default()
        };
        let now = group(bind([0, 0, 0, 0], 8080));
        let (_, delta) = StartupSnapshot::new(earlier, &now);
        assert_eq!(delta.groups, [Change::Put(GroupId::ingress(), group(bind([127, 0, 0, 1], 8080)))]);
        let (_, delta) = StartupSnapshot::new(Snapshot::default(), &now);
        assert_eq!(delta.groups, [Change::Put(GroupId::ingress(), now)]);
    }

    #[test]
    fn leaving_puts_what_is_new_or_another_and_removes_what_is_gone() {
        let earlier = Snapshot {
            endpoint_sets: [set("same", 1), set("other", 1), set("gone", 1)].into(),
            groups: [(GroupId::ingress(), group())].into(),
            ..Snapshot::default()
        };
        let (startup_snapshot, delta) = StartupSnapshot::new(earlier.clone(), &group());
        assert!(delta.complete);
        assert_eq!(delta.endpoint_sets.len(), 3);
        let puts = [set("same", 1), set("other", 2), set("new", 1)];
        let mut next = Delta {
            endpoint_sets: puts.into_iter().map(|(key, set)| Change::Put(key, set)).collect(),
            ..Delta::default()
        };
        startup_snapshot.leave(&mut next, &earlier.settings, &group());
        let put = |(key, set)| Change::Put(key, set);
        assert_eq!(
            next.endpoint_sets,
            [put(set("other", 2)), put(set("new", 1)), Change::Remove(set("gone", 1).0)]
        );
        assert!(next.settings.is_none() && next.groups.is_empty());
    }
}
