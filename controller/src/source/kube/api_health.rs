//! Reachability of the API, recorded once for all watches: an unreachable API server affects all of
//! them, and an operator needs one problem, with the time of its start.
//!
//! Requests are named by path. The watch of a path has a name of its own ([`watch_of`]), because it
//! may fail while lists of the path succeed; whether access is granted is a matter of the path.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

/// Time without a response before it is reported. Restarts of connections are shorter.
const TIMEOUT: Duration = Duration::from_secs(1);
/// Time for which some requests may fail while others get responses.
const LONG_TIMEOUT: Duration = Duration::from_secs(10);

/// The reachability of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiHealthState {
    /// Set while the API does not respond.
    pub away: Option<Away>,
    /// Time of the last response; `None` before the first one.
    pub last_answer: Option<Timestamp>,
    /// Requests that have failed for long while others get responses, by name.
    pub failing: BTreeMap<Arc<str>, Away>,
    /// Requests whose last attempt failed.
    unanswered: BTreeMap<Arc<str>, Away>,
    /// The first failure since the last response to any request.
    first: Option<Away>,
    /// Paths whose last request succeeded.
    granted: BTreeSet<Arc<str>>,
    /// Paths whose last request was refused for lack of credentials or rights.
    refused: BTreeMap<Arc<str>, Away>,
}

/// The start of an outage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Away {
    /// Start of the first request without a response.
    pub since: Timestamp,
    /// Failure of that request.
    pub reason: Arc<str>,
    begun: Instant,
}

/// The shared record. Clones refer to the same one. Subscribers wake on outages and failing
/// requests, not on every response.
#[derive(Clone, Debug)]
pub(super) struct ApiHealth(watch::Sender<ApiHealthState>);

/// Follows the path in the name of a watch.
const WATCH: &str = "?watch=true";

/// Returns the name of the watch of a path.
pub(super) fn watch_of(path: &str) -> String {
    format!("{path}{WATCH}")
}

fn path_of(name: &str) -> &str {
    name.strip_suffix(WATCH).unwrap_or(name)
}

impl ApiHealth {
    pub(super) fn new() -> Self {
        Self(watch::Sender::default())
    }

    /// Returns a subscription.
    pub(super) fn subscribe(&self) -> watch::Receiver<ApiHealthState> {
        self.0.subscribe()
    }

    /// Records that requested data arrived.
    pub(super) fn data_received(&self) {
        self.0.send_if_modified(ApiHealthState::data_received);
    }

    /// Records a response to a request of this name.
    pub(super) fn answered(&self, name: &str) {
        let path = path_of(name);
        self.0.send_if_modified(|state| {
            state.unanswered.remove(name);
            state.refused.remove(path);
            state.granted.insert(path.into());
            let over = state.failing.remove(name).is_some();
            state.data_received() || over
        });
    }

    /// Records that a request of this name was refused (401, 403). One refused request among
    /// several is a missing right, with its own problem. If all are refused, the state of the
    /// cluster is unknown, as if the API did not respond.
    pub(super) fn refused(&self, name: &str, begun: Instant, reason: &str) {
        let path = path_of(name);
        self.0.send_if_modified(|state| {
            state.unanswered.remove(name);
            state.granted.remove(path);
            let over = state.failing.remove(name).is_some();
            if !state.refused.contains_key(path) {
                state.refused.insert(path.into(), Away::since(begun, reason));
            }
            let last = state.refused.values().max_by_key(|one| one.begun);
            let long = |one: &&Away| one.begun.elapsed() >= LONG_TIMEOUT;
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

    /// Removes a path that is no longer requested.
    pub(super) fn forget(&self, path: &str) {
        self.0.send_if_modified(|state| {
            state.unanswered.remove(path);
            state.granted.remove(path);
            state.refused.remove(path);
            state.failing.remove(path).is_some()
        });
    }

    /// Records that a request of this name, started at `begun`, failed.
    pub(super) fn failed(&self, name: &str, begun: Instant, reason: &str) {
        self.0.send_if_modified(|state| {
            state.granted.remove(path_of(name));
            let now = Away::since(begun, reason);
            let first = state.first.get_or_insert_with(|| now.clone());
            if state.away.is_none() && first.begun.elapsed() >= TIMEOUT {
                state.away = state.first.clone();
                return true;
            }
            let own = match state.unanswered.get(name) {
                Some(own) => own,
                None => state.unanswered.entry(name.into()).or_insert(now),
            };
            let long = state.away.is_none() && own.begun.elapsed() >= LONG_TIMEOUT;
            if long && !state.failing.contains_key(name) {
                state.failing.insert(name.into(), own.clone());
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

impl ApiHealthState {
    /// Returns whether subscribers must be woken.
    fn data_received(&mut self) -> bool {
        self.first = None;
        self.last_answer = Some(Timestamp::now());
        let back = self.away.take().is_some();
        if back {
            // All of them failed because of the same outage.
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
        let api_health = ApiHealth::new();
        let mut seen = api_health.subscribe();
        api_health.failed("/a", Instant::now(), "cut");
        assert!(!seen.has_changed().unwrap(), "a blip is nothing");
        api_health.answered("/a");
        api_health.failed("/a", ago(9), "refused");
        api_health.failed("/b", Instant::now(), "refused again");
        let state = seen.borrow_and_update().clone();
        let away = state.away.unwrap();
        assert_eq!(&*away.reason, "refused");
        let since = Timestamp::now().duration_since(away.since);
        assert!((9..60).contains(&since.as_secs()), "{since:?}");
        assert!(state.last_answer.is_some());
        api_health.failed("/a", Instant::now(), "refused");
        assert!(!seen.has_changed().unwrap(), "reported once");
        api_health.data_received();
        assert!(seen.has_changed().unwrap());
        assert_eq!(seen.borrow_and_update().away, None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_authorisation_outage_differs_from_one_missing_right() {
        let api_health = ApiHealth::new();
        let mut seen = api_health.subscribe();
        api_health.answered("/a");
        let known = seen.borrow_and_update().last_answer;
        for _ in 0..10 {
            api_health.refused("/b", Instant::now(), "403");
            tokio::time::advance(LONG_TIMEOUT).await;
        }
        assert_eq!(seen.borrow_and_update().away, None, "others are answered");
        // The token has expired: the open watch ends and cannot be renewed.
        api_health.refused("/a", Instant::now(), "401");
        assert_eq!(seen.borrow_and_update().away, None, "it may be back in a moment");
        tokio::time::advance(LONG_TIMEOUT).await;
        api_health.refused("/b", Instant::now(), "401");
        let state = seen.borrow_and_update().clone();
        assert_eq!(state.away.as_ref().map(|away| &*away.reason), Some("401"));
        assert_eq!(state.last_answer, known, "a refusal says nothing about the state of the cluster");
        api_health.answered("/a");
        assert_eq!(seen.borrow_and_update().away, None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_token_is_an_outage_although_lists_were_granted_before() {
        let api_health = ApiHealth::new();
        api_health.answered("/a");
        for _ in 0..2 {
            api_health.refused(&watch_of("/a"), Instant::now(), "401");
            tokio::time::advance(LONG_TIMEOUT).await;
        }
        assert!(api_health.subscribe().borrow().away.is_some());
    }

    #[test]
    fn a_single_failing_request_is_reported_by_path_after_a_while() {
        let api_health = ApiHealth::new();
        let mut seen = api_health.subscribe();
        api_health.answered("/a");
        api_health.failed("/b", ago(0), "it answers 500");
        api_health.answered("/a");
        api_health.0.send_if_modified(|state| {
            state.unanswered.get_mut("/b").unwrap().begun = ago(11);
            false
        });
        assert!(!seen.has_changed().unwrap());
        api_health.failed("/b", ago(0), "it answers 500");
        let state = seen.borrow_and_update().clone();
        assert_eq!(state.away, None);
        assert_eq!(state.failing.keys().map(|path| &**path).collect::<Vec<_>>(), ["/b"]);
        api_health.data_received();
        assert!(!seen.has_changed().unwrap(), "that others are answered changes nothing");
        api_health.answered("/b");
        assert!(seen.borrow_and_update().failing.is_empty());
    }
}
