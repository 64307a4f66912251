//! Reference counts of pools, endpoint sets, certificates and resources, and their copies in the
//! data plane.
//!
//! These exist only while they are referenced. During an update the state before it is kept, so
//! that adding and removing one has no effect.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::mem::take;
use std::sync::Arc;

use sluice_config::{
    ByKey, Certificate, CertificateId, Change, Delta, EndpointSet, EndpointSetKey, Keyed, Pool, PoolKey,
    Resource, ResourceKey,
};

use super::backend::Uses;
use super::users::Users;

/// Reference counts of pools, endpoint sets, certificates and resources.
#[derive(Default)]
pub(crate) struct RefCounts {
    pools: ByKey<UsedPool>,
    sets: ByKey<UsedSet>,
    certificates: Sent<CertificateId, Certificate>,
    resources: Sent<ResourceKey, Resource>,
    before: Before,
}

/// A pool and the number of nodes that use it.
struct UsedPool {
    users: u32,
    pool: Arc<Pool>,
}

/// An endpoint set and the number of pools that use it. Its key is shared with the first of these
/// pools, even if that is no longer in use, which takes a pointer instead of a key.
struct UsedSet {
    users: u32,
    pool: Arc<Pool>,
}

/// What the data plane has of the pools and endpoint sets that this update touched.
#[derive(Default)]
struct Before {
    pools: HashMap<PoolKey, Option<Arc<Pool>>>,
    sets: HashMap<EndpointSetKey, Option<Arc<EndpointSet>>>,
    /// Sets whose number of users rose from zero or fell to it.
    turned: Vec<EndpointSetKey>,
}

/// Values that nodes name and the data plane stores separately.
struct Sent<K, V> {
    users: Users<K>,
    /// The values in the data plane.
    values: HashMap<K, Arc<V>>,
    /// Keys that this update touched.
    touched: HashSet<K>,
}

impl RefCounts {
    /// Replaces the references of a node.
    pub(crate) fn exchange(&mut self, old: &Uses, new: &Uses) {
        if old == new {
            return;
        }
        new.pools.iter().for_each(|pool| self.use_pool(pool));
        self.certificates.exchange(&old.certificates, &new.certificates);
        self.resources.exchange(&old.resources, &new.resources);
        old.pools.iter().for_each(|pool| self.release_pool(&pool.key));
    }

    /// Records that a resource may have changed.
    pub(crate) fn resource_changes(&mut self, key: &ResourceKey) {
        self.resources.touched.insert(key.clone());
    }

    /// Records that a certificate may have changed.
    pub(crate) fn certificate_changes(&mut self, id: &CertificateId) {
        self.certificates.touched.insert(id.clone());
    }

    /// Records that an endpoint set changes; `sent` is what the data plane has.
    pub(crate) fn set_changes(&mut self, key: &EndpointSetKey, sent: Option<Arc<EndpointSet>>) {
        self.before.sets.entry(key.clone()).or_insert(sent);
    }

    /// Takes the endpoint sets that have begun or ceased to be in use.
    pub(crate) fn take_turned_sets(&mut self) -> Vec<EndpointSetKey> {
        take(&mut self.before.turned)
    }

    /// Returns whether a pool uses an endpoint set.
    pub(crate) fn uses_set(&self, key: &EndpointSetKey) -> bool {
        self.sets.get(key).is_some()
    }

    /// Adds the changes of this update to the delta. Returns the number of added and removed pools.
    pub(crate) fn settle(
        &mut self,
        delta: &mut Delta,
        certificate: impl Fn(&CertificateId) -> Option<Arc<Certificate>>,
        resource: impl Fn(&ResourceKey) -> Option<Arc<Resource>>,
        sets: &ByKey<Arc<EndpointSet>>,
    ) -> usize {
        let before = take(&mut self.before);
        delta.certificates = self.certificates.settle(certificate);
        delta.resources = self.resources.settle(resource);
        delta.endpoint_sets = changes(before.sets, |key| sets.get(key).cloned());
        delta.pools = changes(before.pools, |key| self.pools.get(key).map(|used| used.pool.clone()));
        delta.pools.len()
    }

    /// Returns all certificates in the data plane.
    pub(crate) fn certificates(&self) -> BTreeMap<CertificateId, Arc<Certificate>> {
        self.certificates.all()
    }

    /// Returns all resources in the data plane.
    pub(crate) fn resources(&self) -> BTreeMap<ResourceKey, Arc<Resource>> {
        self.resources.all()
    }

    /// Returns all pools.
    pub(crate) fn pools(&self) -> BTreeMap<PoolKey, Arc<Pool>> {
        self.pools.values().map(|used| (used.pool.key.clone(), used.pool.clone())).collect()
    }
}

impl RefCounts {
    fn use_pool(&mut self, pool: &Arc<Pool>) {
        if let Some(used) = self.pools.get_mut(&pool.key) {
            used.users += 1;
            return;
        }
        self.before.pools.entry(pool.key.clone()).or_insert(None);
        self.pools.insert(UsedPool { users: 1, pool: pool.clone() });
        let key = &pool.key.endpoints;
        let set = self.sets.get_or_insert_with(key, || UsedSet { users: 0, pool: pool.clone() });
        set.users += 1;
        if set.users == 1 {
            self.before.turned.push(key.clone());
        }
    }

    fn release_pool(&mut self, key: &PoolKey) {
        let Some(used) = self.pools.get_mut(key) else { return };
        used.users -= 1;
        if used.users > 0 {
            return;
        }
        let pool = self.pools.remove(key).map(|used| used.pool);
        self.before.pools.entry(key.clone()).or_insert(pool);
        if let Some(set) = self.sets.get_mut(&key.endpoints) {
            set.users -= 1;
            if set.users == 0 {
                self.sets.remove(&key.endpoints);
                self.before.turned.push(key.endpoints.clone());
            }
        }
    }
}

impl Keyed for UsedPool {
    type Key = PoolKey;

    fn key(&self) -> &PoolKey {
        &self.pool.key
    }
}

impl Keyed for UsedSet {
    type Key = EndpointSetKey;

    fn key(&self) -> &EndpointSetKey {
        &self.pool.key.endpoints
    }
}

impl<K, V> Default for Sent<K, V> {
    fn default() -> Self {
        Self { users: Users::default(), values: HashMap::new(), touched: HashSet::new() }
    }
}

impl<K: Clone + Eq + Hash + Ord, V: PartialEq> Sent<K, V> {
    /// Replaces the keys that a node names.
    fn exchange<'k>(&mut self, old: impl IntoIterator<Item = &'k K>, new: impl IntoIterator<Item = &'k K>)
    where
        K: 'k,
    {
        for key in new {
            if self.users.add(key) {
                self.touched.insert(key.clone());
            }
        }
        for key in old {
            if self.users.remove(key) {
                self.touched.insert(key.clone());
            }
        }
    }

    /// Returns the changes of this update; `now` returns current values.
    fn settle(&mut self, now: impl Fn(&K) -> Option<Arc<V>>) -> Vec<Change<K, Arc<V>>> {
        let before = take(&mut self.touched).into_iter().map(|key| {
            let sent = self.values.get(&key).cloned();
            (key, sent)
        });
        let before: Vec<_> = before.collect();
        changes(before, |key| match self.users.contains(key).then(|| now(key)).flatten() {
            Some(value) => {
                self.values.insert(key.clone(), value.clone());
                Some(value)
            }
            None => {
                self.values.remove(key);
                None
            }
        })
    }

    fn all(&self) -> BTreeMap<K, Arc<V>> {
        self.values.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

/// Returns additions before removals, each key once.
fn changes<K, V: PartialEq>(
    before: impl IntoIterator<Item = (K, Option<Arc<V>>)>,
    mut now: impl FnMut(&K) -> Option<Arc<V>>,
) -> Vec<Change<K, Arc<V>>> {
    let mut puts = Vec::new();
    let mut removals = Vec::new();
    for (key, was) in before {
        match (was, now(&key)) {
            (Some(was), Some(now)) if was == now => {}
            (_, Some(now)) => puts.push(Change::Put(key, now)),
            (Some(_), None) => removals.push(Change::Remove(key)),
            (None, None) => {}
        }
    }
    puts.append(&mut removals);
    puts
}
