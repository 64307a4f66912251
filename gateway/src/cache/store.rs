//! Responses in memory, and their bodies in files.
//!
//! The responses are divided among shards by their key, each with a lock of its own that is held
//! for a lookup in a map. A key need not contain the host or the path (`sluice.dev/cache-key`), so
//! responses of one URL may be in several shards. A list in the order of use spans all shards: the
//! least recently used response leaves first, wherever it is. Each response holds a part of the
//! memory budget until its last reader has gone.
//!
//! With files, the body of a response that leaves moves to one (`demotion`), and stays there until
//! the response is replaced or the space is needed. Its head stays in memory, in an order of its
//! own (`file_tier`). Both kinds and those that are moving share the limit: those that are moving
//! take at most an eighth, and heads of responses in files at most half.

mod demotion;
mod file_tier;
mod purge;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use pingora_lru::Lru;
use smallvec::SmallVec;

use self::demotion::Demotion;
use self::file_tier::FileTier;
use super::files::{BodyFile, Files};
use super::head::StoredHead;
use super::key::{CachedUrl, RequestKey};
use super::keyed_hash::SipKey;
use crate::io::budget::{Budget, SharedReservation};

pub(crate) use self::purge::{Purge, PurgedPath};

/// Number of shards.
const SHARDS: usize = 16;
/// Part of the store that one response may take.
const PARTS: usize = 8;
/// Part of the store that the heads of responses in files may take.
const PART_OF_HEADS: usize = 2;
/// A response among so many that were used last is not moved to the front when it is used again.
const RECENT: usize = 8;

/// Number of counters of purges of a URL. URLs that share one only cause a response not to be
/// stored that could have been.
const COUNTERS: usize = 1024;

/// Hash of a key, including the fields that `Vary` names.
pub(super) type KeyHash = [u8; 16];

/// Number of a response. The versions of a response that differ in their heads have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResponseId(u64);

/// A response.
#[derive(Debug)]
pub(super) struct StoredResponse {
    pub(super) head: Arc<StoredHead>,
    pub(super) body: StoredBody,
    url: Arc<CachedUrl>,
    id: u64,
    /// Shared by the versions of a response that differ in their heads.
    memory: Arc<SharedReservation>,
}

/// Where the body of a response is.
#[derive(Clone, Debug)]
pub(super) enum StoredBody {
    Memory(Bytes),
    File(Arc<BodyFile>),
}

/// A response that is about to be stored.
pub(super) struct NewResponse {
    pub(super) key: KeyHash,
    pub(super) url: Arc<CachedUrl>,
    pub(super) head: StoredHead,
    pub(super) body: StoredBody,
    /// For the head, and the body or the hashes of its file.
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

/// The responses.
#[derive(Debug)]
pub(super) struct Store {
    shards: [Mutex<Shard>; SHARDS],
    limit: AtomicUsize,
    order: Order,
    /// Responses with bodies in files, if there is a folder for them.
    tier: Option<FileTier>,
    evictions: AtomicUsize,
    urls: RandomState,
    keys: SipKey,
    budget: Arc<Budget>,
    next: AtomicU64,
    /// Purges of more than a URL.
    purges: AtomicU64,
    /// Purges by the hash of a URL.
    url_purges: Box<[AtomicU64]>,
}

/// Responses in memory by id in the order of their use. It has one shard, because several would
/// each have an order of their own.
struct Order(Lru<Slot, 1>);

#[derive(Debug, Default)]
struct Shard {
    responses: HashMap<KeyHash, Arc<StoredResponse>>,
    /// Keys by the hash of their URL.
    keys: HashMap<u64, SmallVec<[KeyHash; 2]>>,
}

/// Where a response is.
#[derive(Clone, Copy, Debug)]
struct Slot {
    url: u64,
    key: KeyHash,
    id: u64,
}

impl StoredResponse {
    /// Returns the number of the response.
    pub(super) fn id(&self) -> ResponseId {
        ResponseId(self.id)
    }

    /// Returns the length of the body.
    pub(super) fn length(&self) -> usize {
        match &self.body {
            StoredBody::Memory(body) => body.len(),
            StoredBody::File(file) => usize::try_from(file.length()).unwrap_or(usize::MAX),
        }
    }
}

impl Store {
    /// Creates a store of at most `limit` bytes of memory, with a folder for bodies.
    pub(super) fn new(limit: usize, budget: Arc<Budget>, files: Option<Arc<Files>>) -> Self {
        Self {
            shards: Default::default(),
            limit: AtomicUsize::new(limit),
            order: Order(Lru::with_capacity(limit, 64)),
            tier: files.map(FileTier::new),
            evictions: AtomicUsize::new(0),
            urls: RandomState::new(),
            keys: SipKey::random(),
            budget,
            next: AtomicU64::new(0),
            purges: AtomicU64::new(0),
            url_purges: (0..COUNTERS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Changes the limit of memory. 0 removes everything.
    pub(super) fn set_limit(&'static self, limit: usize) {
        self.limit.store(limit, SeqCst);
        if limit == 0 {
            self.purge(&Purge::All);
        }
        self.evict();
    }

    /// Removes responses in files until they take no more of the disk than its limit.
    pub(super) fn shrink_files(&self) {
        let Some(tier) = &self.tier else { return };
        while tier.space() > tier.files.limit() && self.evict_file().is_some() {}
    }

    pub(super) fn limit(&self) -> usize {
        self.limit.load(SeqCst)
    }

    /// Returns the maximum of bytes that a response may take in memory.
    pub(super) fn most_in_memory(&self) -> usize {
        self.limit() / PARTS
    }

    /// Returns the maximum of bytes that a body may have in a file; 0 if there are no files.
    pub(super) fn most_in_file(&self) -> u64 {
        let files = self.files().filter(|files| files.are_usable());
        files.map_or(0, |files| files.limit() / PARTS as u64)
    }

    /// Returns the folder for bodies.
    pub(super) fn files(&self) -> Option<&Arc<Files>> {
        self.tier.as_ref().map(|tier| &tier.files)
    }

    /// Returns the bytes of memory of all responses.
    pub(super) fn bytes(&self) -> usize {
        self.order.0.weight() + self.tier.as_ref().map_or(0, |tier| tier.memory() + tier.moving())
    }

    /// Returns the number of responses.
    pub(super) fn count(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).responses.len()).sum()
    }

    /// Returns the number of responses in files.
    pub(super) fn count_in_files(&self) -> usize {
        self.tier.as_ref().map_or(0, FileTier::count)
    }

    /// Returns how many responses left because others needed their memory or their space.
    pub(super) fn evictions(&self) -> usize {
        self.evictions.load(SeqCst)
    }

    /// Returns the hash of a key, without the fields that `Vary` names.
    pub(super) fn key_hash(&self, key: &RequestKey) -> KeyHash {
        self.keys.hash(key.bytes())
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
        &self.url_purges[(url % COUNTERS as u64) as usize]
    }

    /// Returns an empty reservation for a new response.
    pub(super) fn reservation(&self) -> SharedReservation {
        SharedReservation::new(&self.budget)
    }

    /// Returns a response, which counts as used.
    pub(super) fn get(&self, key: &KeyHash) -> Option<Arc<StoredResponse>> {
        let response = self.shard(key).responses.get(key).cloned()?;
        match (&response.body, &self.tier) {
            (StoredBody::File(_), Some(tier)) => tier.promote(response.id, RECENT),
            _ => {
                self.order.0.promote_top_n(response.id, RECENT);
            }
        }
        Some(response)
    }

    /// Stores a response in place of another one with its key.
    pub(super) fn put(&'static self, new: NewResponse) {
        let NewResponse { key, url, head, body, memory, epoch } = new;
        let (at, id) = (self.hash(&url), self.next.fetch_add(1, SeqCst));
        let response =
            Arc::new(StoredResponse { head: Arc::new(head), body, url, id, memory: Arc::new(memory) });
        {
            let mut shard = self.shard(&key);
            // A purge that has begun may have passed this shard.
            if self.epoch_at(at) != epoch {
                return;
            }
            self.admit(Slot { url: at, key, id }, &response);
            if let Some(old) = shard.responses.insert(key, response) {
                self.forget(old.id);
                shard.remove_key(&key, self.hash(&old.url));
            }
            shard.keys.entry(at).or_default().push(key);
        }
        self.evict();
    }

    /// Replaces the head of a response. Returns false if the response has left, or another one has
    /// taken its place: a 304 updates the response that it confirms and no other one (RFC 9111
    /// §4.3.4).
    pub(super) fn put_head(&self, key: &KeyHash, confirmed: ResponseId, head: StoredHead) -> bool {
        let mut shard = self.shard(key);
        let current = shard.responses.get_mut(key).filter(|current| current.id() == confirmed);
        let Some(response) = current else { return false };
        let StoredResponse { body, url, id, memory, .. } = &**response;
        *response = Arc::new(StoredResponse {
            head: Arc::new(head),
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
        let remove = |mut shard: MutexGuard<'_, Shard>| {
            let Some(keys) = shard.keys.get(&at) else { return 0 };
            let named = keys.iter().filter_map(|key| Some((*key, shard.responses.get(key)?)));
            let named = named.filter(|(_, response)| *response.url == *url);
            let named: SmallVec<[_; 2]> = named.map(|(key, response)| (key, response.id)).collect();
            self.remove(&mut shard, named.into_iter().map(|(key, id)| (key, at, id)))
        };
        self.shards.iter().map(lock).map(remove).sum()
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
            drop(shard.remove(&key, url));
            self.forget(id);
        }
        count
    }

    /// Removes a response whose body cannot be read, unless another one has taken its place.
    pub(super) fn remove_unreadable(&self, key: &KeyHash, response: &StoredResponse) {
        let slot = Slot { url: self.hash(&response.url), key: *key, id: response.id };
        if self.take(slot).is_some() {
            self.forget(slot.id);
        }
    }

    /// Adds a response to the order of its kind.
    fn admit(&self, slot: Slot, response: &StoredResponse) {
        let memory = response.memory.bytes();
        match (&response.body, &self.tier) {
            (StoredBody::File(file), Some(tier)) => tier.admit(slot, file.space(), memory),
            _ => {
                self.order.0.admit(slot.id, slot, memory);
            }
        }
    }

    /// Removes a response from the order that it is in.
    fn forget(&self, id: u64) {
        self.order.0.remove(id);
        if let Some(tier) = &self.tier {
            tier.remove(id);
        }
    }

    /// Frees memory until the responses fit in the limit.
    fn evict(&'static self) {
        if let Some(tier) = &self.tier {
            let limit = self.limit();
            while tier.memory() > limit / PART_OF_HEADS && self.evict_file().is_some() {}
            // Those that are moving have a part of their own.
            self.order.0.set_weight_limit((limit - limit / PARTS).saturating_sub(tier.memory()));
        } else {
            self.order.0.set_weight_limit(self.limit());
        }
        for (slot, weight) in self.order.0.evict_to_limit() {
            if !Demotion::start(self, slot, weight) {
                self.drop_evicted(slot);
            }
        }
    }

    /// Removes a response that was evicted from its order.
    fn drop_evicted(&self, slot: Slot) -> Option<Arc<StoredResponse>> {
        let dropped = self.take(slot)?;
        self.evictions.fetch_add(1, SeqCst);
        Some(dropped)
    }

    /// Removes the least recently used response in a file, and returns it.
    fn evict_file(&self) -> Option<Arc<StoredResponse>> {
        let tier = self.tier.as_ref()?;
        // Another response may have taken the place of the first ones.
        std::iter::from_fn(|| tier.pop()).find_map(|slot| self.drop_evicted(slot))
    }

    /// Removes the least recently used response in a file, and its file. Returns false if there is
    /// none. Blocks.
    pub(super) fn evict_file_now(&self) -> bool {
        let Some(evicted) = self.evict_file() else { return false };
        // If it is being read, its space returns later.
        if let Some(StoredResponse { body: StoredBody::File(file), .. }) = Arc::into_inner(evicted)
            && let Some(file) = Arc::into_inner(file)
        {
            file.remove();
        }
        true
    }

    /// Replaces the body of a response by its file. Returns false if there is no memory for what
    /// describes the file.
    fn moved(&self, slot: Slot, file: BodyFile) -> bool {
        let mut shard = self.shard(&slot.key);
        let current = shard.responses.get_mut(&slot.key).filter(|current| current.id == slot.id);
        // It was purged or replaced meanwhile.
        let Some(current) = current else { return true };
        let mut memory = self.reservation();
        if !memory.try_hold(current.head.size() + BodyFile::memory(file.length())) {
            return false;
        }
        let moved = StoredResponse {
            head: current.head.clone(),
            body: StoredBody::File(Arc::new(file)),
            url: current.url.clone(),
            id: current.id,
            memory: Arc::new(memory),
        };
        self.admit(slot, &moved);
        *current = Arc::new(moved);
        true
    }

    /// Returns the response in a slot, unless another one has taken its place.
    fn at(&self, slot: Slot) -> Option<Arc<StoredResponse>> {
        let shard = self.shard(&slot.key);
        shard.responses.get(&slot.key).filter(|response| response.id == slot.id).cloned()
    }

    /// Removes the response in a slot, unless another one has taken its place.
    fn take(&self, Slot { url, key, id }: Slot) -> Option<Arc<StoredResponse>> {
        let mut shard = self.shard(&key);
        shard.responses.get(&key).filter(|response| response.id == id)?;
        shard.remove(&key, url)
    }

    fn hash(&self, url: &CachedUrl) -> u64 {
        self.urls.hash_one(url)
    }

    fn shard(&self, key: &KeyHash) -> MutexGuard<'_, Shard> {
        lock(&self.shards[usize::from(key[0]) % SHARDS])
    }
}

impl Shard {
    fn remove(&mut self, key: &KeyHash, url: u64) -> Option<Arc<StoredResponse>> {
        let removed = self.responses.remove(key);
        self.remove_key(key, url);
        removed
    }

    /// Removes a key from those of a URL, given by its hash.
    fn remove_key(&mut self, key: &KeyHash, url: u64) {
        if let Some(keys) = self.keys.get_mut(&url) {
            keys.retain(|other| other != key);
            if keys.is_empty() {
                self.keys.remove(&url);
            }
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
