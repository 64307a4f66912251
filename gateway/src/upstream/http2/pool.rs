//! The connections of a worker that take requests. Each worker has its own and shares them with nobody.
//!
//! A request gets a place on the first connection with room, so that no more of them are kept than are needed: the
//! others become idle and go. A connection is only ever shared among requests to the same address spoken to in the same
//! way, trust included.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::pool::{ConnectionKey, OneWord};
use super::connection::{Connection, StreamPermit};
use super::group::Group;
use crate::descriptors::is_short;
use crate::registry::Endpoint;
use crate::upstream::attempt::Upstream;

/// Between two looks at what is idle.
const SWEEP: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Pool {
    entries: HashMap<ConnectionKey, EndpointConnections, std::hash::BuildHasherDefault<OneWord>>,
    /// Idle connections that are configured, and the worker's share of all.
    size: usize,
    share: usize,
    sweeping: bool,
}

struct EndpointConnections {
    endpoint: Arc<Endpoint>,
    connections: Vec<Arc<Connection>>,
    group: Arc<Group>,
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

/// A place on a connection for this attempt.
pub(crate) fn take(upstream: &Upstream) -> Option<StreamPermit> {
    POOL.with_borrow_mut(|pool| pool.entries.get_mut(&ConnectionKey::of(upstream))?.take(upstream))
}

/// Ends the connection that has been idle longest: there is no room for one that is needed.
pub(crate) fn let_go() {
    let _gone = POOL.with_borrow_mut(Pool::let_go);
}

/// Those who wait for a connection to this endpoint.
pub(super) fn group(upstream: &Upstream) -> Arc<Group> {
    let (group, sweep) = POOL.with_borrow_mut(|pool| {
        let group = pool.entry(upstream).group.clone();
        (group, !std::mem::replace(&mut pool.sweeping, true))
    });
    if sweep {
        tokio::spawn(sweeps());
    }
    group
}

/// Lets others use a connection too. So many may be idle, of which `share` while descriptors are short.
pub(super) fn put(connection: Arc<Connection>, upstream: &Upstream, size: usize, share: usize) {
    POOL.with_borrow_mut(|pool| {
        (pool.size, pool.share) = (size, share);
        pool.entry(upstream).connections.push(connection);
    });
}

/// Looks at what is idle until there is nothing.
async fn sweeps() {
    loop {
        tokio::time::sleep(SWEEP).await;
        let (_gone, more) = POOL.with_borrow_mut(|pool| {
            let gone = pool.sweep(Instant::now(), is_short());
            pool.sweeping = !pool.entries.is_empty();
            (gone, pool.sweeping)
        });
        if !more {
            return;
        }
    }
}

/// What is not kept is handed out, so that nothing is dropped while the pool is borrowed.
type Gone = Vec<Arc<Connection>>;

impl EndpointConnections {
    fn take(&mut self, upstream: &Upstream) -> Option<StreamPermit> {
        let place = self.connections.iter().find_map(|connection| connection.take(upstream, true));
        if place.is_none() {
            // There is room on none of them: a good time to forget those that never have any again.
            self.connections.retain(|connection| !connection.is_over(&upstream.keep_alive, upstream.began));
        }
        place
    }
}

impl Pool {
    fn entry(&mut self, upstream: &Upstream) -> &mut EndpointConnections {
        self.entries.entry(ConnectionKey::of(upstream)).or_insert_with(|| EndpointConnections {
            endpoint: upstream.endpoint.clone(),
            connections: Vec::new(),
            group: Arc::default(),
        })
    }

    fn sweep(&mut self, now: Instant, is_short: bool) -> Gone {
        let mut gone = Vec::new();
        for (key, entry) in &mut self.entries {
            let has_left = !key.is_of_member(&entry.endpoint);
            gone.extend(entry.connections.extract_if(.., |connection| has_left || connection.is_done(now)));
        }
        let most = if is_short { self.size.min(self.share) } else { self.size };
        self.shrink(most, &mut gone);
        // Somebody else who has the group waits for a connection, or makes one.
        self.entries.retain(|_, entry| !entry.connections.is_empty() || Arc::strong_count(&entry.group) > 1);
        gone
    }

    /// Lets those go that have been idle longest, until no more than `most` are idle.
    fn shrink(&mut self, most: usize, gone: &mut Gone) {
        let all = self.entries.values().flat_map(|entry| &entry.connections);
        let mut idle: Vec<_> = all.filter_map(|connection| connection.idle_since()).collect();
        let Some(last) = idle.len().saturating_sub(most).checked_sub(1) else { return };
        let last = *idle.select_nth_unstable(last).1;
        for entry in self.entries.values_mut() {
            let old =
                |connection: &mut Arc<Connection>| connection.idle_since().is_some_and(|since| since <= last);
            gone.extend(entry.connections.extract_if(.., old));
        }
    }

    /// The one that has been idle longest.
    fn let_go(&mut self) -> Option<Arc<Connection>> {
        let entries = self.entries.values_mut().filter_map(|entry| {
            let idle = entry.connections.iter().enumerate();
            let (since, at) = idle.filter_map(|(at, one)| Some((one.idle_since()?, at))).min()?;
            Some((since, at, entry))
        });
        let (_, at, entry) = entries.min_by_key(|(since, ..)| *since)?;
        Some(entry.connections.swap_remove(at))
    }
}
