//! The distinct checks of the pools on one endpoint set.
//!
//! Pools on one Service port may use different checks or none, and a failed check of one pool must
//! not exclude the endpoint from another. Each distinct check therefore has a bit. An endpoint
//! holds the bits of the checks that it fails, and a pick compares them with the bit of its pool.

use std::sync::Arc;

use sluice_config::HealthCheck;

/// The distinct checks of one set.
#[derive(Debug, Default)]
pub(super) struct Slots(Vec<Option<Slot>>);

#[derive(Debug)]
struct Slot {
    check: Arc<HealthCheck>,
    tls: bool,
    pools: usize,
}

/// The number of bits per endpoint.
pub(super) const MOST: usize = u32::BITS as usize;

impl Slots {
    /// Returns the slot of a check for one more pool, and whether it is new. `None` if all slots
    /// are in use.
    pub(super) fn enter(&mut self, check: &Arc<HealthCheck>, tls: bool) -> Option<(u8, bool)> {
        let same =
            |slot: &Option<Slot>| slot.as_ref().is_some_and(|slot| slot.check == *check && slot.tls == tls);
        if let Some(at) = self.0.iter().position(same) {
            self.0[at].as_mut()?.pools += 1;
            return Some((at as u8, false));
        }
        let at = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        if at == MOST {
            return None;
        }
        if at == self.0.len() {
            self.0.push(None);
        }
        self.0[at] = Some(Slot { check: check.clone(), tls, pools: 1 });
        Some((at as u8, true))
    }

    /// Releases a slot for one pool. Returns whether it was the last one.
    pub(super) fn leave(&mut self, slot: u8) -> bool {
        let Some(Some(entry)) = self.0.get_mut(usize::from(slot)) else { return false };
        entry.pools -= 1;
        let is_last = entry.pools == 0;
        if is_last {
            self.0[usize::from(slot)] = None;
        }
        is_last
    }

    /// Returns all checks with their slots.
    pub(super) fn all(&self) -> impl Iterator<Item = (u8, &Arc<HealthCheck>)> {
        (0u8..).zip(&self.0).filter_map(|(at, slot)| Some((at, &slot.as_ref()?.check)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sluice_config::CheckKind;

    use super::*;

    fn check(port: u16) -> Arc<HealthCheck> {
        Arc::new(HealthCheck {
            kind: CheckKind::Tcp,
            port: Some(port),
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(5),
            healthy: 2,
            unhealthy: 3,
        })
    }

    #[test]
    fn equal_checks_share_a_slot_until_the_last_pool_leaves() {
        let mut slots = Slots::default();
        assert_eq!(slots.enter(&check(1), false), Some((0, true)));
        assert_eq!(slots.enter(&check(2), false), Some((1, true)));
        assert_eq!(slots.enter(&check(1), false), Some((0, false)));
        assert_eq!(slots.enter(&check(1), true), Some((2, true)), "over TLS it is another one");
        assert!(!slots.leave(0) && slots.leave(0));
        assert_eq!(slots.enter(&check(3), false), Some((0, true)));
        assert_eq!(slots.all().count(), 3);
    }

    #[test]
    fn there_are_as_many_as_an_endpoint_has_bits() {
        let mut slots = Slots::default();
        assert!((0..32).all(|port| slots.enter(&check(port), false) == Some((port as u8, true))));
        assert_eq!(slots.enter(&check(99), false), None);
        assert!(slots.leave(7));
        assert_eq!(slots.enter(&check(99), false), Some((7, true)));
    }
}
