//! Decides which sockets to open, keep and close.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_config::{Bind, BindError, BindResult, GroupId, ListenerGroup};

use super::{Inner, ListenerTarget, SocketKey};
use crate::listen::bind::{ListenSocket, bind, explain, is_unsupported};

/// Time that a socket stays open after another has taken over some of its clients, for handshakes
/// in progress.
const HANDSHAKE: Duration = Duration::from_secs(1);

/// An open socket.
#[derive(Debug)]
pub(super) struct Open {
    /// With the actual port.
    pub(super) address: SocketAddr,
    pub(super) socket: ListenSocket,
    pub(super) entry: ListenerTarget,
    /// When it closes, if it is due.
    pub(super) leaves: Option<Instant>,
}

impl Inner {
    /// Opens and closes sockets as the groups require.
    pub(super) fn reconcile(&mut self, now: Instant) -> BTreeMap<GroupId, Vec<BindResult>> {
        let groups = self.groups.clone();
        let wanted: Vec<_> = groups.values().flat_map(wanted).collect();
        let mut taken: HashMap<SocketKey, ListenerTarget> = HashMap::new();
        let mut outcomes = Vec::with_capacity(wanted.len());
        for (key, entry, bound) in &wanted {
            let result = match taken.get(key) {
                // A duplicate.
                Some(other) if other == entry => continue,
                Some(other) => Err(Some(is_taken(key, bound, &other.group))),
                None => self.socket(key, entry, bound),
            };
            let (address, error) = match result {
                Ok(address) => {
                    taken.insert(key.clone(), entry.clone());
                    (address, None)
                }
                Err(Some(error)) => (key.address, Some(error)),
                Err(None) => continue,
            };
            outcomes.push((entry, BindResult { address, error }));
        }
        let failed = outcomes.iter().filter(|(_, result)| result.error.is_some());
        self.incomplete = failed.map(|(entry, _)| ListenerTarget::clone(entry)).collect();
        let (incomplete, entries) = (&self.incomplete, wanted.iter().map(|(_, entry, _)| entry));
        self.complete.retain(|entry| entries.clone().any(|wanted| wanted == entry));
        self.complete.extend(entries.filter(|entry| !incomplete.contains(entry)).cloned());
        self.release_unused(&taken, now);
        let mut results: BTreeMap<_, Vec<_>> = groups.keys().map(|id| (id.clone(), Vec::new())).collect();
        for (entry, mut result) in outcomes {
            if let Some(error) = &mut result.error {
                let old = self.sockets.iter();
                let old = old.filter(|(key, open)| open.entry == *entry && !taken.contains_key(key));
                error.instead = old.map(|(_, open)| open.address).collect();
                error.instead.sort();
            }
            results.entry(entry.group.clone()).or_default().push(result);
        }
        results
    }

    /// Returns the actual address of the socket for a key, after binding it if necessary.
    /// `Err(None)` if the machine has no IPv6 and another address of the listener is bound.
    fn socket(
        &mut self,
        key: &SocketKey,
        entry: &ListenerTarget,
        bound: &Bind,
    ) -> Result<SocketAddr, Option<BindError>> {
        if let Some(open) = self.sockets.get_mut(key) {
            open.entry.clone_from(entry);
            open.leaves = None;
            return Ok(open.address);
        }
        let beside: Vec<_> = self
            .sockets
            .values()
            .filter(|open| open.socket.transport() == key.transport)
            .filter(|open| contains(open.address, key.address) || contains(key.address, open.address))
            .map(|open| open.socket.clone())
            .collect();
        let socket = bind(key.address, key.transport, &beside);
        let socket = socket.and_then(|socket| Ok((socket.local_addr()?, socket)));
        match socket {
            Ok((address, socket)) => {
                let open = Open { address, socket, entry: entry.clone(), leaves: None };
                self.sockets.insert(key.clone(), open);
                Ok(address)
            }
            Err(error)
                if key.address.is_ipv6()
                    && key.address.ip().is_unspecified()
                    && bound.addresses.len() > 1
                    && is_unsupported(&error) =>
            {
                if !std::mem::replace(&mut self.ipv6_reported, true) {
                    tracing::info!(address = %key.address, "this machine has no IPv6; listening on IPv4 alone");
                }
                Err(None)
            }
            Err(error) => Err(Some(explain(&error, key.address, bound))),
        }
    }

    /// Closes the sockets that no group requires, each when it is due.
    fn release_unused(&mut self, taken: &HashMap<SocketKey, ListenerTarget>, now: Instant) {
        let wanted: Vec<(SocketAddr, ListenerTarget)> = taken
            .keys()
            .filter_map(|key| self.sockets.get(key))
            .map(|open| (open.address, open.entry.clone()))
            .collect();
        let wanted_by = |transport| {
            wanted
                .iter()
                .filter(move |(_, entry): &&(_, ListenerTarget)| entry.protocol.transport() == transport)
        };
        self.sockets.retain(|key, open| {
            if taken.contains_key(key) {
                return true;
            }
            if self.incomplete.contains(&open.entry) {
                open.leaves = None;
                return true;
            }
            let mut same = wanted_by(key.transport);
            if let Some((_, entry)) = same.find(|(wanted, _)| contains(*wanted, open.address)) {
                open.entry.clone_from(entry);
                open.leaves = None;
                return true;
            }
            if !wanted_by(key.transport).any(|(wanted, _)| contains(open.address, *wanted)) {
                return false;
            }
            *open.leaves.get_or_insert(now + HANDSHAKE) > now
        });
    }
}

/// Returns the sockets that a group requires, with the listener that each serves.
fn wanted(group: &Arc<ListenerGroup>) -> impl Iterator<Item = (SocketKey, ListenerTarget, &Bind)> {
    group.binds.iter().enumerate().flat_map(move |(index, bind)| {
        let (declared_port, protocol) = (bind.declared_port, bind.protocol);
        let entry = ListenerTarget { group: group.id.clone(), declared_port, protocol };
        bind.addresses.iter().map(move |ip| {
            let any = (bind.port == 0).then(|| (group.id.clone(), index));
            let (address, transport) = (SocketAddr::new(*ip, bind.port), protocol.transport());
            (SocketKey { address, transport, any }, entry.clone(), bind)
        })
    })
}

/// Returns whether a socket of the first address would also receive connections for the second, a
/// narrower one. `[::]` accepts IPv6 only.
fn contains(wide: SocketAddr, narrow: SocketAddr) -> bool {
    let same_family =
        matches!((wide.ip(), narrow.ip()), (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)));
    same_family && wide.port() == narrow.port() && wide.ip().is_unspecified() && !narrow.ip().is_unspecified()
}

fn is_taken(key: &SocketKey, bind: &Bind, by: &GroupId) -> BindError {
    BindError {
        message: format!("port {} is taken by listener group {by}", key.address.port()),
        remedy: format!("choose another with {}", bind.source),
        foreign: false,
        instead: Vec::new(),
    }
}
