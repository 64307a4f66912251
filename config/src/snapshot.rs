//! Snapshots: the state after a sequence of deltas.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::certificate::{Certificate, CertificateId};
use crate::delta::{Change, Delta, Generation};
use crate::endpoint::{EndpointSet, EndpointSetKey};
use crate::global_settings::GlobalSettings;
use crate::host::{Host, HostKey};
use crate::listener::{GroupId, ListenerGroup};
use crate::pool::{Pool, PoolKey};
use crate::resource::{Resource, ResourceKey};

/// The complete state of the data plane. Data planes with equal snapshots serve requests equally.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Whether a complete state was reached.
    pub complete: bool,
    /// Global settings.
    pub settings: Arc<GlobalSettings>,
    /// Certificates by Secret.
    pub certificates: BTreeMap<CertificateId, Arc<Certificate>>,
    /// Resources.
    pub resources: BTreeMap<ResourceKey, Arc<Resource>>,
    /// Endpoint sets by Service port.
    pub endpoint_sets: BTreeMap<EndpointSetKey, Arc<EndpointSet>>,
    /// Pools.
    pub pools: BTreeMap<PoolKey, Arc<Pool>>,
    /// Hosts.
    pub hosts: BTreeMap<HostKey, Arc<Host>>,
    /// Listener groups.
    pub groups: BTreeMap<GroupId, Arc<ListenerGroup>>,
}

impl Snapshot {
    /// Applies a delta.
    pub fn apply(&mut self, delta: &Delta) {
        self.complete |= delta.complete;
        if let Some(settings) = &delta.settings {
            self.settings = settings.clone();
        }
        fold(&mut self.certificates, &delta.certificates);
        fold(&mut self.resources, &delta.resources);
        fold(&mut self.endpoint_sets, &delta.endpoint_sets);
        fold(&mut self.pools, &delta.pools);
        fold(&mut self.hosts, &delta.hosts);
        fold(&mut self.groups, &delta.groups);
    }

    /// Returns the delta that brings an empty data plane to this state.
    pub fn to_delta(&self, generation: Generation) -> Delta {
        Delta {
            generation,
            complete: self.complete,
            settings: Some(self.settings.clone()),
            certificates: puts(&self.certificates),
            resources: puts(&self.resources),
            endpoint_sets: puts(&self.endpoint_sets),
            pools: puts(&self.pools),
            hosts: puts(&self.hosts),
            groups: puts(&self.groups),
        }
    }
}

fn fold<K: Ord + Clone, V: Clone>(map: &mut BTreeMap<K, V>, changes: &[Change<K, V>]) {
    for change in changes {
        match change {
            Change::Put(key, value) => {
                map.insert(key.clone(), value.clone());
            }
            Change::Remove(key) => {
                map.remove(key);
            }
        }
    }
}

fn puts<K: Clone, V: Clone>(map: &BTreeMap<K, V>) -> Vec<Change<K, V>> {
    map.iter().map(|(key, value)| Change::Put(key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_snapshot_replayed_as_one_delta_is_equal_and_survives_json() {
        let key = EndpointSetKey { namespace: "n".into(), service: "s".into(), port: "".into() };
        let set = Arc::new(EndpointSet { key: key.clone(), endpoints: Vec::new() });
        let mut state = Snapshot::default();
        state.apply(&Delta {
            generation: Generation(1),
            complete: true,
            settings: Some(Arc::new(GlobalSettings {
                keep_alive: Duration::from_secs(5),
                ..GlobalSettings::default()
            })),
            endpoint_sets: vec![Change::Put(key, set)],
            ..Delta::default()
        });
        let text = serde_json::to_string(&state.to_delta(Generation(2)).endpoint_sets).unwrap();
        let read: Vec<Change<EndpointSetKey, Arc<EndpointSet>>> = serde_json::from_str(&text).unwrap();
        let mut other = Snapshot::default();
        other.apply(&Delta { endpoint_sets: read, ..state.to_delta(Generation(1)) });
        assert_eq!(state, other);
    }
}
