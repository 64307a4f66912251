//! What is in use, and what the data plane has been told of it.
//!
//! Pools, endpoint sets, certificates and resources exist for the sake of others. This counts their users and
//! remembers, within one update, what was there before it, so that what comes and goes in between costs
//! nothing.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use sluice_config::{
    ByKey, Certificate, CertificateId, Change, Delta, EndpointSet, EndpointSetKey, Keyed, Pool, PoolKey,
    Resource, ResourceKey,
};

use super::backend::Uses;

/// Users of pools, endpoint sets, certificates and resources.
#[derive(Default)]
pub(crate) struct RefCounts {
    pools: ByKey<UsedPool>,
    sets: ByKey<UsedSet>,
    certificates: Sent<CertificateId, Certificate>,
    resources: Sent<ResourceKey, Resource>,
    before: Before,
}

/// How many nodes use something, and what the data plane has of it.
type Sent<K, V> = HashMap<K, (u32, Option<Arc<V>>)>;

/// A pool and how many nodes use it.
struct UsedPool {
    users: u32,
    pool: Arc<Pool>,
}

/// An endpoint set and how many pools use it. It is known by the first of them, used or not by now: that holds a
/// pointer in place of a key.
struct UsedSet {
    users: u32,
    pool: Arc<Pool>,
}

/// What the data plane has of everything that this update touched.
#[derive(Default)]
struct Before {
    pools: HashMap<PoolKey, Option<Arc<Pool>>>,
    sets: HashMap<EndpointSetKey, Option<Arc<EndpointSet>>>,
    certificates: HashMap<CertificateId, Option<Arc<Certificate>>>,
    resources: HashMap<ResourceKey, Option<Arc<Resource>>>,
    /// Sets whose number of users went from or to zero.
    turned: Vec<EndpointSetKey>,
}

impl RefCounts {
    /// A node uses `new` in place of `old`.
    pub(crate) fn exchange(&mut self, old: &Uses, new: &Uses) {
        if old == new {
            return;
        }
        for pool in &new.pools {
            self.use_pool(pool);
        }
        if let Some(id) = &new.certificate {
            self.certificate_changes(id);
            self.certificates.entry(id.clone()).or_default().0 += 1;
        }
        for key in &new.resources {
            self.resource_changes(key);
            self.resources.entry(key.clone()).or_default().0 += 1;
        }
        for pool in &old.pools {
            self.release_pool(&pool.key);
        }
        if let Some(id) = &old.certificate {
            self.certificate_changes(id);
            if let Some((users, _)) = self.certificates.get_mut(id) {
                *users -= 1;
            }
        }
        for key in &old.resources {
            self.resource_changes(key);
            if let Some((users, _)) = self.resources.get_mut(key) {
                *users -= 1;
            }
        }
    }

    /// A resource may become another.
    pub(crate) fn resource_changes(&mut self, key: &ResourceKey) {
        let sent = self.resources.get(key).and_then(|(_, sent)| sent.clone());
        self.before.resources.entry(key.clone()).or_insert(sent);
    }

    /// A certificate may become another.
    pub(crate) fn certificate_changes(&mut self, id: &CertificateId) {
        let sent = self.certificates.get(id).and_then(|(_, sent)| sent.clone());
        self.before.certificates.entry(id.clone()).or_insert(sent);
    }

    /// An endpoint set becomes another; `sent` is what the data plane has.
    pub(crate) fn set_changes(&mut self, key: &EndpointSetKey, sent: Option<Arc<EndpointSet>>) {
        self.before.sets.entry(key.clone()).or_insert(sent);
    }

    /// Endpoint sets that are used now and were not, and that were used and are not.
    pub(crate) fn sets(&mut self) -> (Vec<EndpointSetKey>, Vec<EndpointSetKey>) {
        let turned = std::mem::take(&mut self.before.turned);
        turned.into_iter().partition(|key| self.sets.get(key).is_some())
    }

    /// Writes down what is different from before, and starts anew. Returns how many pools came or went.
    pub(crate) fn settle(
        &mut self,
        delta: &mut Delta,
        certificate: impl Fn(&CertificateId) -> Option<Arc<Certificate>>,
        resource: impl Fn(&ResourceKey) -> Option<Arc<Resource>>,
        sets: &ByKey<Arc<EndpointSet>>,
    ) -> usize {
        let before = std::mem::take(&mut self.before);
        delta.certificates =
            changes(before.certificates, |id| settle(&mut self.certificates, id, &certificate));
        delta.resources = changes(before.resources, |key| settle(&mut self.resources, key, &resource));
        delta.endpoint_sets = changes(before.sets, |key| sets.get(key).cloned());
        delta.pools = changes(before.pools, |key| self.pools.get(key).map(|used| used.pool.clone()));
        delta.pools.len()
    }

    /// All certificates that the data plane has.
    pub(crate) fn certificates(&self) -> BTreeMap<CertificateId, Arc<Certificate>> {
        all(&self.certificates)
    }

    /// All resources that the data plane has.
    pub(crate) fn resources(&self) -> BTreeMap<ResourceKey, Arc<Resource>> {
        all(&self.resources)
    }

    /// All pools.
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

/// What the data plane is to have of something: nothing where nobody uses it.
fn settle<K: Eq + Hash, V>(
    known: &mut Sent<K, V>,
    key: &K,
    now: impl Fn(&K) -> Option<Arc<V>>,
) -> Option<Arc<V>> {
    let (users, sent) = known.get_mut(key)?;
    if *users == 0 {
        known.remove(key);
        return None;
    }
    sent.clone_from(&now(key));
    sent.clone()
}

fn all<K: Clone + Ord, V>(known: &Sent<K, V>) -> BTreeMap<K, Arc<V>> {
    known.iter().filter_map(|(key, (_, sent))| Some((key.clone(), sent.clone()?))).collect()
}

/// Puts before removals, each key once.
fn changes<K: Eq + Hash, V: PartialEq>(
    before: HashMap<K, Option<Arc<V>>>,
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
