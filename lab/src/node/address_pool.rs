//! The Pod addresses of a node, assigned round robin: a returned address is reused last, so that
//! clients with outdated endpoint lists get no response instead of one from another Pod.

use std::collections::HashSet;

use crate::addresses::{NodeIndex, PodAddress};

/// The addresses of one node.
#[derive(Debug)]
pub struct AddressPool {
    node: NodeIndex,
    next: u16,
    used: HashSet<PodAddress>,
}

impl AddressPool {
    /// Creates a pool of all addresses of a node.
    pub fn new(node: NodeIndex) -> Self {
        // Random, so that a restarted node does not start with the addresses that it assigned first
        // before.
        Self { node, next: fastrand::u16(..NodeIndex::PODS), used: HashSet::new() }
    }

    /// Takes the next free address. Returns `None` if all are in use.
    pub fn take(&mut self) -> Option<PodAddress> {
        for _ in 0..NodeIndex::PODS {
            let address = self.node.pod(self.next);
            self.next = (self.next + 1) % NodeIndex::PODS;
            if self.used.insert(address) {
                return Some(address);
            }
        }
        None
    }

    /// Returns an address to the pool.
    pub fn give_back(&mut self, address: PodAddress) {
        self.used.remove(&address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_given_back_is_the_last_to_be_used_again() {
        let mut pool = AddressPool::new(NodeIndex::new(1).unwrap());
        let first = pool.take().unwrap();
        pool.give_back(first);
        let mut seen = HashSet::new();
        for _ in 1..NodeIndex::PODS {
            let next = pool.take().unwrap();
            assert_ne!(next, first);
            assert!(seen.insert(next));
        }
        assert_eq!(pool.take(), Some(first));
        assert_eq!(pool.take(), None);
    }
}
