//! What is in use, and what the data plane has been told of it.
//!
//! Pools, endpoint sets and certificates exist for the sake of others. The ledger counts their users and
//! remembers, within one update, what was there before it, so that what comes and goes in between costs
//! nothing.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use sluice_config::{
    ByKey, Certificate, CertificateId, Change, Delta, EndpointSet, EndpointSetKey, Keyed, Pool, PoolKey,
};

use super::backend::Uses;

/// Users of pools, endpoint sets and certificates.
#[derive(Default)]
pub(crate) struct Ledger {
    pools: ByKey<UsedPool>,
    sets: ByKey<UsedSet>,
    certificates: HashMap<CertificateId, (u32, Option<Arc<Certificate>>)>,
    before: Before,
}

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
    /// Sets whose number of users went from or to zero.
    turned: Vec<EndpointSetKey>,
}

impl Ledger {
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
        for pool in &old.pools {
            self.release_pool(&pool.key);
        }
        if let Some(id) = &old.certificate {
            self.certificate_changes(id);
            if let Some((users, _)) = self.certificates.get_mut(id) {
                *users -= 1;
            }
        }
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
        sets: &ByKey<Arc<EndpointSet>>,
    ) -> usize {
        let before = std::mem::take(&mut self.before);
        delta.certificates = changes(before.certificates, |id| {
            let (users, sent) = self.certificates.get_mut(id)?;
            *sent = if *users > 0 { certificate(id) } else { None };
            let sent = sent.clone();
            if *users == 0 {
                self.certificates.remove(id);
            }
            sent
        });
        delta.endpoint_sets = changes(before.sets, |key| sets.get(key).cloned());
        delta.pools = changes(before.pools, |key| self.pools.get(key).map(|used| used.pool.clone()));
        delta.pools.len()
    }

    /// All certificates that the data plane has.
    pub(crate) fn certificates(&self) -> BTreeMap<CertificateId, Arc<Certificate>> {
        let sent = self.certificates.iter();
        sent.filter_map(|(id, (_, sent))| Some((id.clone(), sent.clone()?))).collect()
    }

    /// All pools.
    pub(crate) fn pools(&self) -> BTreeMap<PoolKey, Arc<Pool>> {
        self.pools.values().map(|used| (used.pool.key.clone(), used.pool.clone())).collect()
    }
}

impl Ledger {
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
