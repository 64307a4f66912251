//! Service from an earlier state while the current one cannot be read.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_config::{Change, Delta, GlobalSettings, GroupId, ListenerGroup, Snapshot};

/// The earlier state that the data plane serves.
pub(crate) struct StartupSnapshot(Snapshot);

impl StartupSnapshot {
    /// Prepares `earlier` for service with the listener group `group` of the flags. Addresses are
    /// those of `earlier`, because a ConfigMap that is unreadable now may have set them. Ports are
    /// those of the flags. `keeps` selects the other groups that are served.
    pub(crate) fn new(
        mut earlier: Snapshot,
        group: &Arc<ListenerGroup>,
        keeps: impl Fn(&ListenerGroup) -> bool,
    ) -> (Self, Delta) {
        let mut standing = ListenerGroup::clone(group);
        let addresses = |old: &Arc<ListenerGroup>| Some(old.binds.first()?.addresses.clone());
        if let Some(addresses) = earlier.groups.get(&group.id).and_then(addresses) {
            standing.binds.iter_mut().for_each(|bind| bind.addresses.clone_from(&addresses));
        }
        earlier.groups.retain(|id, earlier| *id != group.id && keeps(earlier));
        earlier.groups.insert(group.id.clone(), Arc::new(standing));
        earlier.complete = true;
        let delta = earlier.to_delta(Default::default());
        (Self(earlier), delta)
    }

    /// Converts the first delta of the current state to one relative to the earlier state: equal
    /// values are omitted, absent ones removed.
    pub(crate) fn leave(
        self,
        delta: &mut Delta,
        settings: &Arc<GlobalSettings>,
        groups: BTreeMap<GroupId, Arc<ListenerGroup>>,
    ) {
        let Self(earlier) = self;
        if earlier.settings != *settings {
            delta.settings.get_or_insert_with(|| settings.clone());
        } else {
            delta.settings = None;
        }
        delta.groups = groups.into_iter().map(|(id, group)| Change::Put(id, group)).collect();
        difference(earlier.groups, &mut delta.groups);
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
    use sluice_config::{EndpointSet, EndpointSetKey, StreamKey, TransportProtocol};

    use super::*;

    fn set(service: &str, endpoints: u16) -> (EndpointSetKey, Arc<EndpointSet>) {
        let key = EndpointSetKey { namespace: "n".into(), service: service.into(), port: "".into() };
        let endpoint = |n| sluice_config::Endpoint { address: ([10, 0, 0, 1], 80 + n).into(), zone: None };
        (key.clone(), Arc::new(EndpointSet { key, endpoints: (0..endpoints).map(endpoint).collect() }))
    }

    fn group() -> Arc<ListenerGroup> {
        named(GroupId::ingress())
    }

    fn named(id: GroupId) -> Arc<ListenerGroup> {
        let (binds, listeners) = (Vec::new(), Vec::new());
        Arc::new(ListenerGroup { id, binds, listeners, required: true, stream: None })
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
        let (_, delta) = StartupSnapshot::new(earlier, &now, |_| true);
        assert_eq!(delta.groups, [Change::Put(GroupId::ingress(), group(bind([127, 0, 0, 1], 8080)))]);
        let (_, delta) = StartupSnapshot::new(Snapshot::default(), &now, |_| true);
        assert_eq!(delta.groups, [Change::Put(GroupId::ingress(), now)]);
    }

    #[test]
    fn leaving_sends_changed_objects_and_removes_missing_ones() {
        let earlier = Snapshot {
            endpoint_sets: [set("same", 1), set("other", 1), set("gone", 1)].into(),
            groups: [(GroupId::ingress(), group())].into(),
            ..Snapshot::default()
        };
        let (startup_snapshot, delta) = StartupSnapshot::new(earlier.clone(), &group(), |_| true);
        assert!(delta.complete);
        assert_eq!(delta.endpoint_sets.len(), 3);
        let puts = [set("same", 1), set("other", 2), set("new", 1)];
        let mut next = Delta {
            endpoint_sets: puts.into_iter().map(|(key, set)| Change::Put(key, set)).collect(),
            ..Delta::default()
        };
        startup_snapshot.leave(&mut next, &earlier.settings, [(GroupId::ingress(), group())].into());
        let put = |(key, set)| Change::Put(key, set);
        assert_eq!(
            next.endpoint_sets,
            [put(set("other", 2)), put(set("new", 1)), Change::Remove(set("gone", 1).0)]
        );
        assert!(next.settings.is_none() && next.groups.is_empty());
    }

    #[test]
    fn further_groups_are_served_as_far_as_the_flags_have_them() {
        let id = |port| GroupId::stream(StreamKey { transport: TransportProtocol::Tcp, port });
        let groups = [id(1), id(2), id(3)].map(|id| (id.clone(), named(id)));
        let earlier = Snapshot { groups: groups.into(), ..Snapshot::default() };
        let (startup_snapshot, delta) =
            StartupSnapshot::new(earlier.clone(), &group(), |group| group.id != id(3));
        let served: Vec<&GroupId> = delta.groups.iter().map(Change::key).collect();
        assert_eq!(served, [&GroupId::ingress(), &id(1), &id(2)]);
        let mut next = Delta::default();
        let now = [GroupId::ingress(), id(2), id(4)].map(|id| (id.clone(), named(id)));
        startup_snapshot.leave(&mut next, &earlier.settings, now.into());
        assert_eq!(next.groups, [Change::Put(id(4), named(id(4))), Change::Remove(id(1))]);
    }
}
