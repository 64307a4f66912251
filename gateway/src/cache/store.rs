//! Responses in memory.
//!
//! The responses are divided among shards by their URL, each with a lock of its own that is held
//! for a lookup in a map. A list in the order of use spans all shards: the least recently used
//! response leaves first, wherever it is. Each response holds a part of the memory budget until its
//! last reader has gone.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use pingora_lru::Lru;
use smallvec::SmallVec;

use super::head::StoredHead;
use super::key::CachedUrl;
use crate::io::budget::{Budget, SharedReservation};

/// Number of shards.
const SHARDS: usize = 16;
/// Part of the store that one response may take.
const PARTS: usize = 8;
/// A response among so many that were used last is not moved to the front when it is used again.
const RECENT: usize = 8;

/// Number of counters of purges of a URL. URLs that share one only cause a response not to be
/// stored that could have been.
const COUNTERS: usize = 1024;

/// Hash of a key, including the fields that `Vary` names.
pub(super) type KeyHash = [u8; 16];

/// A response.
#[derive(Debug)]
pub(super) struct StoredResponse {
    pub(super) head: StoredHead,
    pub(super) body: Bytes,
    url: Arc<CachedUrl>,
    id: u64,
    /// Shared by the versions of a response that differ in their heads.
    memory: Arc<SharedReservation>,
}

/// A response that is about to be stored.
pub(super) struct NewResponse {
    pub(super) key: KeyHash,
    pub(super) url: Arc<CachedUrl>,
    pub(super) head: StoredHead,
    pub(super) body: Bytes,
    pub(super) memory: SharedReservation,
    /// [`Store::epoch`] when the request was sent.
    pub(super) epoch: Epoch,
}

/// How many purges have begun that name a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Epoch {
    of_many: u64,
    of_url: u64,
}

/// The responses to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purge {
    /// All.
    All,
    /// Those of this URL, with any query.
    Url(CachedUrl),
    /// Those of a host, and of paths that begin so; `None` is any.
    Of {
        /// The host in lower case, without a port.
        host: Option<Box<str>>,
        /// The path.
        path: Option<PurgedPath>,
    },
}

/// The paths of responses to remove.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PurgedPath {
    /// This path.
    Exact(Box<str>),
    /// Paths that begin with this text.
    Prefix(Box<str>),
}

/// The responses.
#[derive(Debug)]
pub(super) struct Store {
    shards: [Mutex<Shard>; SHARDS],
    order: Order,
    urls: RandomState,
    budget: Arc<Budget>,
    next: AtomicU64,
    /// Purges of more than a URL.
    purges: AtomicU64,
    /// Purges by the hash of a URL.
    url_purges: Box<[AtomicU64]>,
}

/// Responses by id in the order of their use. It has one shard, because several would each have an
/// order of their own.
struct Order(Lru<Slot, 1>);

#[derive(Debug, Default)]
struct Shard {
    responses: HashMap<KeyHash, Arc<StoredResponse>>,
    /// Keys by the hash of their URL.
    keys: HashMap<u64, SmallVec<[KeyHash; 2]>>,
}

/// Where a response is.
struct Slot {
    url: u64,
    key: KeyHash,
    id: u64,
}

impl Store {
    /// Creates a store of at most `limit` bytes.
    pub(super) fn new(limit: usize, budget: Arc<Budget>) -> Self {
        Self {
            shards: Default::default(),
            order: Order(Lru::with_capacity(limit, 64)),
            urls: RandomState::new(),
            budget,
            next: AtomicU64::new(0),
            purges: AtomicU64::new(0),
            url_purges: (0..COUNTERS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Changes the limit.
    pub(super) fn set_limit(&self, limit: usize) {
        self.order.0.set_weight_limit(limit);
        self.evict();
    }

    pub(super) fn limit(&self) -> usize {
        self.order.0.weight_limit()
    }

    /// Returns the maximum of bytes that a response may take.
    pub(super) fn most(&self) -> usize {
        self.limit() / PARTS
    }

    /// Returns the bytes of all responses.
    pub(super) fn bytes(&self) -> usize {
        self.order.0.weight()
    }

    /// Returns the number of responses.
    pub(super) fn count(&self) -> usize {
        self.order.0.len()
    }

    /// Returns how many responses left because others needed their memory.
    pub(super) fn evictions(&self) -> usize {
        self.order.0.evicted_len()
    }

    /// Returns a value that changes with each purge of the URL. A response to a request that was
    /// sent before is not stored.
    pub(super) fn epoch(&self, url: &CachedUrl) -> Epoch {
        self.epoch_at(self.hash(url))
    }

    fn epoch_at(&self, url: u64) -> Epoch {
        Epoch { of_many: self.purges.load(SeqCst), of_url: self.url_purges_at(url).load(SeqCst) }
    }

    fn url_purges_at(&self, url: u64) -> &AtomicU64 {
        // Other bits than those that choose the shard.
        &self.url_purges[((url >> 32) % COUNTERS as u64) as usize]
    }

    /// Returns an empty reservation for a new response.
    pub(super) fn reservation(&self) -> SharedReservation {
        SharedReservation::new(&self.budget)
    }

    /// Returns a response, which counts as used.
    pub(super) fn get(&self, key: &KeyHash, url: &CachedUrl) -> Option<Arc<StoredResponse>> {
        let response = self.shard(self.hash(url)).responses.get(key).cloned()?;
        self.order.0.promote_top_n(response.id, RECENT);
        Some(response)
    }

    /// Stores a response in place of another one with its key.
    pub(super) fn put(&self, new: NewResponse) {
        let NewResponse { key, url, head, body, memory, epoch } = new;
        let (at, id) = (self.hash(&url), self.next.fetch_add(1, SeqCst));
        let weight = memory.bytes();
        let response = Arc::new(StoredResponse { head, body, url, id, memory: Arc::new(memory) });
        {
            let mut shard = self.shard(at);
            // A purge that has begun may have passed this shard.
            if self.epoch_at(at) != epoch {
                return;
            }
            match shard.responses.insert(key, response) {
                Some(old) => drop(self.order.0.remove(old.id)),
                None => shard.keys.entry(at).or_default().push(key),
            }
            self.order.0.admit(id, Slot { url: at, key, id }, weight);
        }
        self.evict();
    }

    /// Replaces the head of a response. Returns false if the response has left.
    pub(super) fn put_head(&self, key: &KeyHash, url: &CachedUrl, head: StoredHead) -> bool {
        let mut shard = self.shard(self.hash(url));
        let Some(response) = shard.responses.get_mut(key) else { return false };
        let StoredResponse { body, url, id, memory, .. } = &**response;
        *response = Arc::new(StoredResponse {
            head,
            body: body.clone(),
            url: url.clone(),
            id: *id,
            memory: memory.clone(),
        });
        true
    }

    /// Removes responses, and returns their number.
    pub(super) fn purge(&self, purge: &Purge) -> usize {
        if let Purge::Url(url) = purge {
            let at = self.hash(url);
            self.url_purges_at(at).fetch_add(1, SeqCst);
            return self.remove_url(at, url);
        }
        self.purges.fetch_add(1, SeqCst);
        let shards = self.shards.iter().map(lock);
        shards.map(|shard| self.remove_from(shard, |response| purge.names(&response.url))).sum()
    }

    fn remove_url(&self, at: u64, url: &CachedUrl) -> usize {
        let mut shard = self.shard(at);
        let Some(keys) = shard.keys.get(&at) else { return 0 };
        let named = keys.iter().filter_map(|key| Some((*key, shard.responses.get(key)?)));
        let named = named.filter(|(_, response)| *response.url == *url);
        let named: SmallVec<[_; 2]> = named.map(|(key, response)| (key, response.id)).collect();
        self.remove(&mut shard, named.into_iter().map(|(key, id)| (key, at, id)))
    }

    fn remove_from(
        &self,
        mut shard: MutexGuard<'_, Shard>,
        is_named: impl Fn(&StoredResponse) -> bool,
    ) -> usize {
        let named = shard.responses.iter().filter(|(_, response)| is_named(response));
        let named: Vec<_> =
            named.map(|(key, response)| (*key, self.hash(&response.url), response.id)).collect();
        self.remove(&mut shard, named.into_iter())
    }

    /// Removes these keys with the hash of their URL and the id of their response. Returns their
    /// number.
    fn remove(&self, shard: &mut Shard, named: impl ExactSizeIterator<Item = (KeyHash, u64, u64)>) -> usize {
        let count = named.len();
        for (key, url, id) in named {
            shard.remove(&key, url);
            self.order.0.remove(id);
        }
        count
    }

    fn evict(&self) {
        for (Slot { url, key, id }, _) in self.order.0.evict_to_limit() {
            let mut shard = self.shard(url);
            // Another response may have taken its place meanwhile.
            if shard.responses.get(&key).is_some_and(|response| response.id == id) {
                shard.remove(&key, url);
            }
        }
    }

    fn hash(&self, url: &CachedUrl) -> u64 {
        self.urls.hash_one(url)
    }

    fn shard(&self, url: u64) -> MutexGuard<'_, Shard> {
        lock(&self.shards[(url % SHARDS as u64) as usize])
    }
}

impl Shard {
    fn remove(&mut self, key: &KeyHash, url: u64) {
        self.responses.remove(key);
        if let Some(keys) = self.keys.get_mut(&url) {
            keys.retain(|other| other != key);
            if keys.is_empty() {
                self.keys.remove(&url);
            }
        }
    }
}

impl Purge {
    fn names(&self, url: &CachedUrl) -> bool {
        match self {
            Self::All => true,
            Self::Url(named) => url == named,
            Self::Of { host, path } => {
                host.as_ref().is_none_or(|host| *host == url.host)
                    && path.as_ref().is_none_or(|path| path.names(&url.path))
            }
        }
    }
}

impl PurgedPath {
    fn names(&self, path: &str) -> bool {
        match self {
            Self::Exact(named) => **named == *path,
            Self::Prefix(prefix) => path.starts_with(&**prefix),
        }
    }
}

impl std::fmt::Debug for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Order").field("bytes", &self.0.weight()).finish_non_exhaustive()
    }
}

/// Ignores poisoning: no code that holds the lock panics between two changes.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
