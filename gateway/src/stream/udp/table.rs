//! The sessions of one listening socket, in the order of their last datagram from the client.

use std::sync::Arc;

use lru::LruCache;

use super::reply::Peer;
use super::session_key::SessionKey;
use crate::telemetry::Telemetry;

/// The sessions.
#[derive(Debug)]
pub(super) struct Table(LruCache<SessionKey, Arc<Peer>>);

impl Default for Table {
    fn default() -> Self {
        Self(LruCache::unbounded())
    }
}

impl Table {
    /// Returns a session and marks it as the most recently used one.
    pub(super) fn get(&mut self, key: &SessionKey) -> Option<&Arc<Peer>> {
        self.0.get(key)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a session. Ends one with the same key.
    pub(super) fn insert(&mut self, key: SessionKey, peer: Arc<Peer>) {
        if let Some(old) = self.0.put(key, peer) {
            old.close();
        }
    }

    /// Ends a session.
    pub(super) fn remove(&mut self, key: &SessionKey) {
        if let Some(peer) = self.0.pop(key) {
            peer.close();
        }
    }

    /// Ends all sessions.
    pub(super) fn close_all(&mut self) {
        while let Some((_, peer)) = self.0.pop_lru() {
            peer.close();
        }
    }

    /// Removes a session that has ended, unless its key belongs to another one by now.
    pub(super) fn remove_if(&mut self, key: &SessionKey, ended: &Arc<Peer>) {
        if self.0.peek(key).is_some_and(|peer| Arc::ptr_eq(peer, ended)) {
            self.0.pop(key);
        }
    }

    /// Ends the session whose client has been silent for the longest time.
    pub(super) fn evict(&mut self, telemetry: &Telemetry) {
        if let Some((_, peer)) = self.0.pop_lru() {
            peer.close();
            telemetry.udp_session_evicted();
        }
    }
}
