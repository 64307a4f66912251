//! Cache of authorisation replies (`auth-cache-key`).
//!
//! Each worker has a cache of its own, so no lock is needed. A key contains client data, including
//! passwords; only its 128-bit hash with secrets of the process is stored. An attacker therefore
//! cannot search for two requests with the same hash.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use crate::policy::auth_reply::AuthReply;

/// Approximate maximum number of bytes per worker.
const MOST_BYTES: usize = 4 * 1024 * 1024;
/// Estimated bytes of an entry, without the values of its fields.
const ENTRY: usize = 256;

/// Hash of a cache key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CacheKey(u64, u64);

impl CacheKey {
    /// Hashes the parts in order.
    pub fn of(parts: &[&[u8]]) -> Self {
        static SECRETS: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);
        let [first, second] = &*SECRETS;
        Self(first.hash_one(parts), second.hash_one(parts))
    }
}

#[derive(Default)]
struct CacheShard {
    by_key: HashMap<CacheKey, (Arc<AuthReply>, Instant)>,
    /// Keys in order of insertion. A replaced entry occurs twice.
    order: VecDeque<(CacheKey, Instant, usize)>,
    bytes: usize,
}

thread_local! {
    static CACHE: RefCell<CacheShard> = RefCell::default();
}

/// Returns the cached reply, if it has not expired.
pub fn kept(key: CacheKey) -> Option<Arc<AuthReply>> {
    CACHE.with_borrow(|shard| {
        let (reply, until) = shard.by_key.get(&key)?;
        (*until > Instant::now()).then(|| reply.clone())
    })
}

/// Caches a reply for as long as it is valid.
pub fn keep(key: CacheKey, reply: &Arc<AuthReply>) {
    let Some(holds) = reply.holds else { return };
    let Some(until) = Instant::now().checked_add(holds) else { return };
    CACHE.with_borrow_mut(|shard| shard.put(key, reply, until));
}

impl CacheShard {
    fn put(&mut self, key: CacheKey, reply: &Arc<AuthReply>, until: Instant) {
        let fields = reply.fields.iter().filter_map(|(_, value)| value.as_ref());
        let kept = reply.kept.iter().map(|(_, value)| value);
        let values = fields.chain(&reply.cookies).chain(&reply.challenges).chain(kept);
        let size = ENTRY + values.map(|value| value.len()).sum::<usize>();
        self.by_key.insert(key, (reply.clone(), until));
        self.order.push_back((key, until, size));
        self.bytes += size;
        let now = Instant::now();
        // Evicts the oldest entries while the cache is too large or they have expired.
        while let Some((key, until, size)) = self.order.front().copied()
            && (self.bytes > MOST_BYTES || until <= now)
        {
            self.order.pop_front();
            self.bytes -= size;
            if self.by_key.get(&key).is_some_and(|(_, current)| *current == until) {
                self.by_key.remove(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::StatusCode;

    use super::*;

    fn reply(holds: Option<Duration>) -> Arc<AuthReply> {
        Arc::new(AuthReply {
            status: StatusCode::OK,
            fields: Vec::new(),
            cookies: Vec::new(),
            challenges: Vec::new(),
            kept: Vec::new(),
            holds,
            always_set_cookie: false,
        })
    }

    #[test]
    fn it_holds_as_long_as_it_may_and_for_its_key_alone() {
        let key = |text: &str| CacheKey::of(&[b"host", text.as_bytes()]);
        keep(key("a"), &reply(Some(Duration::from_secs(60))));
        assert!(kept(key("a")).is_some() && kept(key("b")).is_none());
        assert!(kept(CacheKey::of(&[b"hosta"])).is_none(), "parts are told apart");
        keep(key("c"), &reply(None));
        keep(key("d"), &reply(Some(Duration::ZERO)));
        assert!(kept(key("c")).is_none() && kept(key("d")).is_none());
    }

    #[test]
    fn values_for_variables_count_towards_the_bound() {
        let value = http::HeaderValue::from_bytes(&[b'a'; 1024]).unwrap();
        let mut reply = Arc::into_inner(reply(None)).unwrap();
        reply.kept = vec![("x-user".into(), value)];
        let (mut shard, until) = (CacheShard::default(), Instant::now() + Duration::from_secs(60));
        shard.put(CacheKey::of(&[b"kept"]), &Arc::new(reply), until);
        assert_eq!(shard.bytes, ENTRY + 1024);
    }

    #[test]
    fn it_is_bounded() {
        let mut shard = CacheShard::default();
        let (long, reply) = (Instant::now() + Duration::from_secs(60), reply(None));
        for number in 0..2 * MOST_BYTES / ENTRY {
            shard.put(CacheKey::of(&[&number.to_le_bytes()]), &reply, long);
        }
        assert!(shard.bytes <= MOST_BYTES && shard.by_key.len() == shard.order.len());
        let key = CacheKey::of(&[b"again"]);
        for _ in 0..10 {
            shard.put(key, &reply, long);
        }
        assert!(shard.by_key.contains_key(&key));
    }
}
