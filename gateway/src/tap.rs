//! Readers of live requests: `sluice tap` and `sluice trace-next`.
//!
//! Without a reader, a request costs one relaxed load. With one, a request that passes the part of
//! the filter about its head is followed, and handed over when it ends. No request waits: a reader
//! that is too slow loses requests, which are counted.

mod filter;
mod record;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use tokio::sync::mpsc;

pub(crate) use filter::{RequestFilter, TappedHead};
pub(crate) use record::{
    AttemptStep, CheckResult, CheckStep, FieldLines, ReceivedHead, RequestSteps, SentHead, TappedRequest,
    TappedRule,
};

/// Maximum number of readers at a time.
pub(crate) const READERS: usize = 4;
/// Maximum number of requests that wait for a reader.
const WAITING: usize = 1024;
/// Maximum number of requests in progress whose steps are recorded for a reader.
const FOLLOWED: usize = 64;

/// All readers.
#[derive(Debug, Default)]
pub(crate) struct Taps {
    /// Whether there is a reader: all that a request reads without one.
    is_open: AtomicBool,
    taps: ArcSwap<Vec<Arc<Tap>>>,
    /// Held while the list changes.
    changing: Mutex<()>,
}

/// A reader, as requests see it.
#[derive(Debug)]
pub(crate) struct Tap {
    filter: RequestFilter,
    /// Whether the steps of requests are recorded.
    with_steps: bool,
    sender: mpsc::Sender<Arc<TappedRequest>>,
    /// Number of requests that did not fit into the queue.
    lost: AtomicU64,
    /// Number of requests in progress whose steps are recorded.
    followed: AtomicUsize,
}

/// The side of a reader. Requests are followed until it is dropped.
#[derive(Debug)]
pub(crate) struct TapReader {
    /// Requests in the order in which they ended.
    pub(crate) requests: mpsc::Receiver<Arc<TappedRequest>>,
    tap: Arc<Tap>,
    taps: Arc<Taps>,
}

/// The readers that follow a request. Ends following when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Followers(SmallVec<[Arc<Tap>; 1]>);

impl Taps {
    /// Returns whether there is a reader.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Relaxed)
    }

    /// Adds a reader; `None` if there are too many.
    pub(crate) fn open(self: &Arc<Self>, filter: RequestFilter, with_steps: bool) -> Option<TapReader> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taps = Vec::clone(&self.taps.load());
        if taps.len() >= READERS {
            return None;
        }
        let (sender, requests) = mpsc::channel(WAITING);
        let (lost, followed) = (AtomicU64::new(0), AtomicUsize::new(0));
        let tap = Arc::new(Tap { filter, with_steps, sender, lost, followed });
        taps.push(tap.clone());
        self.taps.store(Arc::new(taps));
        self.is_open.store(true, Relaxed);
        Some(TapReader { requests, tap, taps: self.clone() })
    }

    /// Returns the readers that follow a request with this head.
    pub(crate) fn followers(&self, head: &TappedHead<'_>) -> Followers {
        let taps = self.taps.load();
        let follows = |tap: &&Arc<Tap>| tap.filter.takes_head(head) && tap.may_follow();
        Followers(taps.iter().filter(follows).cloned().collect())
    }
}

impl Tap {
    /// Takes a place for the steps of a request, if they are recorded.
    fn may_follow(&self) -> bool {
        let next = |followed| (followed < FOLLOWED).then_some(followed + 1);
        !self.with_steps || self.followed.fetch_update(Relaxed, Relaxed, next).is_ok()
    }
}

impl Followers {
    /// Returns whether no reader follows the request.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a reader wants the steps of the request.
    pub(crate) fn want_steps(&self) -> bool {
        self.0.iter().any(|tap| tap.with_steps)
    }

    /// Hands a request that has ended to the readers that want it.
    pub(crate) fn offer(&self, request: &Arc<TappedRequest>) {
        for tap in self.0.iter().filter(|tap| tap.filter.takes_end(request)) {
            if tap.sender.try_send(request.clone()).is_err() {
                tap.lost.fetch_add(1, Relaxed);
            }
        }
    }
}

impl Drop for Followers {
    fn drop(&mut self) {
        for tap in self.0.iter().filter(|tap| tap.with_steps) {
            tap.followed.fetch_sub(1, Relaxed);
        }
    }
}

impl TapReader {
    /// Returns the number of requests lost so far.
    pub(crate) fn lost(&self) -> u64 {
        self.tap.lost.load(Relaxed)
    }
}

impl Drop for TapReader {
    fn drop(&mut self) {
        let _changing = self.taps.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taps = Vec::clone(&self.taps.taps.load());
        taps.retain(|tap| !Arc::ptr_eq(tap, &self.tap));
        self.taps.is_open.store(!taps.is_empty(), Relaxed);
        self.taps.taps.store(Arc::new(taps));
    }
}

#[cfg(test)]
mod tests {
    use super::record::tests::request;
    use super::*;

    fn open(taps: &Arc<Taps>, query: &str, with_steps: bool) -> TapReader {
        taps.open(RequestFilter::read(query).unwrap(), with_steps).unwrap()
    }

    fn head(host: &str) -> TappedHead<'_> {
        TappedHead { host, method: "GET", path: "/", client: "192.0.2.7".parse().unwrap() }
    }

    #[test]
    fn requests_are_handed_to_the_readers_that_want_them() {
        let taps = Arc::<Taps>::default();
        assert!(!taps.is_open());
        let (mut shop, mut all) = (open(&taps, "host=shop.example", false), open(&taps, "", false));
        assert!(taps.is_open());
        let followers = taps.followers(&head("other.example"));
        assert!(!followers.is_empty() && !followers.want_steps());
        followers.offer(&Arc::new(request(200)));
        assert!(shop.requests.try_recv().is_err());
        assert_eq!(all.requests.try_recv().unwrap().status, 200);
        drop(all);
        assert!(taps.followers(&head("other.example")).is_empty() && taps.is_open());
        drop(shop);
        assert!(!taps.is_open());
    }

    #[test]
    fn a_slow_reader_loses_requests_and_learns_how_many() {
        let taps = Arc::<Taps>::default();
        let mut reader = open(&taps, "", false);
        for _ in 0..WAITING + 5 {
            taps.followers(&head("a.example")).offer(&Arc::new(request(200)));
        }
        assert_eq!(reader.lost(), 5);
        let mut received = 0;
        while reader.requests.try_recv().is_ok() {
            received += 1;
        }
        assert_eq!(received, WAITING);
    }

    #[test]
    fn the_numbers_of_readers_and_of_followed_requests_are_limited() {
        let taps = Arc::<Taps>::default();
        let readers: Vec<_> = (0..READERS).map(|_| open(&taps, "", true)).collect();
        assert!(taps.open(RequestFilter::default(), false).is_none());
        drop(readers);
        let _reader = open(&taps, "", true);
        let followed: Vec<_> = (0..FOLLOWED).map(|_| taps.followers(&head("a.example"))).collect();
        assert!(taps.followers(&head("a.example")).is_empty());
        drop(followed);
        assert!(taps.followers(&head("a.example")).want_steps());
    }
}
