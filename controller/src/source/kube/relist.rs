//! When one list of all objects is cheaper than the questions for single ones: many Ingresses that
//! are new at once refer to many Secrets that the watch has passed over before.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The time over which questions are counted.
const WINDOW: Duration = Duration::from_secs(10);
/// Questions in that time that are asked one by one in any case.
const FEW: usize = 16;
/// A question costs an API server about as much as so many objects of a list.
const OBJECTS: usize = 50;
/// From the beginning of one list to that of the next.
const PAUSE: Duration = Duration::from_secs(2);

/// Decides for one watch between questions and lists.
#[derive(Debug, Default)]
pub(super) struct Relist {
    /// The last questions, and those that a list answered.
    wanted: VecDeque<Instant>,
    /// Objects of the last list, and of the one under way.
    objects: usize,
    counted: usize,
    /// When the last list began.
    begun: Option<Instant>,
    /// Whether that is under way.
    listing: bool,
    /// When the next one is to begin.
    due: Option<Instant>,
}

impl Relist {
    /// A list begins.
    pub(super) fn begin(&mut self) {
        (self.counted, self.listing) = (0, true);
    }

    /// The list has an object.
    pub(super) fn count(&mut self) {
        self.counted += 1;
    }

    /// The list is complete.
    pub(super) fn done(&mut self) {
        (self.objects, self.listing) = (self.counted, false);
    }

    /// Something refers to one more object. True where it comes with a list that will begin; else
    /// it has to be asked for.
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

    /// When a list is to begin. One that is under way is completed first.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due.filter(|_| !self.listing)
    }

    /// The list that was due begins now.
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
