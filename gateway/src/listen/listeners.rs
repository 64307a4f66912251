//! The listening sockets, which come and go with the configuration.
//!
//! There is one socket per address, from which one worker accepts: with a socket per worker, connections that wait in
//! the queue of one are reset when it closes. Sockets are bound as soon as a group asks for them, so that a
//! busy port is known at start; workers accept from them once the first complete configuration is in force.
//! A socket whose group, protocol or declared port changes stays open: what it leads to is told to the
//! workers, not to the kernel.
//!
//! No connection is lost while addresses change. A new socket is bound beside the old one, also where one address
//! contains the other. An old socket closes
//! - not before everything that its listener asks for is bound, which is tried again and again ([`Listeners::tend`]);
//! - a moment later where a new one has taken over some of its clients, whose handshakes may be under way;
//! - not at all while a socket for all addresses contains its own: the kernel would go on giving it connections
//!   until the moment it closes, and would reset those whose handshake is under way then.

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
    Transport,
};
use tokio::sync::watch;

use super::bind::ListenSocket;
use crate::registry::OwnListener;
use crate::state;
use plan::Open;
use retry::Retry;

/// All sockets. Made once; told of groups by `apply`, read by workers.
#[derive(Debug)]
pub struct Listeners {
    /// Changed by one caller at a time, never on the path of a request.
    inner: Mutex<Inner>,
    published: watch::Sender<ListenerSet>,
    /// When there is something to do for [`tend`](Self::tend).
    due: watch::Sender<Option<Instant>>,
}

#[derive(Debug, Default)]
struct Inner {
    groups: BTreeMap<GroupId, Arc<ListenerGroup>>,
    sockets: HashMap<SocketKey, Open>,
    results: BTreeMap<GroupId, Vec<BindResult>>,
    /// What does not have all of its sockets.
    incomplete: HashSet<ListenerTarget>,
    /// What had all of its sockets at some time.
    complete: HashSet<ListenerTarget>,
    told_of_ipv6: bool,
    retry: Retry,
    closed: bool,
}

/// What a socket is known by: the address that was asked for. Port 0 asks for any, so its sockets are known by
/// who asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SocketKey {
    address: SocketAddr,
    transport: Transport,
    any: Option<(GroupId, usize)>,
}

/// What workers accept from.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListenerSet {
    /// Whether they should yet.
    pub(crate) open: bool,
    pub(crate) sockets: HashMap<SocketKey, Listening>,
}

/// A socket and what it leads to.
#[derive(Clone, Debug)]
pub(crate) struct Listening {
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
    /// No sockets.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Binds and closes sockets as the groups now have it. Gives a report for every group that changed, and for
    /// those whose sockets did as a consequence.
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

    /// Tries again what could not be bound and closes what may close, until it is dropped. `changed` hears of
    /// sockets that are bound or cannot be for another reason.
    pub async fn tend(&self, mut changed: impl FnMut(Vec<Report>)) {
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
                // Its sender is in `self`.
                _ = news.changed() => {}
                () = time => changed(self.again()),
            }
        }
    }

    /// Lets workers accept: the first complete configuration is in force.
    pub fn open(&self) {
        self.published.send_if_modified(|set| !std::mem::replace(&mut set.open, true));
    }

    /// Lets go of all sockets. Workers empty the accept queues first.
    pub fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        inner.sockets.clear();
        self.due.send_replace(None);
        self.published.send_modify(|set| set.sockets.clear());
    }

    /// How they are now.
    pub(crate) fn status(&self) -> state::Listening {
        state::Listening {
            serves: self.are_serving(),
            problems: self.problems(),
            addresses: self.addresses(),
        }
    }

    /// Whether requests can come: required sockets have been asked for, and each is bound, or was there at some time
    /// and has an earlier one in its place. A change that cannot be made is no reason to stop sending requests here,
    /// and neither is a socket that is not required: it may be that of one tenant.
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

    /// What is wrong with the sockets.
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

    /// Where clients come in, or are to come in as soon as the sockets are bound. Sorted.
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

    /// Tells of every change of the sockets.
    pub(crate) fn subscribe(&self) -> watch::Receiver<ListenerSet> {
        self.published.subscribe()
    }

    fn again(&self) -> Vec<Report> {
        self.reconcile(&mut self.lock(), |_| false)
    }

    /// Brings the sockets to what the groups ask for, and says what changed, in groups that `always` has to hear of
    /// also if nothing did.
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
            (key.clone(), Listening { socket: socket.clone(), entry: entry.clone() })
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
