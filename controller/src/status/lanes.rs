//! Scheduling of writes, without a clock and I/O. The number of concurrent writes is limited in
//! total and per namespace, so that a namespace whose writes hang or are refused delays no other.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use sluice_config::NamespacedName;
use tokio::time::Instant;

use super::table::Write;
use crate::backoff::Backoff;

/// Maximum number of concurrent writes.
const AT_A_TIME: usize = 12;
/// Maximum number of concurrent writes in one namespace.
const OF_ONE: usize = 4;
/// Interval between attempts in a namespace whose writes are refused.
const CLOSED: Backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(300));

/// The waiting writes and those in progress.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    ready: VecDeque<Write>,
    lanes: HashMap<Arc<str>, Lane>,
    under_way: usize,
}

/// One namespace.
#[derive(Debug, Default)]
struct Lane {
    /// Writes that wait for others of their namespace.
    held: VecDeque<Write>,
    under_way: usize,
    /// Consecutive refusals that affect the whole namespace.
    refusals: u32,
    /// No write before this time.
    until: Option<Instant>,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Send this write and report its result.
    Send(Write),
    /// Postpone the write of this Ingress: its namespace accepts none before this time.
    Postpone(NamespacedName, Instant),
}

impl Lanes {
    /// Appends writes in this order.
    pub(super) fn extend(&mut self, writes: Vec<Write>) {
        self.ready.extend(writes);
    }

    /// Returns whether no write waits.
    pub(super) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.lanes.values().all(|lane| lane.held.is_empty())
    }

    /// Returns the next permitted write.
    pub(super) fn next(&mut self, now: Instant) -> Option<Next> {
        while self.under_way < AT_A_TIME {
            let write = self.ready.pop_front()?;
            let lane = self.lanes.entry(write.name.namespace.clone()).or_default();
            if let Some(until) = lane.until.filter(|until| *until > now) {
                return Some(Next::Postpone(write.name, until));
            }
            // In a namespace that refused, one write at a time is tried.
            let limit = if lane.refusals > 0 { 1 } else { OF_ONE };
            if lane.under_way >= limit {
                lane.held.push_back(write);
                continue;
            }
            lane.under_way += 1;
            self.under_way += 1;
            return Some(Next::Send(write));
        }
        None
    }

    /// Records the end of a write in this namespace. `refused`: the refusal affects the whole
    /// namespace; the value is the server's `Retry-After`, if any.
    pub(super) fn done(&mut self, namespace: &str, refused: Option<Option<Duration>>, now: Instant) {
        let Some(lane) = self.lanes.get_mut(namespace) else { return };
        lane.under_way = lane.under_way.saturating_sub(1);
        self.under_way = self.under_way.saturating_sub(1);
        match refused {
            // Concurrent writes are refused together, which counts once.
            Some(_) if lane.until.is_some_and(|until| until > now) => {}
            Some(retry_after) => {
                lane.refusals = lane.refusals.saturating_add(1);
                let wait = CLOSED.wait(lane.refusals).max(retry_after.unwrap_or_default());
                lane.until = Some(now + wait);
            }
            None => (lane.refusals, lane.until) = (0, None),
        }
        // Held writes are reconsidered, before later ones.
        while let Some(write) = lane.held.pop_back() {
            self.ready.push_front(write);
        }
        if lane.under_way == 0 && lane.until.is_none() {
            self.lanes.remove(namespace);
        }
    }

    /// Records that a write was dropped instead of sent, because it was no longer due.
    pub(super) fn skip(&mut self, namespace: &str) {
        if let Some(lane) = self.lanes.get_mut(namespace) {
            lane.under_way = lane.under_way.saturating_sub(1);
            self.under_way = self.under_way.saturating_sub(1);
            if let Some(write) = lane.held.pop_front() {
                self.ready.push_front(write);
            }
        }
    }

    /// Returns the time before which this namespace accepts no writes.
    pub(super) fn closed_until(&self, namespace: &str) -> Option<Instant> {
        self.lanes.get(namespace)?.until
    }

    /// Removes all waiting writes and forgets those in progress.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(namespace: &str, name: usize) -> Write {
        let name = NamespacedName::new(namespace, &format!("i{name:02}"));
        Write { name, uid: None, addresses: Arc::default() }
    }

    fn sent(lanes: &mut Lanes, now: Instant) -> Vec<String> {
        let next = std::iter::from_fn(|| lanes.next(now));
        next.filter_map(|next| match next {
            Next::Send(write) => Some(write.name.to_string()),
            Next::Postpone(..) => None,
        })
        .collect()
    }

    #[test]
    fn a_namespace_whose_writes_hang_delays_no_other() {
        let now = Instant::now();
        let mut lanes = Lanes::default();
        lanes.extend((0..100).map(|n| write("slow", n)).chain([write("shop", 0)]).collect());
        let first = sent(&mut lanes, now);
        assert_eq!(first.iter().filter(|name| name.starts_with("slow/")).count(), OF_ONE);
        assert!(first.contains(&"shop/i00".to_owned()), "{first:?}");
        lanes.done("slow", None, now);
        assert_eq!(sent(&mut lanes, now), ["slow/i04"], "in their order");
    }

    #[test]
    fn a_namespace_that_refuses_is_tried_once_at_a_time_and_ever_more_rarely() {
        let mut now = Instant::now();
        let mut lanes = Lanes::default();
        lanes.extend((0..10).map(|n| write("shop", n)).collect());
        assert_eq!(sent(&mut lanes, now).len(), OF_ONE);
        (0..OF_ONE).for_each(|_| lanes.done("shop", Some(None), now));
        let until = lanes.closed_until("shop").unwrap();
        assert!(until > now && until <= now + CLOSED.longest(1), "they count once");
        assert_eq!(lanes.next(now), Some(Next::Postpone(NamespacedName::new("shop", "i04"), until)));
        now = until;
        assert_eq!(sent(&mut lanes, now).len(), 1, "a probe");
        lanes.done("shop", Some(Some(Duration::from_secs(60))), now);
        assert!(lanes.closed_until("shop").unwrap() >= now + Duration::from_secs(60), "Retry-After");
        now += Duration::from_secs(60);
        assert_eq!(sent(&mut lanes, now).len(), 1);
        lanes.done("shop", None, now);
        assert_eq!(sent(&mut lanes, now).len(), OF_ONE.min(3), "it takes them again");
    }
}
