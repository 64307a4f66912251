//! Connections to endpoints that wait for their next request. Each worker has its own and shares them with
//! nobody, so there is nothing to lock.
//!
//! The last one put back is the first one taken: it is the warmest, and the others grow old and go. Nobody waits
//! on an idle connection; whether the endpoint has closed it is looked up when it is taken, and by a sweep now
//! and then, which also ends those whose time is over. A connection is only ever taken for the same address
//! spoken to in the same way, trust included.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use sluice_config::UpstreamProtocol;

use super::upstream::Connection;
use crate::pipeline::Upstream;

/// Between two looks at what is idle.
const SWEEP: Duration = Duration::from_secs(1);

/// What makes connections exchangeable. Whatever concerns trust has to be part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    address: SocketAddr,
    protocol: UpstreamProtocol,
}

#[derive(Default)]
struct Pool {
    /// In the order in which they were put back; no list is empty.
    idle: HashMap<Key, Vec<Idle>>,
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
pub(super) fn take(upstream: &Upstream, now: Instant) -> Option<Connection> {
    if upstream.fresh {
        return None;
    }
    let (taken, _dead) = POOL.with_borrow_mut(|pool| pool.take(&Key::of(upstream), now));
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
    fn take(&mut self, key: &Key, now: Instant) -> (Option<Connection>, Gone) {
        let mut gone = Vec::new();
        let Some(list) = self.idle.get_mut(key) else { return (None, gone) };
        let mut taken = None;
        while let Some(mut idle) = list.pop() {
            self.count -= 1;
            if idle.until > now && idle.connection.is_quiet() {
                idle.connection.reused = true;
                taken = Some(idle.connection);
                break;
            }
            gone.push(idle);
        }
        if list.is_empty() {
            self.idle.remove(key);
        }
        (taken, gone)
    }

    fn put(&mut self, key: Key, idle: Idle, size: usize) -> Gone {
        self.idle.entry(key).or_default().push(idle);
        self.count += 1;
        let mut gone = Vec::new();
        while self.count > size {
            let oldest = self.idle.iter().min_by_key(|(_, list)| list[0].since).map(|(key, _)| *key);
            let Some(list) = oldest.as_ref().and_then(|key| self.idle.get_mut(key)) else { break };
            gone.push(list.remove(0));
            self.count -= 1;
            if list.is_empty()
                && let Some(key) = oldest
            {
                self.idle.remove(&key);
            }
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
