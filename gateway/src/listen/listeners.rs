//! The set of listening sockets, which follows the configuration.
//!
//! Each address has one socket, from which one worker accepts: with a socket per worker, the
//! connections queued at one socket are reset when it closes. Sockets are bound as soon as a group
//! needs them, so that a busy port is reported at start; workers accept from them once the first
//! complete configuration is in force. A socket stays open if only its group, protocol or declared
//! port changes: these are known to the workers and not to the kernel.
//!
//! No connection is lost while addresses change. A new socket is bound beside the old one, also if
//! one address contains the other. An old socket closes
//! - once every socket of its listener is bound; [`Listeners::maintain`] retries failed binds;
//! - with a delay if a new socket has taken over some of its clients, whose handshakes may be in
//!   progress;
//! - not at all while a socket for all addresses contains its own: the kernel would assign it
//!   connections until it closes, and would then reset unfinished handshakes.

mod plan;
mod retry;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sluice_config::{
    BindProtocol, BindResult, Change, Code, GroupId, ListenerGroup, ObjectRef, Problem, Report, Severity,
    TransportProtocol,
};
use tokio::sync::watch;

use super::bind::ListenSocket;
use crate::registry::OwnListener;
use crate::state;
use plan::Open;
use retry::Retry;

/// All listening sockets of the process. `apply` changes them; workers accept from them.
#[derive(Debug)]
pub struct Listeners {
    /// Changed by one caller at a time, never on the request path.
    inner: Mutex<Inner>,
    published: watch::Sender<ListenerSet>,
    /// When [`maintain`](Self::maintain) has work to do.
    due: watch::Sender<Option<Instant>>,
}

#[derive(Debug, Default)]
struct Inner {
    groups: BTreeMap<GroupId, Arc<ListenerGroup>>,
    sockets: HashMap<SocketKey, Open>,
    results: BTreeMap<GroupId, Vec<BindResult>>,
    /// Listeners that lack a socket.
    incomplete: HashSet<ListenerTarget>,
    /// Listeners that had all of their sockets at some time.
    complete: HashSet<ListenerTarget>,
    ipv6_reported: bool,
    retry: Retry,
    closed: bool,
}

/// Identifies a socket by its requested address. Port 0 requests any port, so such sockets are
/// identified by their group and bind as well.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SocketKey {
    address: SocketAddr,
    transport: TransportProtocol,
    any: Option<(GroupId, usize)>,
}

/// The sockets that workers accept from.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListenerSet {
    /// Whether workers accept yet.
    pub(crate) open: bool,
    pub(crate) sockets: HashMap<SocketKey, ListenerSocket>,
}

/// A socket and the listener that it serves.
#[derive(Clone, Debug)]
pub(crate) struct ListenerSocket {
    pub(crate) socket: ListenSocket,
    pub(crate) entry: ListenerTarget,
}

/// The listener group and protocol that a socket serves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ListenerTarget {
    pub(crate) group: GroupId,
    pub(crate) declared_port: u16,
    pub(crate) protocol: BindProtocol,
}

impl Default for Listeners {
    fn default() -> Self {
        Self {
            inner: Mutex::default(),
            published: watch::Sender::new(ListenerSet::default()),
            due: watch::Sender::new(None),
        }
    }
}

impl Listeners {
    /// Creates an empty set.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Binds and closes sockets for changed groups. Returns a report for every changed group, and
    /// for each group whose sockets changed as a consequence.
    pub fn apply(&self, changes: &[Change<GroupId, Arc<ListenerGroup>>]) -> Vec<Report> {
        let mut inner = self.lock();
        for change in changes {
            match change {
                Change::Put(id, group) => inner.groups.insert(id.clone(), group.clone()),
                Change::Remove(id) => inner.groups.remove(id),
            };
        }
        if changes.is_empty() {
            return Vec::new();
        }
        inner.retry = Retry::default();
        self.reconcile(&mut inner, |group| changes.iter().any(|change| change.key() == group))
    }

    /// Retries failed binds and closes sockets that are due, until dropped. Calls `changed` for
    /// sockets that are now bound, or that fail for another reason.
    pub async fn maintain(&self, mut changed: impl FnMut(Vec<Report>)) {
        let mut news = self.due.subscribe();
        loop {
            let due = *news.borrow_and_update();
            let time = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Never an error: `self` holds the sender.
                _ = news.changed() => {}
                () = time => changed(self.again()),
            }
        }
    }

    /// Starts accepting: the first complete configuration is in force.
    pub fn open(&self) {
        self.published.send_if_modified(|set| !std::mem::replace(&mut set.open, true));
    }

    /// Closes all sockets, after workers have emptied the accept queues.
    pub fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        inner.sockets.clear();
        self.due.send_replace(None);
        self.published.send_modify(|set| set.sockets.clear());
    }

    /// Returns the current state of the sockets.
    pub(crate) fn status(&self) -> state::Listening {
        state::Listening {
            serves: self.are_serving(),
            problems: self.problems(),
            addresses: self.addresses(),
        }
    }

    /// Returns whether the gateway is reachable: there are required sockets, and each of them is
    /// bound, or was bound and is replaced by an earlier socket. A failed change does not make the
    /// gateway unready, and neither does an optional socket, which may belong to one tenant.
    pub fn are_serving(&self) -> bool {
        let inner = self.lock();
        let serves = |entry: &ListenerTarget| {
            inner.complete.contains(entry) && inner.sockets.values().any(|open| open.entry == *entry)
        };
        let is_required =
            |id: &GroupId| inner.groups.get(id).is_some_and(|group: &Arc<ListenerGroup>| group.required);
        let mut incomplete = inner.incomplete.iter().filter(|entry| is_required(&entry.group));
        inner.groups.keys().any(is_required) && incomplete.all(serves)
    }

    /// Returns the problems of the sockets.
    pub fn problems(&self) -> Vec<Problem> {
        let inner = self.lock();
        let problem = |result: &BindResult| {
            let error = result.error.as_ref()?;
            Some(Problem {
                object: ObjectRef::new("Listener", "", &result.address.to_string()),
                field: "address".into(),
                uid: None,
                severity: Severity::Error,
                code: Code::ListenerNotBound,
                message: error.cause(),
                remedy: format!("{}; Sluice tries again every second", error.remedy),
            })
        };
        inner.results.values().flatten().filter_map(problem).collect()
    }

    /// Returns the addresses that clients connect to, or will once the sockets are bound. Sorted.
    pub(crate) fn addresses(&self) -> Vec<OwnListener> {
        let inner = self.lock();
        let binds = inner.groups.values().flat_map(|group| &group.binds).filter(|bind| bind.port != 0);
        let mut all: Vec<OwnListener> = binds
            .flat_map(|bind| {
                let name: Arc<str> = format!("a listener ({})", bind.source).into();
                let own = move |ip: &_| OwnListener {
                    address: SocketAddr::new(*ip, bind.port),
                    name: name.clone(),
                    is_public: true,
                };
                bind.addresses.iter().map(own)
            })
            .collect();
        for Open { address, .. } in inner.sockets.values() {
            if all.iter().all(|own| own.address != *address) {
                all.push(OwnListener { address: *address, name: "a listener".into(), is_public: true });
            }
        }
        all.sort_by_key(|own| own.address);
        all
    }

    /// Returns a receiver for changes of the socket set.
    pub(crate) fn subscribe(&self) -> watch::Receiver<ListenerSet> {
        self.published.subscribe()
    }

    fn again(&self) -> Vec<Report> {
        self.reconcile(&mut self.lock(), |_| false)
    }

    /// Opens and closes sockets as the groups require. Returns the changes, and the state of groups
    /// for which `always` is true.
    fn reconcile(&self, inner: &mut Inner, always: impl Fn(&GroupId) -> bool) -> Vec<Report> {
        if inner.closed {
            return Vec::new();
        }
        let now = Instant::now();
        let results = inner.reconcile(now);
        let failed = results.values().flatten().any(|result| result.error.is_some());
        let retry = inner.retry.next(now, failed);
        let leaving = inner.sockets.values().filter_map(|open| open.leaves).min();
        self.due.send_replace(retry.into_iter().chain(leaving).min());
        let sockets = inner.sockets.iter().map(|(key, open)| {
            let Open { socket, entry, .. } = open;
            (key.clone(), ListenerSocket { socket: socket.clone(), entry: entry.clone() })
        });
        let sockets = sockets.collect();
        self.published.send_modify(|set| set.sockets = sockets);
        let before = std::mem::replace(&mut inner.results, results.clone());
        let news = results.into_iter().filter(|(group, now)| always(group) || before.get(group) != Some(now));
        news.map(|(group, results)| Report::Binds { group, results }).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
