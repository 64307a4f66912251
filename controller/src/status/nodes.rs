//! The addresses of nodes during the replacement of Pods.
//!
//! In a rollout each node is without a ready Pod for a while. Its address is kept as long as the
//! change looks like such a gap: no other node has been added, and the gap is short.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::store::Address;

/// Maximum duration of a gap.
const GAP: Duration = Duration::from_secs(60);

/// The published addresses of nodes.
#[derive(Debug, Default)]
pub(super) struct NodeAddresses {
    /// By address: since when its node has had no ready Pod.
    published: BTreeMap<Address, Option<Instant>>,
}

impl NodeAddresses {
    /// Starts with the addresses that another replica has published.
    pub(super) fn new(published: &[Address]) -> Self {
        Self { published: published.iter().map(|address| (address.clone(), None)).collect() }
    }

    /// Updates with the addresses of the nodes with ready Pods. Returns the addresses to publish,
    /// and whether a Pod is awaited on one of them.
    pub(super) fn take(&mut self, found: Vec<Address>, now: Instant) -> (Vec<Address>, bool) {
        if found.is_empty() {
            // Nothing is published then, and all nodes may be in the same gap.
            for since in self.published.values_mut() {
                since.get_or_insert(now);
            }
            return (found, false);
        }
        let is_rollout = found.iter().all(|address| self.published.contains_key(address));
        let old = std::mem::take(&mut self.published);
        self.published = found.into_iter().map(|address| (address, None)).collect();
        let mut awaited = false;
        if is_rollout {
            for (address, since) in old {
                let since = since.unwrap_or(now);
                if !self.published.contains_key(&address) && now < since + GAP {
                    self.published.insert(address, Some(since));
                    awaited = true;
                }
            }
        }
        (self.published.keys().cloned().collect(), awaited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(ips: &[&str]) -> Vec<Address> {
        ips.iter().map(|ip| Address { ip: (*ip).into(), hostname: Box::default() }).collect()
    }

    #[test]
    fn a_rollout_keeps_the_addresses_of_all_nodes() {
        let all = addresses(&["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
        let mut now = Instant::now();
        let mut nodes = NodeAddresses::default();
        assert_eq!(nodes.take(all.clone(), now), (all.clone(), false));
        for replaced in 0..3 {
            let mut ready = all.clone();
            ready.remove(replaced);
            now += GAP / 2;
            // The leader is among the replaced Pods.
            nodes = NodeAddresses::new(&all);
            assert_eq!(nodes.take(ready.clone(), now), (all.clone(), true));
            now += GAP / 2;
            assert_eq!(nodes.take(ready, now), (all.clone(), true));
            assert_eq!(nodes.take(all.clone(), now), (all.clone(), false));
        }
    }

    #[test]
    fn a_moment_without_any_ready_pod_forgets_no_address() {
        let all = addresses(&["10.0.0.1", "10.0.0.2"]);
        let now = Instant::now();
        let mut nodes = NodeAddresses::new(&all);
        assert_eq!(nodes.take(Vec::new(), now), (Vec::new(), false));
        let first = addresses(&["10.0.0.2"]);
        assert_eq!(nodes.take(first.clone(), now + GAP / 2), (all, true));
        assert_eq!(nodes.take(first.clone(), now + GAP), (first, false), "the gap began with the first look");
    }

    #[test]
    fn a_node_that_stays_without_a_ready_pod_is_left_out() {
        let now = Instant::now();
        let mut nodes = NodeAddresses::new(&addresses(&["10.0.0.1", "10.0.0.2"]));
        let ready = addresses(&["10.0.0.1"]);
        assert!(nodes.take(ready.clone(), now).1);
        assert_eq!(nodes.take(ready.clone(), now + GAP), (ready, false));
    }

    #[test]
    fn addresses_of_another_gateway_and_of_nodes_that_were_left_do_not_stay() {
        let now = Instant::now();
        let mut nodes = NodeAddresses::new(&addresses(&["192.0.2.1"]));
        let moved = addresses(&["10.0.0.1", "10.0.0.4"]);
        assert_eq!(nodes.take(moved.clone(), now), (moved, false));
    }
}
