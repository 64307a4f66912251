//! Connections to endpoints that wait for their next request. Each worker has its own and shares them with
//! nobody, so there is nothing to lock.
//!
//! The last one put back is the first one taken: it is the warmest, and the others grow old and go. Nobody waits
//! on an idle connection; whether the endpoint has closed it is looked up when it is taken, and by a sweep now
//! and then, which also ends those whose time is over. A connection is only ever taken for the same address
//! spoken to in the same way, trust included.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use sluice_config::UpstreamProtocol;

use super::upstream::Connection;
use crate::pipeline::Upstream;

/// Between two looks at what is idle.
const SWEEP: Duration = Duration::from_secs(1);

/// What makes connections exchangeable. Whatever concerns trust has to be part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    address: SocketAddr,
    protocol: UpstreamProtocol,
}

impl Hash for Key {
    /// Addresses come from the configuration, where nobody makes them collide on purpose.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let ip = match self.address.ip() {
            IpAddr::V4(ip) => u64::from(ip.to_bits()),
            IpAddr::V6(ip) => (ip.to_bits() >> 64) as u64 ^ ip.to_bits() as u64,
        };
        state.write_u64(ip << 16 ^ u64::from(self.address.port()) ^ (self.protocol as u64) << 60);
    }
}

/// One multiplication: enough for keys that nobody chooses.
#[derive(Default)]
struct OneWord(u64);

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
    /// In the order in which they were put back. Empty lists go with the next sweep.
    idle: HashMap<Key, Vec<Idle>, BuildHasherDefault<OneWord>>,
    count: usize,
    sweeping: bool,
}

struct Idle {
    connection: Connection,
    since: Instant,
    /// When it must be gone.
    until: Instant,
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

impl Key {
    pub(super) fn of(upstream: &Upstream) -> Self {
        Self { address: upstream.address, protocol: upstream.protocol }
    }
}

/// A connection for this try that is alive as far as can be told.
pub(super) fn take(upstream: &Upstream) -> Option<Connection> {
    if upstream.fresh {
        return None;
    }
    let (taken, _dead) = POOL.with_borrow_mut(|pool| pool.take(upstream));
    taken
}

/// Puts a connection back after a request, if it may serve another.
pub(super) fn put(mut connection: Connection, upstream: &Upstream, size: usize, now: Instant) {
    connection.served += 1;
    let keep = upstream.keep_alive;
    let until = (now + keep.idle).min(connection.made + keep.age);
    if size == 0 || connection.served >= keep.requests || until <= now {
        return;
    }
    let idle = Idle { connection, since: now, until };
    let (_gone, sweep) = POOL.with_borrow_mut(|pool| {
        let gone = pool.put(Key::of(upstream), idle, size);
        (gone, !std::mem::replace(&mut pool.sweeping, true))
    });
    if sweep {
        tokio::spawn(sweeps());
    }
}

/// Looks at what is idle until there is nothing.
async fn sweeps() {
    loop {
        tokio::time::sleep(SWEEP).await;
        let (_gone, more) = POOL.with_borrow_mut(|pool| {
            let gone = pool.sweep(Instant::now());
            pool.sweeping = pool.count > 0;
            (gone, pool.sweeping)
        });
        if !more {
            return;
        }
    }
}

/// What is not kept is handed out, so that it is closed when nobody borrows the pool.
type Gone = Vec<Idle>;

impl Pool {
    fn take(&mut self, upstream: &Upstream) -> (Option<Connection>, Gone) {
        let mut gone = Vec::new();
        let Some(list) = self.idle.get_mut(&Key::of(upstream)) else { return (None, gone) };
        let mut taken = None;
        while let Some(mut idle) = list.pop() {
            self.count -= 1;
            let alive = idle.until > upstream.began && idle.connection.is_quiet();
            // What cannot be sent twice is worth a system call.
            if alive && (upstream.repeatable || idle.connection.is_quiet_now()) {
                idle.connection.reused = true;
                taken = Some(idle.connection);
                break;
            }
            gone.push(idle);
        }
        (taken, gone)
    }

    fn put(&mut self, key: Key, idle: Idle, size: usize) -> Gone {
        self.idle.entry(key).or_default().push(idle);
        self.count += 1;
        let mut gone = Vec::new();
        while self.count > size {
            let lists = self.idle.values_mut().filter(|list| !list.is_empty());
            let Some(oldest) = lists.min_by_key(|list| list[0].since) else { break };
            gone.push(oldest.remove(0));
            self.count -= 1;
        }
        gone
    }

    fn sweep(&mut self, now: Instant) -> Gone {
        let mut gone = Vec::new();
        self.idle.retain(|_, list| {
            gone.extend(list.extract_if(.., |idle| idle.until <= now || !idle.connection.is_quiet()));
            !list.is_empty()
        });
        self.count -= gone.len();
        gone
    }
}
