//! Whether the API answers. One record for all watches: an API server that is away is away for each of them,
//! and an operator wants one problem about it, with the time at which it began.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

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
    /// Requests whose last one was answered with what was asked for.
    granted: BTreeSet<Arc<str>>,
    /// Requests whose last one was refused for want of credentials or rights.
    refused: BTreeMap<Arc<str>, Away>,
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

    /// The API says something that was asked for.
    pub(super) fn heard(&self) {
        self.0.send_if_modified(ContactState::heard);
    }

    /// A request of this path was answered.
    pub(super) fn answered(&self, path: &str) {
        self.0.send_if_modified(|state| {
            state.unanswered.remove(path);
            state.refused.remove(path);
            state.granted.insert(path.into());
            let over = state.failing.remove(path).is_some();
            state.heard() || over
        });
    }

    /// A request of this path was refused for want of credentials or rights (401, 403). That one of
    /// several is refused is a missing right, with a problem of its own. When all of them are,
    /// nothing is known of the cluster any more, as if the API did not answer.
    pub(super) fn refused(&self, path: &str, begun: Instant, reason: &str) {
        self.0.send_if_modified(|state| {
            state.unanswered.remove(path);
            state.granted.remove(path);
            let over = state.failing.remove(path).is_some();
            if !state.refused.contains_key(path) {
                state.refused.insert(path.into(), Away::since(begun, reason));
            }
            let last = state.refused.values().max_by_key(|one| one.begun);
            let long = |one: &&Away| one.begun.elapsed() >= LONG_PATIENCE;
            if state.away.is_none()
                && state.granted.is_empty()
                && let Some(last) = last.filter(long)
            {
                state.away = Some(last.clone());
                return true;
            }
            over
        });
    }

    /// There are no more requests of this path.
    pub(super) fn forget(&self, path: &str) {
        self.0.send_if_modified(|state| {
            state.unanswered.remove(path);
            state.granted.remove(path);
            state.refused.remove(path);
            state.failing.remove(path).is_some()
        });
    }

    /// A request of this path, which began at `begun`, was not answered.
    pub(super) fn failed(&self, path: &str, begun: Instant, reason: &str) {
        self.0.send_if_modified(|state| {
            state.granted.remove(path);
            let now = Away::since(begun, reason);
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

impl Away {
    fn since(begun: Instant, reason: &str) -> Self {
        let since = Timestamp::now().checked_sub(begun.elapsed()).unwrap_or_default();
        Self { since, reason: reason.into(), begun }
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
            self.refused.clear();
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

    #[tokio::test(start_paused = true)]
    async fn an_outage_of_authorisation_counts_as_no_answer_and_one_missing_right_does_not() {
        let contact = Contact::new();
        let mut seen = contact.subscribe();
        contact.answered("/a");
        let known = seen.borrow_and_update().last_answer;
        for _ in 0..10 {
            contact.refused("/b", Instant::now(), "403");
            tokio::time::advance(LONG_PATIENCE).await;
        }
        assert_eq!(seen.borrow_and_update().away, None, "others are answered");
        // The token has expired: the watch that was open ends, and cannot be renewed.
        contact.refused("/a", Instant::now(), "401");
        assert_eq!(seen.borrow_and_update().away, None, "it may be back in a moment");
        tokio::time::advance(LONG_PATIENCE).await;
        contact.refused("/b", Instant::now(), "401");
        let state = seen.borrow_and_update().clone();
        assert_eq!(state.away.as_ref().map(|away| &*away.reason), Some("401"));
        assert_eq!(state.last_answer, known, "a refusal says nothing about the state of the cluster");
        contact.answered("/a");
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
