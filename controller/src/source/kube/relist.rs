//! Decides when one list of all objects is cheaper than requests for single ones: many new
//! Ingresses at once refer to many Secrets that the watch has delivered and dropped before.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Period over which requests are counted.
const WINDOW: Duration = Duration::from_secs(10);
/// Number of requests within the period that never cause a list.
const FEW: usize = 16;
/// Number of listed objects that cost an API server about as much as one request.
const OBJECTS: usize = 50;
/// Minimum time between the starts of two lists.
const PAUSE: Duration = Duration::from_secs(2);

/// Chooses between requests and lists for one watch.
#[derive(Debug, Default)]
pub(super) struct Relist {
    /// Times of the last requests, including those answered by a list.
    wanted: VecDeque<Instant>,
    /// Number of objects in the last list, and in the current one.
    objects: usize,
    counted: usize,
    /// Start of the last list.
    begun: Option<Instant>,
    /// Whether a list is in progress.
    listing: bool,
    /// Time at which the next list starts.
    due: Option<Instant>,
}

impl Relist {
    /// Records the start of a list.
    pub(super) fn begin(&mut self) {
        (self.counted, self.listing) = (0, true);
    }

    /// Counts an object of the list.
    pub(super) fn count(&mut self) {
        self.counted += 1;
    }

    /// Records the completion of the list.
    pub(super) fn done(&mut self) {
        (self.objects, self.listing) = (self.counted, false);
    }

    /// Records a new reference. Returns true if a list will deliver the object; otherwise it must
    /// be requested.
    pub(super) fn want(&mut self, now: Instant) -> bool {
        while self.wanted.front().is_some_and(|at| now.duration_since(*at) > WINDOW) {
            self.wanted.pop_front();
        }
        self.wanted.push_back(now);
        let limit = FEW.max(self.objects / OBJECTS);
        if self.due.is_none() && self.wanted.len() > limit {
            self.due = Some(self.begun.map_or(now, |begun| now.max(begun + PAUSE)));
        }
        self.due.is_some()
    }

    /// Returns when a list is due. A list in progress is completed first.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.filter(|_| !self.listing)
    }

    /// Starts the list that was due.
    pub(super) fn start(&mut self, now: Instant) {
        (self.due, self.begun, self.listing) = (None, Some(now), true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(objects: usize) -> Relist {
        let mut relist = Relist::default();
        relist.begin();
        (0..objects).for_each(|_| relist.count());
        relist.done();
        relist
    }

    #[test]
    fn many_new_references_are_one_list_and_few_are_questions() {
        let now = Instant::now();
        let mut relist = listed(400);
        assert!((0..FEW).all(|_| !relist.want(now)));
        assert!(relist.want(now) && relist.due() == Some(now));
        relist.start(now);
        assert!(relist.want(now) && relist.due().is_none(), "one list at a time");
        relist.done();
        assert_eq!(relist.due(), Some(now + PAUSE), "and not one after the other");
        relist.start(now + PAUSE);
        relist.done();
        assert!(!relist.want(now + PAUSE + 2 * WINDOW), "a single one later");
    }

    #[test]
    fn a_large_cluster_is_not_listed_for_a_few_objects() {
        let now = Instant::now();
        let mut relist = listed(20_000);
        assert!((0..400).all(|_| !relist.want(now)));
        assert!(relist.want(now));
    }
}
