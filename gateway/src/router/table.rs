//! The route table: hosts by listener group and listener, looked up in two stages.
//!
//! Gateway API requires two stages because it isolates listeners: the listener with the most
//! specific host name is final, and a request that none of its rules match is not offered to a
//! broader listener (`GatewayHTTPListenerIsolation`).

use std::fmt;
use std::sync::Arc;

use sluice_config::{GroupId, HostKey, HostPattern, Listener, ListenerId};

use super::host::CompiledHost;
use super::map::Map;
use super::names::{Matching, Names};
use super::request_view::RequestView;
use crate::message::fields::Fields;

/// All hosts of all listener groups. A clone copies a few pointers and shares everything; a change
/// to it copies O(log n) entries.
pub struct RouteTable<T> {
    groups: Map<GroupId, GroupRoutes<T>>,
}

/// One listener group. A connection looks it up once per table.
pub struct GroupRoutes<T> {
    listeners: Names<ListenerId>,
    hosts: Map<ListenerId, Hosts<T>>,
}

type Hosts<T> = Names<Arc<CompiledHost<T>>>;

/// The host of a request, and the less specific hosts that it may fall through to.
pub struct HostMatch<'t, 'h, T> {
    host: &'t Arc<CompiledHost<T>>,
    less_specific: Matching<'t, 'h, Arc<CompiledHost<T>>>,
    listener: &'t ListenerId,
}

impl<T> RouteTable<T> {
    /// Adds a host, or replaces the one with the same key.
    pub fn put_host(&mut self, key: &HostKey, host: Arc<CompiledHost<T>>) {
        let group = self.groups.entry(key.group.clone()).or_default();
        group.hosts.entry(key.listener.clone()).or_default().insert(&key.pattern, host);
    }

    /// Removes a host. Returns whether it existed.
    pub fn remove_host(&mut self, key: &HostKey) -> bool {
        let Some(group) = self.groups.get_mut(&key.group) else { return false };
        let Some(hosts) = group.hosts.get_mut(&key.listener) else { return false };
        let removed = hosts.remove(&key.pattern).is_some();
        if hosts.is_empty() {
            group.hosts.remove(&key.listener);
        }
        self.drop_if_empty(&key.group);
        removed
    }

    /// Sets the listeners of a group; an empty list hides the group. Its hosts remain until they
    /// are removed, and hosts may be added before their listener.
    pub fn set_listeners(&mut self, group: &GroupId, listeners: &[Listener]) {
        let mut names = Names::default();
        for listener in listeners {
            names.insert(&listener.host, listener.id.clone());
        }
        self.groups.entry(group.clone()).or_default().listeners = names;
        self.drop_if_empty(group);
    }

    fn drop_if_empty(&mut self, group: &GroupId) {
        if self.groups.get(group).is_some_and(|group| group.hosts.is_empty() && group.listeners.is_empty()) {
            self.groups.remove(group);
        }
    }

    /// Returns a group, for connections with many requests.
    pub fn group(&self, group: &GroupId) -> Option<&GroupRoutes<T>> {
        self.groups.get(group)
    }

    /// Looks up a host in a group ([`GroupRoutes::find_host`]).
    pub fn find_host<'t, 'h>(&'t self, group: &GroupId, host: &'h str) -> Option<HostMatch<'t, 'h, T>> {
        self.group(group)?.find_host(host)
    }

    /// Returns the host with exactly this key.
    pub fn host(&self, key: &HostKey) -> Option<&Arc<CompiledHost<T>>> {
        self.group(&key.group)?.hosts.get(&key.listener)?.get(&key.pattern)
    }

    /// Returns whether an object names this host, or a wildcard that covers it. A host for any name
    /// does not count.
    pub fn names_host(&self, group: &GroupId, host: &str) -> bool {
        let Some(found) = self.find_host(group, host) else { return false };
        let listener = found.listener().clone();
        let any = HostKey { group: group.clone(), listener, pattern: HostPattern::Any };
        !self.host(&any).is_some_and(|any| Arc::ptr_eq(any, found.host()))
    }

    /// All hosts, in no order; for introspection.
    pub fn hosts(&self) -> impl Iterator<Item = (HostKey, &Arc<CompiledHost<T>>)> {
        self.groups.iter().flat_map(|(group, content)| {
            content.hosts.iter().flat_map(move |(listener, hosts)| {
                hosts.iter().map(move |(pattern, host)| {
                    (HostKey { group: group.clone(), listener: listener.clone(), pattern }, host)
                })
            })
        })
    }
}

impl<T> GroupRoutes<T> {
    /// Returns the host for a name in lower case and without port ([`host_of`](super::host_of));
    /// the name is empty if the request has none. Selects the listener with the most specific
    /// pattern, then the most specific host of that listener: exact, one-label wildcard, longest
    /// suffix, any.
    pub fn find_host<'t, 'h>(&'t self, host: &'h str) -> Option<HostMatch<'t, 'h, T>> {
        let listener = self.listeners.matching(host).next()?;
        let mut hosts = self.hosts.get(listener)?.matching(host);
        let host = hosts.next()?;
        Some(HostMatch { host, less_specific: hosts, listener })
    }
}

impl<'t, T> HostMatch<'t, '_, T> {
    /// Returns the most specific host.
    pub fn host(&self) -> &'t Arc<CompiledHost<T>> {
        self.host
    }

    /// Returns the listener of the host.
    pub fn listener(&self) -> &'t ListenerId {
        self.listener
    }

    /// Returns the route of the first rule that matches, in the most specific host or, if that host
    /// falls through, in the next one.
    pub fn find(&self, request: &RequestView<'_, impl Fields>) -> Option<&'t Arc<T>> {
        self.hosts().find_map(|host| host.find(request))
    }

    /// Returns the hosts in which a request is looked up, in order.
    pub fn hosts(&self) -> impl Iterator<Item = &'t Arc<CompiledHost<T>>> {
        let (first, mut less_specific) = (self.host, self.less_specific.clone());
        let mut last: Option<&'t Arc<CompiledHost<T>>> = None;
        std::iter::from_fn(move || {
            let next = match last {
                None => first,
                Some(last) if last.fall_through() => less_specific.next()?,
                Some(_) => return None,
            };
            last = Some(next);
            last
        })
    }
}

impl<T> Clone for RouteTable<T> {
    fn clone(&self) -> Self {
        Self { groups: self.groups.clone() }
    }
}

impl<T> Default for RouteTable<T> {
    fn default() -> Self {
        Self { groups: Map::default() }
    }
}

impl<T> Clone for GroupRoutes<T> {
    fn clone(&self) -> Self {
        Self { listeners: self.listeners.clone(), hosts: self.hosts.clone() }
    }
}

impl<T> Default for GroupRoutes<T> {
    fn default() -> Self {
        Self { listeners: Names::default(), hosts: Map::default() }
    }
}

impl<T> fmt::Debug for RouteTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self.hosts().map(|(key, _)| key.to_string()).collect();
        f.debug_struct("RouteTable").field("hosts", &hosts).finish()
    }
}
