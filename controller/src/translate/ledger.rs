//! What is in use, and what the data plane has been told of it.
//!
//! Pools, endpoint sets and certificates exist for the sake of others. The ledger counts their users and
//! remembers, within one update, what was there before it, so that what comes and goes in between costs
//! nothing.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use sluice_config::{Certificate, CertificateId, Change, Delta, EndpointSet, EndpointSetKey, Pool, PoolKey};

use super::backend::Uses;

/// Users of pools, endpoint sets and certificates.
#[derive(Default)]
pub(crate) struct Ledger {
    pools: HashMap<PoolKey, (u32, Arc<Pool>)>,
    sets: HashMap<EndpointSetKey, u32>,
    certificates: HashMap<CertificateId, (u32, Option<Arc<Certificate>>)>,
    before: Before,
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
        turned.into_iter().partition(|key| self.sets.contains_key(key))
    }

    /// Writes down what is different from before, and starts anew. Returns how many pools came or went.
    pub(crate) fn settle(
        &mut self,
        delta: &mut Delta,
        certificate: impl Fn(&CertificateId) -> Option<Arc<Certificate>>,
        sets: &HashMap<EndpointSetKey, Arc<EndpointSet>>,
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
        delta.pools = changes(before.pools, |key| self.pools.get(key).map(|(_, pool)| pool.clone()));
        delta.pools.len()
    }

    /// All certificates that the data plane has.
    pub(crate) fn certificates(&self) -> BTreeMap<CertificateId, Arc<Certificate>> {
        let sent = self.certificates.iter();
        sent.filter_map(|(id, (_, sent))| Some((id.clone(), sent.clone()?))).collect()
    }

    /// All pools.
    pub(crate) fn pools(&self) -> BTreeMap<PoolKey, Arc<Pool>> {
        self.pools.iter().map(|(key, (_, pool))| (key.clone(), pool.clone())).collect()
    }
}

impl Ledger {
    fn use_pool(&mut self, pool: &Arc<Pool>) {
        if let Some((users, _)) = self.pools.get_mut(&pool.key) {
            *users += 1;
            return;
        }
        self.before.pools.entry(pool.key.clone()).or_insert(None);
        self.pools.insert(pool.key.clone(), (1, pool.clone()));
        let pools = self.sets.entry(pool.key.endpoints.clone()).or_default();
        *pools += 1;
        if *pools == 1 {
            self.before.turned.push(pool.key.endpoints.clone());
        }
    }

    fn release_pool(&mut self, key: &PoolKey) {
        let Entry::Occupied(mut pool) = self.pools.entry(key.clone()) else { return };
        pool.get_mut().0 -= 1;
        if pool.get().0 > 0 {
            return;
        }
        let (_, pool) = pool.remove();
        self.before.pools.entry(key.clone()).or_insert(Some(pool));
        if let Entry::Occupied(mut pools) = self.sets.entry(key.endpoints.clone()) {
            *pools.get_mut() -= 1;
            if *pools.get() == 0 {
                pools.remove();
                self.before.turned.push(key.endpoints.clone());
            }
        }
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
