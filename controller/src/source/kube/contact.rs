//! Whether the API answers. One record for all watches: an API server that is away is away for each of them,
//! and an operator wants one problem about it, with the time at which it began.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;

/// How long nothing may be answered before that is worth saying. A restart of a connection is not.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long some requests may fail while others are answered.
const LONG_PATIENCE: Duration = Duration::from_secs(10);

/// What is known of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContactState {
    /// Set while it does not answer.
    pub away: Option<Away>,
    /// When it last answered; `None` before the first time.
    pub last_answer: Option<Timestamp>,
    /// Requests that have failed for long while others are answered, by path.
    pub failing: BTreeMap<Arc<str>, Away>,
    /// Requests whose last one failed.
    unanswered: BTreeMap<Arc<str>, Away>,
    /// The first failure since the last answer to anything.
    first: Option<Away>,
}

/// Since when there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Away {
    /// When the first request began that was not answered.
    pub since: Timestamp,
    /// What became of the first request.
    pub reason: Arc<str>,
    begun: Instant,
}

/// The record. Clones share it. A subscriber is woken when something is away or failing, not at every answer.
#[derive(Clone, Debug)]
pub(super) struct Contact(watch::Sender<ContactState>);

impl Contact {
    pub(super) fn new() -> Self {
        Self(watch::Sender::default())
    }

    /// For a subscriber.
    pub(super) fn subscribe(&self) -> watch::Receiver<ContactState> {
        self.0.subscribe()
    }

    /// The API has answered, whatever the answer was.
    pub(super) fn heard(&self) {
        self.0.send_if_modified(ContactState::heard);
    }

    /// A request of this path was answered.
    pub(super) fn answered(&self, path: &str) {
        self.0.send_if_modified(|state| {
            state.unanswered.remove(path);
            let over = state.failing.remove(path).is_some();
            state.heard() || over
        });
    }

    /// There are no more requests of this path.
    pub(super) fn forget(&self, path: &str) {
        self.0.send_if_modified(|state| {
            state.unanswered.remove(path);
            state.failing.remove(path).is_some()
        });
    }

    /// A request of this path, which began at `begun`, was not answered.
    pub(super) fn failed(&self, path: &str, begun: Instant, reason: &str) {
        self.0.send_if_modified(|state| {
            let now = Away {
                since: Timestamp::now().checked_sub(begun.elapsed()).unwrap_or_default(),
                reason: reason.into(),
                begun,
            };
            let first = state.first.get_or_insert_with(|| now.clone());
            if state.away.is_none() && first.begun.elapsed() >= PATIENCE {
                state.away = state.first.clone();
                return true;
            }
            let own = match state.unanswered.get(path) {
                Some(own) => own,
                None => state.unanswered.entry(path.into()).or_insert(now),
            };
            let long = state.away.is_none() && own.begun.elapsed() >= LONG_PATIENCE;
            if long && !state.failing.contains_key(path) {
                state.failing.insert(path.into(), own.clone());
                return true;
            }
            false
        });
    }
}

impl ContactState {
    /// Returns whether subscribers have to be woken.
    fn heard(&mut self) -> bool {
        self.first = None;
        self.last_answer = Some(Timestamp::now());
        let back = self.away.take().is_some();
        if back {
            // Each of them was away with the rest.
            self.unanswered.clear();
        }
        back
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ago(seconds: u64) -> Instant {
        Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap()
    }

    #[test]
    fn a_failure_counts_once_it_lasts_and_ends_with_any_answer() {
        let contact = Contact::new();
        let mut seen = contact.subscribe();
        contact.failed("/a", Instant::now(), "cut");
        assert!(!seen.has_changed().unwrap(), "a blip is nothing");
        contact.answered("/a");
        contact.failed("/a", ago(9), "refused");
        contact.failed("/b", Instant::now(), "refused again");
        let state = seen.borrow_and_update().clone();
        let away = state.away.unwrap();
        assert_eq!(&*away.reason, "refused");
        let since = Timestamp::now().duration_since(away.since);
        assert!((9..60).contains(&since.as_secs()), "{since:?}");
        assert!(state.last_answer.is_some());
        contact.failed("/a", Instant::now(), "refused");
        assert!(!seen.has_changed().unwrap(), "reported once");
        contact.heard();
        assert!(seen.has_changed().unwrap());
        assert_eq!(seen.borrow_and_update().away, None);
    }

    #[test]
    fn what_alone_fails_is_told_after_a_while_and_by_its_path() {
        let contact = Contact::new();
        let mut seen = contact.subscribe();
        contact.answered("/a");
        contact.failed("/b", ago(0), "it answers 500");
        contact.answered("/a");
        contact.0.send_if_modified(|state| {
            state.unanswered.get_mut("/b").unwrap().begun = ago(11);
            false
        });
        assert!(!seen.has_changed().unwrap());
        contact.failed("/b", ago(0), "it answers 500");
        let state = seen.borrow_and_update().clone();
        assert_eq!(state.away, None);
        assert_eq!(state.failing.keys().map(|path| &**path).collect::<Vec<_>>(), ["/b"]);
        contact.heard();
        assert!(!seen.has_changed().unwrap(), "that others are answered changes nothing");
        contact.answered("/b");
        assert!(seen.borrow_and_update().failing.is_empty());
    }
}
