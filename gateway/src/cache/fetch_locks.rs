//! The locks that let one of several requests for a response fetch it.
//!
//! The lock of `pingora-cache` keeps the entry of a fetch that was cancelled or that took too long
//! until the same response is requested again, so clients could fill the memory with such entries.
//! Here the table refers to a fetch without keeping it in memory. A fetch ends with its permit and
//! the last request that waits for it, and then removes its entry: there are never more entries
//! than requests in progress, and nothing has to be cleaned up later.

use std::array;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::Extensions;
use pingora_cache::CacheKey;
use pingora_cache::key::CacheHashKey;
use pingora_cache::lock::{CacheKeyLock, LockCore, LockStatus, LockStub, Locked, WritePermit};

use super::store::KeyHash;

/// Number of shards.
const SHARDS: usize = 16;

/// Fetches by the key of their response.
type Shard = HashMap<KeyHash, Weak<LockCore>>;

/// The fetches in progress.
#[derive(Debug)]
pub(super) struct FetchLocks {
    shards: [Arc<Mutex<Shard>>; SHARDS],
    age: Duration,
}

/// The entry of a fetch. The fetch owns it, and removes it from its shard at its own end.
#[derive(Debug)]
struct FetchEntry {
    shard: Arc<Mutex<Shard>>,
    key: KeyHash,
}

impl FetchLocks {
    /// Creates locks without a fetch. After `age`, another request may fetch the response, too.
    pub(super) fn new(age: Duration) -> Self {
        Self { shards: array::from_fn(|_| Arc::default()), age }
    }
}

impl CacheKeyLock for FetchLocks {
    fn lock(&self, key: &CacheKey, stale_writer: bool) -> Locked {
        let key = key.combined_bin();
        let shard = &self.shards[usize::from(key[0]) % SHARDS];
        let mut fetches = lock(shard);
        let former = fetches.get(&key).and_then(Weak::upgrade);
        if let Some(fetch) = &former
            && fetch.lock_status() == LockStatus::Waiting
        {
            return Locked::Read(LockStub(fetch.clone()).read_lock());
        }
        let mut extensions = Extensions::new();
        extensions.insert(Arc::new(FetchEntry { shard: shard.clone(), key }));
        let (permit, stub) = WritePermit::new(self.age, stale_writer, extensions);
        fetches.insert(key, Arc::downgrade(&stub.0));
        drop(fetches);
        // This may be the end of the former fetch, which needs its shard.
        drop(former);
        Locked::Write(permit)
    }

    /// Ends a fetch. Its key is not needed, and may have changed since.
    fn release(&self, _: &CacheKey, mut permit: WritePermit, reason: LockStatus) {
        // Requests that have waited for too long fetch the response themselves.
        let is_late = permit.lock_status() == LockStatus::AgeTimeout;
        permit.unlock(if is_late { LockStatus::AgeTimeout } else { reason });
    }
}

impl Drop for FetchEntry {
    fn drop(&mut self) {
        let mut fetches = lock(&self.shard);
        // Another fetch may have replaced it.
        if fetches.get(&self.key).is_some_and(|fetch| fetch.strong_count() == 0) {
            fetches.remove(&self.key);
        }
    }
}

/// Ignores poisoning: each change is one operation.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use pingora_cache::lock::ReadLock;

    use super::*;

    const AGE: Duration = Duration::from_secs(10);

    fn key(number: usize) -> CacheKey {
        CacheKey::new(number.to_string(), "")
    }

    /// The number of entries.
    fn count(locks: &FetchLocks) -> usize {
        locks.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    fn fetch(locks: &FetchLocks, key: &CacheKey) -> WritePermit {
        match locks.lock(key, false) {
            Locked::Write(permit) => permit,
            Locked::Read(_) => panic!("another request fetches it"),
        }
    }

    fn wait(locks: &FetchLocks, key: &CacheKey) -> ReadLock {
        match locks.lock(key, false) {
            Locked::Read(lock) => lock,
            Locked::Write(_) => panic!("no request fetches it"),
        }
    }

    #[test]
    fn requests_cancelled_at_once_left_their_locks_for_ever() {
        let locks = FetchLocks::new(AGE);
        let permits: Vec<_> = (0..100).map(|number| fetch(&locks, &key(number))).collect();
        assert_eq!(count(&locks), 100);
        drop(permits);
        assert_eq!(count(&locks), 0);
    }

    #[tokio::test]
    async fn a_request_that_waits_takes_over_a_cancelled_fetch() {
        let (locks, key) = (FetchLocks::new(AGE), key(1));
        let permit = fetch(&locks, &key);
        let waiting = wait(&locks, &key);
        drop(permit);
        waiting.wait().await;
        assert_eq!(waiting.lock_status(), LockStatus::Dangling);
        let permit = fetch(&locks, &key);
        drop(waiting);
        let waiting = wait(&locks, &key);
        assert_eq!(count(&locks), 1, "the entry is that of the second fetch");
        locks.release(&key, permit, LockStatus::Done);
        waiting.wait().await;
        assert_eq!(waiting.lock_status(), LockStatus::Done);
        drop(waiting);
        assert_eq!(count(&locks), 0);
    }

    #[tokio::test]
    async fn fetches_that_took_too_long_left_their_locks_for_ever() {
        let (locks, key) = (FetchLocks::new(Duration::ZERO), key(1));
        let late = fetch(&locks, &key);
        let waiting = wait(&locks, &key);
        waiting.wait().await;
        assert_eq!(waiting.lock_status(), LockStatus::AgeTimeout);
        drop(waiting);
        let other = fetch(&locks, &key);
        locks.release(&key, late, LockStatus::Done);
        assert_eq!(count(&locks), 1, "the entry is that of the other fetch");
        locks.release(&key, other, LockStatus::Done);
        assert_eq!(count(&locks), 0);
    }

    #[test]
    fn a_key_that_changed_meanwhile_left_its_lock() {
        let (locks, mut changed) = (FetchLocks::new(AGE), key(1));
        let permit = fetch(&locks, &changed);
        changed.set_variance_key([1; 16]);
        locks.release(&changed, permit, LockStatus::Done);
        assert_eq!(count(&locks), 0);
    }
}
