//! The HTTP/2 connections of a worker that accept requests. Workers do not share connections.
//!
//! A request is assigned to the first connection with a free stream, so that no more connections
//! are kept than necessary: the others become idle and are closed. Requests share a connection only
//! if they have the same address, protocol and trust settings.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::pool::{ConnectionKey, OneWord};
use super::connection::{Connection, StreamPermit};
use super::group::ConnectionGroup;
use crate::process::descriptors::is_short;
use crate::registry::Endpoint;
use crate::upstream::attempt::Upstream;

/// Interval between two sweeps of idle connections.
const SWEEP: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Pool {
    entries: HashMap<ConnectionKey, EndpointConnections, std::hash::BuildHasherDefault<OneWord>>,
    /// Configured maximum number of idle connections, and the worker's share of it.
    size: usize,
    share: usize,
    sweeping: bool,
}

struct EndpointConnections {
    endpoint: Arc<Endpoint>,
    connections: Vec<Arc<Connection>>,
    group: Arc<ConnectionGroup>,
}

thread_local! {
    static POOL: RefCell<Pool> = RefCell::default();
}

/// Returns a permit for a free stream on a pooled connection.
pub(crate) fn take(upstream: &Upstream) -> Option<StreamPermit> {
    POOL.with_borrow_mut(|pool| pool.entries.get_mut(&ConnectionKey::of(upstream))?.take(upstream))
}

/// Closes the connection that has been idle longest, to make room for a new one.
pub(crate) fn close_longest_idle() {
    let _gone = POOL.with_borrow_mut(Pool::take_longest_idle);
}

/// Returns the group of requests that wait for a connection to this endpoint.
pub(in crate::upstream) fn group(upstream: &Upstream) -> Arc<ConnectionGroup> {
    let (group, sweep) = POOL.with_borrow_mut(|pool| {
        let group = pool.entry(upstream).group.clone();
        (group, !std::mem::replace(&mut pool.sweeping, true))
    });
    if sweep {
        tokio::spawn(sweeps());
    }
    group
}

/// Makes a connection available to other requests. `size` is the maximum number of idle
/// connections, of which `share` are kept while descriptors are short.
pub(in crate::upstream) fn put(connection: Arc<Connection>, upstream: &Upstream, size: usize, share: usize) {
    POOL.with_borrow_mut(|pool| {
        (pool.size, pool.share) = (size, share);
        pool.entry(upstream).connections.push(connection);
    });
}

/// Sweeps idle connections until the pool is empty.
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

/// Removed connections. The caller drops them after it has released its borrow of the pool.
type Gone = Vec<Arc<Connection>>;

impl EndpointConnections {
    fn take(&mut self, upstream: &Upstream) -> Option<StreamPermit> {
        let place = self.connections.iter().find_map(|connection| connection.take(upstream, true));
        if place.is_none() {
            // No connection has a free stream, so this is a good time to drop those that have
            // ended.
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
        // A group with other owners is kept: a request waits for a connection or opens one.
        self.entries.retain(|_, entry| !entry.connections.is_empty() || Arc::strong_count(&entry.group) > 1);
        gone
    }

    /// Closes the longest idle connections until at most `most` are idle.
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

    /// Removes the connection that has been idle longest.
    fn take_longest_idle(&mut self) -> Option<Arc<Connection>> {
        let entries = self.entries.values_mut().filter_map(|entry| {
            let idle = entry.connections.iter().enumerate();
            let (since, at) = idle.filter_map(|(at, one)| Some((one.idle_since()?, at))).min()?;
            Some((since, at, entry))
        });
        let (_, at, entry) = entries.min_by_key(|(since, ..)| *since)?;
        Some(entry.connections.swap_remove(at))
    }
}
