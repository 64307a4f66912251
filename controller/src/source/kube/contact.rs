//! Whether the API answers. One record for all watches: an API server that is away is away for each of them,
//! and an operator wants to be told once, with the time at which it began.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;

/// How long nothing may be answered before that is worth saying. A restart of a connection is not.
const PATIENCE: Duration = Duration::from_secs(1);

/// What is known of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContactState {
    /// Set while it does not answer.
    pub away: Option<Away>,
    /// When it last answered; `None` before the first time.
    pub last_answer: Option<Timestamp>,
    failing: Option<Away>,
}

/// Since when the API does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Away {
    /// When the first request began that was not answered.
    pub since: Timestamp,
    /// What became of the first request.
    pub reason: Arc<str>,
    begun: Instant,
}

/// The record. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Contact(watch::Sender<ContactState>);

impl Contact {
    pub(super) fn new() -> Self {
        Self(watch::Sender::default())
    }

    /// For whoever wants to know.
    pub(super) fn subscribe(&self) -> watch::Receiver<ContactState> {
        self.0.subscribe()
    }

    /// The API has said something, whatever it was.
    pub(super) fn answered(&self) {
        self.0.send_if_modified(|state| {
            state.failing = None;
            state.last_answer = Some(Timestamp::now());
            state.away.take().is_some()
        });
    }

    /// A request that began at `begun` was not answered.
    pub(super) fn failed(&self, begun: Instant, reason: &str) {
        self.0.send_if_modified(|state| {
            let failing = state.failing.get_or_insert_with(|| Away {
                since: Timestamp::now().checked_sub(begun.elapsed()).unwrap_or_default(),
                reason: reason.into(),
                begun,
            });
            let news = state.away.is_none() && failing.begun.elapsed() >= PATIENCE;
            if news {
                state.away = state.failing.clone();
            }
            news
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_counts_once_it_lasts_and_ends_with_any_answer() {
        let contact = Contact::new();
        let mut seen = contact.subscribe();
        contact.failed(Instant::now(), "cut");
        assert!(!seen.has_changed().unwrap(), "a blip is nothing");
        contact.answered();
        let long_ago = Instant::now().checked_sub(Duration::from_secs(9)).unwrap();
        contact.failed(long_ago, "refused");
        contact.failed(Instant::now(), "refused again");
        let state = seen.borrow_and_update().clone();
        let away = state.away.unwrap();
        assert_eq!(&*away.reason, "refused");
        let since = Timestamp::now().duration_since(away.since);
        assert!((9..60).contains(&since.as_secs()), "{since:?}");
        assert!(state.last_answer.is_some());
        contact.failed(Instant::now(), "refused");
        assert!(!seen.has_changed().unwrap(), "said once");
        contact.answered();
        assert!(seen.has_changed().unwrap());
        assert_eq!(seen.borrow_and_update().away, None);
    }
}
