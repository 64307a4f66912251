//! Pools of the registry, which share endpoint sets, rings and checks by reference counts.

use std::sync::Arc;

use sluice_config::{Balance, ByKey, HealthCheck, Subject};

use super::check::CheckError;
use super::checked::Checks;
use super::set_entry::SetEntry;
use super::{Pool, Registry, State, slots};

impl Registry {
    /// Adds or replaces a pool. An error states why its check is not made.
    pub(super) fn put_pool(
        &self,
        state: &mut State,
        config: &Arc<sluice_config::Pool>,
    ) -> Result<(), CheckError> {
        if let Some(present) = state.pools.get(&config.key) {
            // Routes hold this handle, so it is replaced only if the configuration differs.
            if present.config() == config {
                return Ok(());
            }
            let present = present.clone();
            self.forget_pool(&mut state.sets, &present);
            state.waiting.retain(|waits| *waits != config.key);
        }
        let State { sets, checks, waiting, .. } = &mut *state;
        let entry = SetEntry::of(sets, &config.key.endpoints, &self.reporter);
        entry.pools += 1;
        if config.balance == Balance::Ring {
            entry.ring_pools += 1;
            if entry.ring_pools == 1 {
                self.rings.want(entry.members.set());
            }
        }
        let check = config.health_check.as_ref();
        let (slot, made) = match check.map(|check| self.begin_check(entry, checks, check, config)) {
            None => (None, Ok(())),
            Some(Ok(slot)) => (Some(slot), Ok(())),
            Some(Err(error)) => (None, Err(error)),
        };
        if made.as_ref().is_err_and(CheckError::may_pass) {
            waiting.push(config.key.clone());
        }
        let set = entry.members.set().clone();
        let pool = Arc::new(Pool::new(config.clone(), set, self.default_balance.clone(), slot));
        state.pools.insert(pool);
        made
    }

    /// Returns the slot of a check, and starts the check with its first pool.
    fn begin_check(
        &self,
        entry: &mut SetEntry,
        checks: &mut Checks,
        check: &Arc<HealthCheck>,
        pool: &sluice_config::Pool,
    ) -> Result<u8, CheckError> {
        let tls = pool.protocol.has_tls();
        let (slot, is_new) = entry.slots.enter(check, tls).ok_or(CheckError::TooMany(slots::MOST))?;
        if is_new {
            match checks.make(check, tls) {
                Ok(policy) => self.prober.watch(entry.members.set().clone(), slot, policy),
                Err(error) => {
                    entry.slots.leave(slot);
                    return Err(error);
                }
            }
        }
        Ok(slot)
    }

    /// Starts the checks that waited for capacity, as far as there is some now.
    pub(super) fn begin_waiting(&self, state: &mut State) -> Vec<Subject> {
        let State { sets, pools, checks, waiting, .. } = state;
        let mut begun = Vec::new();
        waiting.retain(|key| {
            let Some(pool) = pools.get(key) else { return false };
            let Some(check) = &pool.config().health_check else { return false };
            let Some(entry) = sets.get_mut(&key.endpoints) else { return false };
            match self.begin_check(entry, checks, check, pool.config()) {
                Ok(slot) => {
                    pool.set_slot(slot);
                    begun.push(Subject::Pool(key.clone()));
                    false
                }
                Err(error) => error.may_pass(),
            }
        });
        begun
    }

    /// Removes a pool from the reference counts of its set.
    pub(super) fn forget_pool(&self, sets: &mut ByKey<SetEntry>, pool: &Pool) {
        let key = &pool.key().endpoints;
        let Some(entry) = sets.get_mut(key) else { return };
        entry.pools -= 1;
        if pool.has_ring() {
            entry.ring_pools -= 1;
            if entry.ring_pools == 0 {
                entry.members.set().drop_ring();
            }
        }
        if let Some(slot) = pool.slot().filter(|slot| entry.slots.leave(*slot)) {
            self.prober.unwatch(key.clone(), slot);
            entry.members.forget_check(slot);
        }
        if entry.is_unused() {
            sets.remove(key);
        }
    }
}
