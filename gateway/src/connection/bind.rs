//! Listening sockets that come and go with the listener groups.
//!
//! There is one socket per address, and all workers accept from it. (With one `SO_REUSEPORT` socket per worker
//! the kernel gives each its own queue, and what stands in a queue is reset when its socket closes.) The list of
//! sockets is published as a whole; a worker compares it with what it has.
//!
//! # What a worker does
//!
//! For a socket that is new in the list it clones the listener into its runtime and accepts. For a socket that is
//! gone from the list it first accepts until that would block, because the kernel resets the connections that
//! still stand in the queue of a socket when its last handle closes; then it drops its clone and the
//! [`BoundSocket`], in this order. A connection that arrives between the two is lost, so nothing is awaited
//! there. The kernel's socket lives until the last worker has done so; while it does, an address that is asked
//! for again takes it over with its queue.

mod listener;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::{Arc, Weak};

use sluice_config::{Bind, BindProtocol, BindResult, Change, GroupId, ListenerGroup, Report};
use tokio::sync::watch;

/// All sockets there are now.
pub type BoundSockets = Arc<[Arc<BoundSocket>]>;

/// A socket that listens.
#[derive(Debug)]
pub struct BoundSocket {
    /// Non-blocking. Workers clone it.
    pub listener: TcpListener,
    /// The address it is bound to, with the real port.
    pub address: SocketAddr,
    /// Where the hosts of its requests are looked up.
    pub group: GroupId,
    /// The port that clients see.
    pub declared_port: u16,
    /// What is spoken on it.
    pub protocol: BindProtocol,
}

/// Keeps the sockets that the listener groups ask for. One owner; workers subscribe.
pub struct Sockets {
    groups: BTreeMap<GroupId, Arc<ListenerGroup>>,
    bound: HashMap<Slot, Arc<BoundSocket>>,
    /// Sockets no longer asked for that some worker still holds.
    retired: Vec<(Slot, Weak<BoundSocket>)>,
    reported: BTreeMap<GroupId, Vec<BindResult>>,
    published: watch::Sender<BoundSockets>,
    /// Opens a listening socket; the system's, but for tests of what a test cannot make the system do.
    open: fn(SocketAddr) -> io::Result<TcpListener>,
}

/// What a socket stands for from one state to the next: an address. Port 0 is a different port each time, and
/// is told apart by who asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Slot {
    address: SocketAddr,
    asked_by: Option<(GroupId, Arc<str>)>,
}

impl Default for Sockets {
    fn default() -> Self {
        Self::new()
    }
}

impl Sockets {
    /// No sockets.
    pub fn new() -> Self {
        Self::with_opener(listener::open)
    }

    fn with_opener(open: fn(SocketAddr) -> io::Result<TcpListener>) -> Self {
        Self {
            groups: BTreeMap::new(),
            bound: HashMap::new(),
            retired: Vec::new(),
            reported: BTreeMap::new(),
            published: watch::Sender::new(Arc::new([])),
            open,
        }
    }

    /// The list of sockets, now and whenever it changes.
    pub fn subscribe(&self) -> watch::Receiver<BoundSockets> {
        self.published.subscribe()
    }

    /// Takes in changes to the groups: closes what is no longer asked for, keeps what is as it was, and binds
    /// what is new or could not be bound before. Without changes it tries again what could not be bound.
    /// Returns a [`Report::Binds`] for each group whose sockets are not what was reported last.
    pub fn apply(&mut self, changes: &[Change<GroupId, Arc<ListenerGroup>>]) -> Vec<Report> {
        if changes.is_empty() && self.all_bound() {
            return Vec::new();
        }
        for change in changes {
            match change {
                Change::Put(id, group) => self.groups.insert(id.clone(), group.clone()),
                Change::Remove(id) => self.groups.remove(id),
            };
        }
        let groups = self.groups.clone();
        self.retire(&groups);
        let mut results = BTreeMap::new();
        let mut taken = HashMap::new();
        for (id, group) in &groups {
            let bound = group.binds.iter().flat_map(|bind| self.bind(id, bind, &mut taken)).collect();
            results.insert(id.clone(), bound);
        }
        self.publish();
        self.report(results)
    }

    /// Whether every socket that is asked for is bound.
    pub fn all_bound(&self) -> bool {
        self.reported.values().flatten().all(|result| result.error.is_none())
    }

    /// Closes everything, at the end: workers drain the queues, and the last of them closes the sockets.
    pub fn close(&mut self) {
        self.groups.clear();
        self.reported.clear();
        self.bound.clear();
        self.publish();
    }

    /// Puts away the sockets that nobody asks for, before any new one is bound.
    fn retire(&mut self, groups: &BTreeMap<GroupId, Arc<ListenerGroup>>) {
        let wanted: HashSet<Slot> = groups
            .iter()
            .flat_map(|(id, group)| group.binds.iter().map(move |bind| (id, bind)))
            .flat_map(|(id, bind)| bind.addresses.iter().map(move |ip| Slot::new(id, bind, *ip)))
            .collect();
        self.retired.retain(|(_, socket)| socket.strong_count() > 0);
        for (slot, socket) in self.bound.extract_if(|slot, _| !wanted.contains(slot)) {
            self.retired.push((slot, Arc::downgrade(&socket)));
        }
    }

    /// Binds all addresses of one port.
    fn bind(&mut self, group: &GroupId, bind: &Bind, taken: &mut HashMap<Slot, Arc<str>>) -> Vec<BindResult> {
        let mut results = Vec::with_capacity(bind.addresses.len());
        let mut without_ipv6 = None;
        for ip in &bind.addresses {
            let slot = Slot::new(group, bind, *ip);
            let address = slot.address;
            if let Some(other) = taken.get(&slot) {
                let error = format!(
                    "port {} is asked for by {other} already; choose another {}",
                    bind.port,
                    listener::place(&bind.source)
                );
                results.push(BindResult { address, error: Some(error) });
                continue;
            }
            taken.insert(slot.clone(), bind.source.clone());
            match self.socket(&slot, group, bind) {
                Ok(socket) => {
                    results.push(BindResult { address: socket.address, error: None });
                    self.bound.insert(slot, socket);
                }
                Err(error) => {
                    let result =
                        BindResult { address, error: Some(listener::explain(address, &bind.source, &error)) };
                    if *ip == Ipv6Addr::UNSPECIFIED && listener::is_unsupported_family(&error) {
                        without_ipv6 = Some(result);
                    } else {
                        results.push(result);
                    }
                }
            }
        }
        let everywhere = |result: &BindResult| {
            result.error.is_none() && result.address.ip() == IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        };
        match without_ipv6 {
            // All addresses that this machine has are served.
            Some(_) if results.iter().any(everywhere) => {
                tracing::info!(port = bind.port, "this machine has no IPv6; listening on IPv4 alone");
            }
            missing => results.extend(missing),
        }
        results
    }

    /// The socket of a slot: as it is, under a new label, or new.
    fn socket(&mut self, slot: &Slot, group: &GroupId, bind: &Bind) -> io::Result<Arc<BoundSocket>> {
        let known = match self.bound.remove(slot) {
            Some(socket) if socket.stands_for(group, bind) => return Ok(socket),
            // The queue goes over to the new label, and workers see one socket come and one go.
            Some(socket) => Some(socket),
            None => self.retired.iter().find(|(of, _)| of == slot).and_then(|(_, socket)| socket.upgrade()),
        };
        let listener = match known {
            Some(socket) => socket.listener.try_clone()?,
            None => (self.open)(slot.address)?,
        };
        let address = listener.local_addr()?;
        Ok(Arc::new(BoundSocket {
            address,
            group: group.clone(),
            declared_port: declared_port(bind, address),
            protocol: bind.protocol,
            listener,
        }))
    }

    /// Tells the workers, if there is something to tell.
    fn publish(&self) {
        let mut sockets: Vec<_> = self.bound.values().cloned().collect();
        sockets.sort_by_key(|socket| socket.address);
        self.published.send_if_modified(|published| {
            let same = published.len() == sockets.len()
                && published.iter().zip(&sockets).all(|(old, new)| Arc::ptr_eq(old, new));
            if !same {
                *published = sockets.into();
            }
            !same
        });
    }

    fn report(&mut self, results: BTreeMap<GroupId, Vec<BindResult>>) -> Vec<Report> {
        let before = std::mem::replace(&mut self.reported, results);
        let gone = before.keys().filter(|group| !self.reported.contains_key(group));
        let gone = gone.map(|group| Report::Binds { group: group.clone(), results: Vec::new() });
        let news = self.reported.iter().filter(|(group, results)| before.get(group) != Some(results));
        let news =
            news.map(|(group, results)| Report::Binds { group: group.clone(), results: results.clone() });
        gone.chain(news).collect()
    }
}

impl Slot {
    fn new(group: &GroupId, bind: &Bind, ip: IpAddr) -> Self {
        Self {
            address: SocketAddr::new(ip, bind.port),
            asked_by: (bind.port == 0).then(|| (group.clone(), bind.source.clone())),
        }
    }
}

impl BoundSocket {
    fn stands_for(&self, group: &GroupId, bind: &Bind) -> bool {
        self.group == *group
            && self.protocol == bind.protocol
            && self.declared_port == declared_port(bind, self.address)
    }
}

/// The port that clients see; where any port was asked for, it is the one that was bound.
fn declared_port(bind: &Bind, address: SocketAddr) -> u16 {
    if bind.declared_port == 0 { address.port() } else { bind.declared_port }
}

#[cfg(test)]
mod tests;
