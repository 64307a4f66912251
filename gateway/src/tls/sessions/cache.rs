//! Sessions in memory, bounded in bytes and time; all workers share them (`ssl-session-cache`).

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustls::server::StoresServerSessions;

/// Parts with a lock of their own, so that handshakes on several workers seldom meet.
const SHARDS: usize = 16;

/// Bytes that an entry takes besides its key and its value, about: 24 for the key's allocation, 75
/// in the map, 48 in the order, and the rounding of sizes.
const OVERHEAD: usize = 160;

/// Sessions that have been taken and are still in the order of a shard, beside one for each that is
/// kept.
const SPARE: usize = 64;

/// The sessions of all profiles.
#[derive(Debug)]
pub(super) struct SessionCache {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    /// Bytes of each shard.
    limit: usize,
    timeout: Duration,
}

#[derive(Debug, Default)]
struct Shard {
    sessions: HashMap<Arc<[u8]>, CachedSession>,
    /// Keys in the order of their arrival, with sessions that are gone.
    order: VecDeque<(Arc<[u8]>, Instant)>,
    bytes: usize,
}

#[derive(Debug)]
struct CachedSession {
    /// Without spare capacity: rustls' encoder leaves up to half of it unused.
    value: Box<[u8]>,
    since: Instant,
}

impl SessionCache {
    pub(super) fn new(bytes: u64, timeout: Duration) -> Self {
        let limit = usize::try_from(bytes).unwrap_or(usize::MAX) / SHARDS;
        Self { shards: Default::default(), hasher: RandomState::new(), limit, timeout }
    }

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        let hash = self.hasher.hash_one(key);
        let shard = usize::try_from(hash % SHARDS as u64).unwrap_or_default();
        // Each change is whole, whatever ends a thread.
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, key: &[u8], value: Vec<u8>, now: Instant) -> bool {
        let size = size(key, &value);
        if size > self.limit {
            return false;
        }
        let mut shard = self.shard(key);
        let shard = &mut *shard;
        shard.remove(key);
        while let Some((oldest, since)) = shard.order.front() {
            let is_current = shard.sessions.get(oldest).is_some_and(|session| session.since == *since);
            let is_expired = now.duration_since(*since) >= self.timeout;
            if is_current && !is_expired && shard.bytes + size <= self.limit {
                break;
            }
            if let Some((oldest, _)) = shard.order.pop_front()
                && is_current
            {
                shard.remove(&oldest);
            }
        }
        if shard.order.len() >= 2 * shard.sessions.len() + SPARE {
            shard.forget_taken();
        }
        let key: Arc<[u8]> = key.into();
        shard.order.push_back((key.clone(), now));
        shard.sessions.insert(key, CachedSession { value: value.into(), since: now });
        shard.bytes += size;
        true
    }

    fn get(&self, key: &[u8], now: Instant) -> Option<Vec<u8>> {
        let shard = self.shard(key);
        let session = shard.sessions.get(key)?;
        (now.duration_since(session.since) < self.timeout).then(|| session.value.to_vec())
    }

    fn take(&self, key: &[u8], now: Instant) -> Option<Vec<u8>> {
        let session = self.shard(key).remove(key)?;
        (now.duration_since(session.since) < self.timeout).then(|| session.value.into())
    }
}

impl Shard {
    /// Removes sessions that are gone from the order. A session that stays long would otherwise
    /// hold all later ones there, which clients of TLS 1.3 take one by one.
    fn forget_taken(&mut self) {
        let sessions = &self.sessions;
        let is_kept = |(key, since): &(Arc<[u8]>, Instant)| {
            sessions.get(key).is_some_and(|session| session.since == *since)
        };
        self.order.retain(is_kept);
    }

    fn remove(&mut self, key: &[u8]) -> Option<CachedSession> {
        let session = self.sessions.remove(key)?;
        self.bytes = self.bytes.saturating_sub(size(key, &session.value));
        Some(session)
    }
}

fn size(key: &[u8], value: &[u8]) -> usize {
    key.len() + value.len() + OVERHEAD
}

/// The sessions of one profile.
#[derive(Debug)]
pub(super) struct ProfileCache {
    cache: Arc<SessionCache>,
    profile: u64,
}

impl ProfileCache {
    pub(super) fn new(cache: Arc<SessionCache>, profile: u64) -> Self {
        Self { cache, profile }
    }

    fn key(&self, key: &[u8]) -> Vec<u8> {
        [&self.profile.to_be_bytes(), key].concat()
    }
}

impl StoresServerSessions for ProfileCache {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.cache.put(&self.key(&key), value, Instant::now())
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.get(&self.key(key), Instant::now())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.cache.take(&self.key(key), Instant::now())
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(600);

    #[test]
    fn a_session_is_known_to_its_profile_until_it_is_taken() {
        let cache = Arc::new(SessionCache::new(1 << 20, TIMEOUT));
        let [own, other] = [1, 2].map(|profile| ProfileCache::new(cache.clone(), profile));
        assert!(own.put(b"id".to_vec(), b"session".to_vec()));
        assert_eq!(other.get(b"id"), None);
        assert_eq!(own.get(b"id").as_deref(), Some(&b"session"[..]));
        assert_eq!(own.take(b"id").as_deref(), Some(&b"session"[..]));
        assert_eq!((own.take(b"id"), own.get(b"id")), (None, None));
    }

    #[test]
    fn a_session_expires() {
        let cache = SessionCache::new(1 << 20, TIMEOUT);
        let now = Instant::now();
        assert!(cache.put(b"a", vec![1], now) && cache.put(b"b", vec![2], now));
        let before = now + TIMEOUT - Duration::from_secs(1);
        assert_eq!(cache.get(b"a", before), Some(vec![1]));
        assert_eq!((cache.get(b"a", now + TIMEOUT), cache.take(b"b", now + TIMEOUT)), (None, None));
    }

    #[test]
    fn taken_sessions_use_no_memory_behind_one_that_stays() {
        let cache = SessionCache::new(1 << 20, TIMEOUT);
        let now = Instant::now();
        for shard in 0..1000_u32 {
            assert!(cache.put(&shard.to_be_bytes(), vec![1], now));
        }
        for number in 1000..20_000_u32 {
            assert!(cache.put(&number.to_be_bytes(), vec![2], now + Duration::from_nanos(u64::from(number))));
            assert!(cache.take(&number.to_be_bytes(), now).is_some());
        }
        let kept: usize = cache.shards.iter().map(|shard| shard.lock().unwrap().order.len()).sum();
        assert!(kept <= 2 * 1000 + SHARDS * (SPARE + 1), "{kept}");
        assert_eq!(cache.get(&7_u32.to_be_bytes(), now), Some(vec![1]));
    }

    #[test]
    fn the_oldest_sessions_give_way_within_the_bounds() {
        let cache = SessionCache::new(SHARDS as u64 * 2048, TIMEOUT);
        let now = Instant::now();
        assert!(!cache.put(b"large", vec![0; 4096], now));
        for number in 0..1000_u32 {
            assert!(cache.put(&number.to_be_bytes(), vec![0; 256], now));
            // The same one again takes no more room.
            assert!(cache.put(&number.to_be_bytes(), vec![0; 256], now));
        }
        let shards = || cache.shards.iter().map(|shard| shard.lock().unwrap());
        assert!(shards().all(|shard| shard.bytes <= 2048 && shard.order.len() <= 2 * shard.sessions.len()));
        let kept = (0..1000_u32).filter(|number| cache.get(&number.to_be_bytes(), now).is_some());
        let kept: Vec<u32> = kept.collect();
        assert_eq!(kept.len(), shards().map(|shard| shard.sessions.len()).sum::<usize>());
        assert!(kept.contains(&999) && !kept.contains(&0));
    }
}
