//! Idle HTTP/1.1 connections to endpoints. Each worker has a pool of its own, so no lock is needed.
//!
//! The most recently returned connection is taken first: it is the warmest, and the others age and
//! are closed. No task waits on an idle connection. Whether the endpoint has closed it is checked
//! when it is taken and by a periodic sweep, which also closes expired connections. A connection is
//! only reused for the same address, protocol and trust settings, and within one membership of its
//! endpoint: an address that has left its set may belong to another Pod, even if it returns.
//!
//! The pool holds as many connections as configured, or as many as were recently in use at the same
//! time, if that is more. A smaller pool would make an overloaded gateway open and close a
//! connection for each request in excess of the limit, just when it has no time to spare. While
//! requests wait for a descriptor, the pool keeps at most the share of its worker: idle connections
//! here occupy descriptors that other workers need.

mod by_age;

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use self::by_age::ByAge;
use super::connection::Connection;
use super::trust::TrustKey;
use crate::process::descriptors::is_short;
use crate::registry::Endpoint;
use crate::upstream::attempt::Upstream;

/// Interval between two sweeps of idle connections.
const SWEEP: Duration = Duration::from_secs(1);

/// Connections with equal keys are interchangeable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionKey {
    /// Membership of one endpoint in one Service port, shared by all rules that use it.
    membership: u64,
    trust: TrustKey,
}

impl Hash for ConnectionKey {
    /// Memberships are assigned by the gateway, so an attacker cannot provoke collisions. Names may
    /// be those of clients, so their hash is keyed.
    fn hash<H: Hasher>(&self, state: &mut H) {
        static NAMES: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let name = self.trust.server_name.as_ref().map_or(0, |name| NAMES.hash_one(name));
        state.write_u64(self.membership ^ (self.trust.protocol as u64) << 60 ^ name);
    }
}

/// Hashes with one multiplication, which suffices for keys that attackers cannot choose.
#[derive(Default)]
pub(super) struct OneWord(u64);

impl Hasher for OneWord {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

#[derive(Default)]
struct Pool {
    /// Idle connections in the order in which they were returned.
    idle: ByAge<Idle>,
    /// Idle connections per key. The next sweep removes empty lists.
    lists: HashMap<ConnectionKey, List, BuildHasherDefault<OneWord>>,
    /// The configured size.
    size: usize,
    /// The worker's share of all idle connections.
    share: usize,
    sweeping: bool,
    used: Used,
}

/// Number of connections in use at the same time.
#[derive(Default)]
struct Used {
    now: usize,
    /// Maximum since the last sweep, and in the interval before it.
    most: [usize; 2],
}

/// Counts a connection that is in use or being opened.
pub(crate) struct InUse(());

/// Idle connections that are interchangeable.
struct List {
    endpoint: Arc<Endpoint>,
    /// Their slots in `Pool::idle`, the oldest first.
    slots: VecDeque<usize>,
}

struct Idle {
    connection: Connection,
    key: ConnectionKey,
    /// Time at which the connection must be closed.
    until: Instant,
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

impl ConnectionKey {
    /// Returns the key of the connections that an attempt may use.
    pub(crate) fn of(upstream: &Upstream) -> Self {
        Self { membership: upstream.membership, trust: TrustKey::of(upstream) }
    }

    /// Returns whether the endpoint's membership is still the one under which the connections were
    /// opened.
    pub(crate) fn is_of_member(&self, endpoint: &Endpoint) -> bool {
        self.membership == endpoint.membership()
    }
}

impl InUse {
    pub(crate) fn new() -> Self {
        POOL.with_borrow_mut(|pool| pool.used.add());
        Self(())
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        // The pool is destroyed with its thread.
        let _ = POOL.try_with(|pool| pool.borrow_mut().used.now -= 1);
    }
}

impl Used {
    fn add(&mut self) {
        self.now += 1;
        self.most[0] = self.most[0].max(self.now);
    }

    fn recent_peak(&self) -> usize {
        self.most[0].max(self.most[1])
    }

    fn sweep(&mut self) {
        self.most = [self.now, self.most[0]];
    }
}

/// Returns a pooled connection for this attempt that appears to be alive.
pub(crate) fn take(upstream: &Upstream) -> Option<Connection> {
    if upstream.fresh {
        return None;
    }
    let (taken, _dead) = POOL.with_borrow_mut(|pool| pool.take(upstream));
    taken
}

/// Closes the connection that has been idle longest, to make room for a new one.
pub(crate) fn close_longest_idle() {
    let _gone = POOL.with_borrow_mut(Pool::take_longest_idle);
}

/// Returns a connection to the pool after a request, if it may serve another one.
pub(crate) fn put(mut connection: Connection, upstream: &Upstream, size: usize, share: usize, now: Instant) {
    connection.served += 1;
    let keep = upstream.keep_alive;
    let until = (now + keep.idle).min(connection.made + keep.age);
    if size == 0 || connection.served >= keep.requests || until <= now || !upstream.is_member() {
        return;
    }
    let idle = Idle { connection, key: ConnectionKey::of(upstream), until };
    let (_gone, sweep) = POOL.with_borrow_mut(|pool| {
        (pool.size, pool.share) = (size, share);
        let gone = pool.put(idle, &upstream.endpoint, is_short());
        (gone, !std::mem::replace(&mut pool.sweeping, true))
    });
    if sweep {
        tokio::spawn(sweeps());
    }
}

/// Sweeps idle connections until the pool is empty.
async fn sweeps() {
    loop {
        tokio::time::sleep(SWEEP).await;
        let (_gone, more) = POOL.with_borrow_mut(|pool| {
            let gone = pool.sweep(Instant::now(), is_short());
            pool.sweeping = pool.idle.len() > 0;
            (gone, pool.sweeping)
        });
        if !more {
            return;
        }
    }
}

/// Removed connections. The caller closes them after it has released its borrow of the pool.
type Gone = Vec<Idle>;

impl Pool {
    fn take(&mut self, upstream: &Upstream) -> (Option<Connection>, Gone) {
        let mut gone = Vec::new();
        let Some(list) = self.lists.get_mut(&ConnectionKey::of(upstream)) else { return (None, gone) };
        let mut taken = None;
        while let Some(mut idle) = list.slots.pop_back().and_then(|slot| self.idle.remove(slot)) {
            let alive = idle.until > upstream.began && idle.connection.is_quiet();
            // A request that cannot be sent twice justifies a system call.
            if alive && (upstream.repeatable || idle.connection.is_quiet_now()) {
                idle.connection.reused = true;
                taken = Some(idle.connection);
                break;
            }
            gone.push(idle);
        }
        (taken, gone)
    }

    fn put(&mut self, idle: Idle, endpoint: &Arc<Endpoint>, is_short: bool) -> Gone {
        let list = self.lists.entry(idle.key.clone());
        let list = list.or_insert_with(|| List { endpoint: endpoint.clone(), slots: VecDeque::new() });
        list.slots.push_back(self.idle.add(idle));
        let mut gone = Vec::new();
        self.shrink(&mut gone, is_short);
        gone
    }

    fn sweep(&mut self, now: Instant, is_short: bool) -> Gone {
        let mut gone = Vec::new();
        let Self { idle: all, lists, .. } = self;
        lists.retain(|key, List { endpoint, slots }| {
            let is_member = key.is_of_member(endpoint);
            let stays = |idle: &mut Idle| is_member && idle.until > now && idle.connection.is_quiet();
            slots.retain(|slot| {
                let stays = all.get_mut(*slot).is_some_and(stays);
                if !stays {
                    gone.extend(all.remove(*slot));
                }
                stays
            });
            !slots.is_empty()
        });
        self.used.sweep();
        self.shrink(&mut gone, is_short);
        gone
    }

    /// Closes the longest idle connections until the pool has its target size. `is_short` states
    /// that requests wait for a descriptor.
    fn shrink(&mut self, gone: &mut Gone, is_short: bool) {
        let wanted = self.size.max(self.used.recent_peak());
        let most = if is_short { wanted.min(self.share) } else { wanted };
        while self.idle.len() > most {
            let Some(oldest) = self.take_longest_idle() else { break };
            gone.push(oldest);
        }
    }

    /// Removes the connection that has been idle longest.
    fn take_longest_idle(&mut self) -> Option<Idle> {
        let oldest = self.idle.remove_oldest()?;
        if let Some(list) = self.lists.get_mut(&oldest.key) {
            // The oldest connection of all is also the oldest of its list.
            list.slots.pop_front();
        }
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::UpstreamProtocol;

    use super::super::connection::tests::used;
    use super::*;

    const ROOM: usize = 1;
    const SHARE: usize = 2;

    /// Returns a pool after `requests` concurrent requests, and the endpoint's side of their
    /// connections.
    async fn after(requests: usize) -> (Pool, Upstream, Vec<std::net::TcpStream>) {
        let upstream = Upstream::to(([127, 0, 0, 1], 80).into(), UpstreamProtocol::Http);
        let (mut pool, mut endpoints) = (Pool { size: ROOM, share: SHARE, ..Pool::default() }, Vec::new());
        (0..requests).for_each(|_| pool.used.add());
        for _ in 0..requests {
            let (connection, endpoint) = used().await;
            assert!(pool.put(idle(connection, &upstream), &upstream.endpoint, false).is_empty());
            pool.used.now -= 1;
            endpoints.push(endpoint);
        }
        (pool, upstream, endpoints)
    }

    fn idle(connection: Connection, upstream: &Upstream) -> Idle {
        Idle {
            connection,
            key: ConnectionKey::of(upstream),
            until: Instant::now() + Duration::from_secs(3600),
        }
    }

    /// A known address does not prove that the Pod is the same.
    #[tokio::test]
    async fn connections_to_an_address_that_has_left_serve_no_more_requests() {
        let (mut pool, before, _endpoints) = after(4).await;
        let after = Upstream::to(before.address, UpstreamProtocol::Http);
        assert!(pool.take(&after).0.is_none(), "another Service has the address");
        let (taken, _) = pool.take(&before);
        before.endpoint.leave();
        let gone = pool.sweep(Instant::now(), false);
        assert_eq!((gone.len(), pool.idle.len()), (3, 0), "closed without a request");
        before.endpoint.join();
        put(taken.unwrap(), &before, 10, 10, Instant::now());
        let again = Upstream { membership: before.endpoint.membership(), ..before.clone() };
        assert!(take(&again).is_none() && take(&before).is_none(), "it was in use when the address left");
    }

    /// Each request scanned the lists of all endpoints: with 3,000 endpoints, this took 37
    /// microseconds.
    #[tokio::test]
    async fn an_eviction_costs_the_same_with_thousands_of_endpoints() {
        const ROUNDS: u32 = 40;
        let (mut pool, upstream, _endpoints) = after(4).await;
        let (connection, _endpoint) = used().await;
        let mut spare = Some(idle(connection, &upstream));
        let mut round = |pool: &mut Pool| {
            let other = Upstream::to(upstream.address, UpstreamProtocol::Http);
            let put =
                Idle { key: ConnectionKey::of(&other), ..spare.take().expect("one is evicted each time") };
            spare = pool.put(put, &other.endpoint, false).pop();
        };
        let mut shortest = |pool: &mut Pool| {
            let mut times = [Duration::MAX; 5];
            for time in &mut times {
                let began = Instant::now();
                (0..ROUNDS).for_each(|_| round(pool));
                *time = began.elapsed();
            }
            times.into_iter().min().unwrap_or_default()
        };
        let few = shortest(&mut pool);
        while pool.lists.len() < 30_000 {
            shortest(&mut pool);
        }
        let many = shortest(&mut pool);
        assert!(many < 10 * few, "{ROUNDS} evictions take {few:?} with 200 lists and {many:?} with 30,000");
    }

    #[tokio::test]
    async fn requests_for_which_the_pool_has_no_room_opened_a_connection_each() {
        let (mut pool, _upstream, _endpoints) = after(4).await;
        assert_eq!(pool.idle.len(), 4);
        let gone = pool.sweep(Instant::now(), false);
        assert_eq!((pool.idle.len(), gone.len()), (4, 0), "there may be as many again");
    }

    /// Regression: all recently used connections were kept, however few descriptors were left, so
    /// one worker could hold descriptors that others waited for.
    #[tokio::test]
    async fn idle_connections_beyond_the_share_blocked_waiting_requests() {
        let (mut pool, _upstream, _endpoints) = after(4).await;
        let gone = pool.sweep(Instant::now(), true);
        assert_eq!((pool.idle.len(), gone.len()), (SHARE, 2));
        let (mut pool, upstream, _endpoints) = after(4).await;
        let (taken, _) = pool.take(&upstream);
        let gone = pool.put(idle(taken.unwrap(), &upstream), &upstream.endpoint, true);
        assert_eq!((pool.idle.len(), gone.len()), (SHARE, 2), "as soon as one is put back");
    }

    #[tokio::test]
    async fn connections_unused_lately_do_not_enlarge_the_pool() {
        let (mut pool, _upstream, _endpoints) = after(4).await;
        let most = [(), (), ()].map(|()| {
            pool.sweep(Instant::now(), false);
            pool.idle.len()
        });
        assert_eq!(most, [4, ROOM, ROOM]);
    }
}
