//! Number of concurrent requests of each client. Tag and count share one word, so they are always
//! consistent.
//!
//! A table holds 262,144 clients in 2 MiB, and only clients with a current request occupy a slot.
//! If all eight slots of a set are occupied, a further client is refused, because no count may be
//! forgotten.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;

use super::set::{self, ROUNDS, SETS, WAYS};

/// Bits of a word that hold the count.
const COUNT: u64 = 0xffff;

/// A table of clients.
#[derive(Debug)]
pub(crate) struct ConcurrentRequests(Box<[Set]>);

/// Eight clients in one cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Set([AtomicU64; WAYS]);

/// Permit of a request; its drop ends the request.
#[derive(Debug)]
pub(crate) struct Permit {
    requests: Arc<ConcurrentRequests>,
    set: u16,
    way: u8,
}

/// The result of a search for a free slot.
enum Found {
    At(usize),
    Refused,
    /// Another thread changed the set meanwhile.
    Again,
}

impl Default for ConcurrentRequests {
    fn default() -> Self {
        Self((0..SETS).map(|_| Set::default()).collect())
    }
}

impl ConcurrentRequests {
    /// Counts a request of a client, unless `most` of its requests are already running.
    pub(crate) fn admit(table: &Arc<Self>, key: u64, most: u32) -> Option<Permit> {
        let at = set::of(key);
        let most = u64::from(most).min(COUNT);
        for _ in 0..ROUNDS {
            match table.0[at].find(key & !COUNT, most) {
                Found::At(way) => {
                    let (set, way) = (u16::try_from(at).ok()?, u8::try_from(way).ok()?);
                    return Some(Permit { requests: table.clone(), set, way });
                }
                Found::Refused => return None,
                Found::Again => std::hint::spin_loop(),
            }
        }
        // Not observed in practice. Fails closed: a request that cannot be counted is refused.
        None
    }
}

impl Set {
    fn find(&self, tag: u64, most: u64) -> Found {
        let words = self.words();
        if under_way(&words, tag) >= most {
            return Found::Refused;
        }
        let own = words.iter().position(|word| is_of(*word, tag));
        let free = || words.iter().position(|word| word & COUNT == 0);
        let Some(way) = own.or_else(free) else { return Found::Refused };
        let counted = if own.is_some() { words[way] + 1 } else { tag | 1 };
        if self.0[way].compare_exchange(words[way], counted, SeqCst, SeqCst).is_err() {
            return Found::Again;
        }
        // Another thread may have counted a request of this client at the same time, possibly in
        // another slot. Of the requests that are kept, the one counted last has seen all others
        // here.
        if under_way(&self.words(), tag) > most {
            self.0[way].fetch_sub(1, SeqCst);
            return Found::Again;
        }
        Found::At(way)
    }

    fn words(&self) -> [u64; WAYS] {
        std::array::from_fn(|way| self.0[way].load(SeqCst))
    }
}

fn is_of(word: u64, tag: u64) -> bool {
    word & !COUNT == tag && word & COUNT > 0
}

fn under_way(words: &[u64; WAYS], tag: u64) -> u64 {
    words.iter().filter(|word| is_of(**word, tag)).map(|word| word & COUNT).sum()
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.requests.0[usize::from(self.set)].0[usize::from(self.way)].fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn a_full_set_refuses_and_counts_go_on() {
        let table = Arc::new(ConcurrentRequests::default());
        let key = |client: u64| client << 16;
        let held: Vec<Permit> =
            (1..=8).map(|client| ConcurrentRequests::admit(&table, key(client), 2).unwrap()).collect();
        assert!(ConcurrentRequests::admit(&table, key(9), 2).is_none());
        let second = ConcurrentRequests::admit(&table, key(8), 2).unwrap();
        assert!(ConcurrentRequests::admit(&table, key(8), 2).is_none());
        drop(held);
        assert!(ConcurrentRequests::admit(&table, key(9), 2).is_some());
        assert!(ConcurrentRequests::admit(&table, key(8), 1).is_none(), "one is under way still");
        drop(second);
        assert!(ConcurrentRequests::admit(&table, key(8), 1).is_some());
    }

    #[test]
    fn threads_together_never_hold_more_than_the_limit() {
        let table = Arc::new(ConcurrentRequests::default());
        let under_way: [AtomicUsize; 4] = Default::default();
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (table, under_way) = (&table, &under_way);
                scope.spawn(move || {
                    for round in 0..5000 {
                        // The clients share a set, so that slots are reused.
                        let client = usize::try_from((round + thread) % 4).unwrap();
                        let Some(permit) = ConcurrentRequests::admit(table, (client as u64 + 1) << 16, 2)
                        else {
                            continue;
                        };
                        assert!(under_way[client].fetch_add(1, SeqCst) < 2);
                        under_way[client].fetch_sub(1, SeqCst);
                        drop(permit);
                    }
                });
            }
        });
        let left: u64 = table.0.iter().flat_map(|set| &set.0).map(|word| word.load(SeqCst) & COUNT).sum();
        assert_eq!(left, 0);
    }
}
