//! An endpoint set in the registry, with its reference counts.

use std::mem;
use std::sync::Arc;

use sluice_config::{ByKey, EndpointSetKey, Keyed};

use super::endpoint_set::{EndpointSet, Members};
use super::own::{Lookups, Owner};
use super::slots::Slots;
use crate::process::reporter::Reporter;

/// A set with its reference counts. It is kept while it is configured or used by a pool, so handles
/// stay valid in whatever order the two are added and removed.
pub(super) struct SetEntry {
    pub(super) members: Members,
    pub(super) configured: bool,
    pub(super) pools: usize,
    pub(super) ring_pools: usize,
    pub(super) slots: Slots,
    /// Endpoints left out because they are these listeners of the gateway. Usually empty.
    pub(super) refused: Vec<(sluice_config::Endpoint, Arc<str>)>,
    /// For some endpoint it is unknown whether it is a listener of the gateway. All are looked up
    /// again at the next change.
    pub(super) unsure: bool,
}

impl SetEntry {
    /// Returns the entry of a set, which is added if there is none.
    pub(super) fn of<'s>(
        sets: &'s mut ByKey<Self>,
        key: &EndpointSetKey,
        reporter: &Reporter,
    ) -> &'s mut Self {
        sets.get_or_insert_with(key, || Self {
            members: Members::new(EndpointSet::new(key.clone(), reporter.clone())),
            configured: false,
            pools: 0,
            ring_pools: 0,
            slots: Slots::default(),
            refused: Vec::new(),
            unsure: false,
        })
    }

    /// Returns whether nothing needs the set any more.
    pub(super) fn is_unused(&self) -> bool {
        !self.configured && self.pools == 0
    }

    /// Returns those of the new endpoints that are listeners of the gateway. Present members are
    /// not looked up again: there may be thousands, and most changes concern one.
    pub(super) fn find_own(
        &mut self,
        own: &Lookups<'_>,
        endpoints: &[sluice_config::Endpoint],
    ) -> Vec<(sluice_config::Endpoint, Arc<str>)> {
        let members = self.members.set().current();
        let again = mem::take(&mut self.unsure);
        let mut refused = Vec::new();
        for endpoint in endpoints {
            if !again && members.member(endpoint.address).is_some() {
                continue;
            }
            match own.ask_for(self.members.set().key(), endpoint.address) {
                Owner::Other => {}
                Owner::Ours(listener) => refused.push((endpoint.clone(), listener)),
                Owner::Unknown(listener) => {
                    self.unsure = true;
                    // Keeps the previous result.
                    if self.refused.iter().any(|(before, _)| before.address == endpoint.address) {
                        refused.push((endpoint.clone(), listener));
                    }
                }
            }
        }
        refused
    }
}

impl Keyed for SetEntry {
    type Key = EndpointSetKey;

    fn key(&self) -> &EndpointSetKey {
        self.members.set().key()
    }
}
