//! The listening sockets, which come and go with the configuration.
//!
//! There is one socket per address, shared by all workers: with a socket per worker, connections that wait in
//! the queue of one are reset when it closes. Sockets are bound as soon as a group asks for them, so that a
//! busy port is known at start; workers accept from them once the first complete configuration is in force.
//! A socket whose group, protocol or declared port changes stays open: what it leads to is told to the
//! workers, not to the kernel.

use std::collections::{BTreeMap, HashMap};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

use sluice_config::{Bind, BindProtocol, BindResult, Change, GroupId, ListenerGroup, Report};
use tokio::sync::watch;

use super::bind::{bind, explain, is_unsupported};

/// All sockets. Made once; told of groups by `apply`, read by workers.
#[derive(Debug)]
pub struct Listeners {
    /// Changed by one caller at a time, never on the path of a request.
    inner: Mutex<Inner>,
    published: watch::Sender<ListenerSet>,
}

#[derive(Debug, Default)]
struct Inner {
    groups: BTreeMap<GroupId, Arc<ListenerGroup>>,
    sockets: HashMap<SocketKey, (SocketAddr, Arc<TcpListener>)>,
    results: BTreeMap<GroupId, Vec<BindResult>>,
    closed: bool,
}

/// What a socket is known by: the address that was asked for. Port 0 asks for any, so its sockets are known by
/// who asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SocketKey {
    address: SocketAddr,
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
    pub(crate) socket: Arc<TcpListener>,
    pub(crate) entry: Entry,
}

/// What a socket leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) group: GroupId,
    pub(crate) declared_port: u16,
    pub(crate) protocol: BindProtocol,
}

impl Default for Listeners {
    fn default() -> Self {
        Self { inner: Mutex::default(), published: watch::Sender::new(ListenerSet::default()) }
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
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        for change in changes {
            match change {
                Change::Put(id, group) => inner.groups.insert(id.clone(), group.clone()),
                Change::Remove(id) => inner.groups.remove(id),
            };
        }
        if changes.is_empty() || inner.closed {
            return Vec::new();
        }
        let (sockets, mut results) = inner.reconcile();
        self.published.send_modify(|set| set.sockets = sockets);
        let before = std::mem::replace(&mut inner.results, results.clone());
        results.retain(|group, results| {
            before.get(group) != Some(results) || changes.iter().any(|change| change.key() == group)
        });
        results.into_iter().map(|(group, results)| Report::Binds { group, results }).collect()
    }

    /// Lets workers accept: the first complete configuration is in force.
    pub fn open(&self) {
        self.published.send_if_modified(|set| !std::mem::replace(&mut set.open, true));
    }

    /// Lets go of all sockets. Workers empty the accept queues first.
    pub fn close(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.closed = true;
        inner.sockets.clear();
        self.published.send_modify(|set| set.sockets.clear());
    }

    /// Whether every socket that was asked for is bound.
    pub fn all_bound(&self) -> bool {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.results.values().flatten().all(|result| result.error.is_none())
    }

    /// Tells of every change of the sockets.
    pub(crate) fn subscribe(&self) -> watch::Receiver<ListenerSet> {
        self.published.subscribe()
    }
}

impl Inner {
    /// Brings the sockets to what the groups ask for.
    fn reconcile(&mut self) -> (HashMap<SocketKey, Listening>, BTreeMap<GroupId, Vec<BindResult>>) {
        let groups = self.groups.clone();
        let wanted: Vec<_> = groups.values().flat_map(wanted).collect();
        // Closed first: a new socket may need the port of an old one.
        self.sockets.retain(|key, _| wanted.iter().any(|(wanted, ..)| wanted == key));
        let mut all: HashMap<SocketKey, Listening> = HashMap::new();
        let mut results: BTreeMap<_, Vec<_>> = groups.keys().map(|id| (id.clone(), Vec::new())).collect();
        for (key, group, bound) in wanted {
            let result = match all.get(&key) {
                Some(other) => Err(Some(taken(&key, bound, &other.entry.group))),
                None => self.socket(&key, bound),
            };
            let results = results.entry(group.clone()).or_default();
            match result {
                Ok((address, socket)) => {
                    let (declared_port, protocol) = (bound.declared_port, bound.protocol);
                    let entry = Entry { group: group.clone(), declared_port, protocol };
                    all.insert(key, Listening { socket, entry });
                    results.push(BindResult { address, error: None });
                }
                Err(Some(error)) => results.push(BindResult { address: key.address, error: Some(error) }),
                Err(None) => {}
            }
        }
        (all, results)
    }

    /// The socket for a key, bound if need be. `Err(None)` where the machine has no IPv6 and another address
    /// stands in.
    fn socket(
        &mut self,
        key: &SocketKey,
        bound: &Bind,
    ) -> Result<(SocketAddr, Arc<TcpListener>), Option<String>> {
        if let Some(socket) = self.sockets.get(key) {
            return Ok(socket.clone());
        }
        let socket = bind(key.address).and_then(|socket| Ok((socket.local_addr()?, Arc::new(socket))));
        match socket {
            Ok(socket) => {
                self.sockets.insert(key.clone(), socket.clone());
                Ok(socket)
            }
            Err(error)
                if key.address.is_ipv6()
                    && key.address.ip().is_unspecified()
                    && bound.addresses.len() > 1
                    && is_unsupported(&error) =>
            {
                tracing::info!(address = %key.address, "this machine has no IPv6; listening on IPv4 alone");
                Err(None)
            }
            Err(error) => Err(Some(explain(&error, key.address, bound))),
        }
    }
}

fn wanted(group: &Arc<ListenerGroup>) -> impl Iterator<Item = (SocketKey, &GroupId, &Bind)> {
    group.binds.iter().enumerate().flat_map(move |(index, bind)| {
        bind.addresses.iter().map(move |ip| {
            let any = (bind.port == 0).then(|| (group.id.clone(), index));
            (SocketKey { address: SocketAddr::new(*ip, bind.port), any }, &group.id, bind)
        })
    })
}

fn taken(key: &SocketKey, bind: &Bind, by: &GroupId) -> String {
    format!(
        "port {} is taken by listener group {by}; choose another with {}",
        key.address.port(),
        bind.source
    )
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use super::*;

    const LOCALHOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn group(id: &str, ports: &[(IpAddr, u16)]) -> Change<GroupId, Arc<ListenerGroup>> {
        let id = GroupId(id.into());
        let binds = ports.iter().map(|(address, port)| Bind {
            addresses: vec![*address],
            port: *port,
            declared_port: 80,
            protocol: BindProtocol::Http,
            source: "--http-port".into(),
        });
        let group = ListenerGroup { id: id.clone(), binds: binds.collect(), listeners: Vec::new() };
        Change::Put(id, Arc::new(group))
    }

    fn results(reports: &[Report]) -> Vec<(String, Vec<BindResult>)> {
        let binds = reports.iter().map(|report| match report {
            Report::Binds { group, results } => (group.to_string(), results.clone()),
            other => panic!("{other:?}"),
        });
        binds.collect()
    }

    #[test]
    fn a_busy_port_says_what_to_do() {
        let busy = TcpListener::bind((LOCALHOST, 0)).unwrap();
        let port = busy.local_addr().unwrap().port();
        let listeners = Listeners::new();
        let reports = listeners.apply(&[group("a", &[(LOCALHOST, port)])]);
        let error = format!("port {port} is already in use; free it or choose another with --http-port");
        assert_eq!(results(&reports)[0].1[0].error.as_deref(), Some(error.as_str()));
        assert!(!listeners.all_bound());
        drop(busy);
        let reports = listeners.apply(&[group("a", &[(LOCALHOST, port)])]);
        assert_eq!(results(&reports)[0].1[0].error, None);
        assert!(listeners.all_bound());
        let foreign = listeners.apply(&[group("a", &[(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), port)])]);
        assert!(
            results(&foreign)[0].1[0]
                .error
                .as_ref()
                .unwrap()
                .contains("192.0.2.1 is not one of this machine")
        );
    }

    #[test]
    fn sockets_outlive_changes_that_do_not_concern_them() {
        let listeners = Listeners::new();
        let reports = listeners.apply(&[group("a", &[(LOCALHOST, 0)])]);
        let port = results(&reports)[0].1[0].address.port();
        assert_ne!(port, 0);
        let socket = |listeners: &Listeners| {
            let set = listeners.subscribe();
            let sockets: Vec<_> = set.borrow().sockets.values().cloned().collect();
            sockets
        };
        let before = socket(&listeners);
        listeners.apply(&[group("b", &[(LOCALHOST, 0)])]);
        let after = socket(&listeners);
        assert_eq!(after.len(), 2);
        assert!(after.iter().any(|one| Arc::ptr_eq(&one.socket, &before[0].socket)));
        listeners.apply(&[Change::Remove(GroupId("b".into()))]);
        assert_eq!(socket(&listeners).len(), 1);
        let moved = Listeners::new();
        let reports = moved.apply(&[group("a", &[(LOCALHOST, port)])]);
        assert!(results(&reports)[0].1[0].error.is_some(), "still held by the first");
        listeners.close();
        drop((before, after));
        let reports = moved.apply(&[group("a", &[(LOCALHOST, port)])]);
        assert_eq!(results(&reports)[0].1[0].error, None, "closed");
    }

    #[test]
    fn a_port_passes_from_one_group_to_another_without_closing() {
        let listeners = Listeners::new();
        let free = TcpListener::bind((LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        listeners.apply(&[group("a", &[(LOCALHOST, free)])]);
        let set = listeners.subscribe();
        let before = set.borrow().sockets.values().next().unwrap().socket.clone();
        let reports = listeners.apply(&[group("b", &[(LOCALHOST, free)])]);
        assert!(results(&reports)[0].1[0].error.as_ref().unwrap().contains("taken by listener group a"));
        let reports = listeners.apply(&[Change::Remove(GroupId("a".into()))]);
        assert_eq!(
            results(&reports),
            [("b".into(), vec![BindResult { address: (LOCALHOST, free).into(), error: None }])]
        );
        let listening = set.borrow().sockets.values().next().unwrap().clone();
        assert!(Arc::ptr_eq(&listening.socket, &before));
        assert_eq!(listening.entry.group, GroupId("b".into()));
    }

    #[test]
    fn both_families_share_a_port() {
        let listeners = Listeners::new();
        let any = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
        let free = TcpListener::bind((any[1], 0)).unwrap().local_addr().unwrap().port();
        let Change::Put(id, mut one) = group("a", &[(any[0], free)]) else { unreachable!() };
        Arc::make_mut(&mut one).binds[0].addresses = any.to_vec();
        let reports = listeners.apply(&[Change::Put(id, one)]);
        assert!(results(&reports)[0].1.iter().all(|result| result.error.is_none()), "{reports:?}");
    }
}
