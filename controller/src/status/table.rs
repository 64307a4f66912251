//! Which Ingresses have to be written, as a table without a clock and without a network.
//!
//! What the API server has confirmed is not written again before the watch shows something else of
//! a later version: that is a contest with another writer. Each contest in a row makes an Ingress
//! wait longer for its next write, counted from its last one, so that two writers who disagree are
//! no load.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use sluice_config::{NamespacedName, Uid};
use tokio::time::Instant;

use crate::store::{Address, IngressChange};

/// The first wait of two writers who disagree.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait between two writes, and how long the watch may take to show what was written.
const LONGEST: Duration = Duration::from_secs(60);
/// So many writes in a row that did not last are told as a problem.
const CONTESTED: u32 = 5;

/// All Ingresses, and what their status should be.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: HashMap<NamespacedName, Entry>,
    wanted: Arc<[Address]>,
    /// Those that may have another status than they should.
    suspects: HashSet<NamespacedName>,
    /// Those whose status does not stay as it was written.
    contested: BTreeSet<NamespacedName>,
}

#[derive(Debug, Default)]
struct Entry {
    served: bool,
    seen: Option<Seen>,
    /// A write is under way.
    writing: bool,
    /// The last write, until something later is seen.
    written: Option<Written>,
    /// Writes in a row that did not last.
    contests: u32,
    /// No write before this.
    not_before: Option<Instant>,
}

#[derive(Debug)]
struct Seen {
    uid: Option<Uid>,
    addresses: Arc<[Address]>,
    /// The version of the object.
    version: Option<u64>,
}

/// A write that the API server has confirmed.
#[derive(Clone, Copy, Debug)]
struct Written {
    at: Instant,
    /// The version of the object since then.
    version: Option<u64>,
}

/// A status to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) name: NamespacedName,
    pub(super) uid: Option<Uid>,
    pub(super) addresses: Arc<[Address]>,
}

impl Table {
    /// Takes in what has become of an Ingress.
    pub(super) fn take(&mut self, change: IngressChange, now: Instant) {
        match change {
            IngressChange::Seen { name, uid, addresses, version, .. } => {
                // Nearly all have the same ones.
                let addresses = if *addresses == *self.wanted { self.wanted.clone() } else { addresses };
                let entry = self.entries.entry(name.clone()).or_default();
                if entry.seen.as_ref().is_some_and(|seen| seen.uid != uid) {
                    *entry = Entry { served: entry.served, ..Entry::default() };
                    self.contested.remove(&name);
                }
                let is_later = |written: &Written| match (version, written.version) {
                    (Some(seen), Some(written)) => seen > written,
                    _ => true,
                };
                if *addresses != *self.wanted
                    && let Some(written) = entry.written.take_if(|written| is_later(written))
                    && entry.contest(written, now)
                {
                    self.contested.insert(name.clone());
                }
                entry.seen = Some(Seen { uid, addresses, version });
                self.suspects.insert(name);
            }
            IngressChange::Gone(name) => {
                if let Some(entry) = self.entries.get_mut(&name) {
                    *entry = Entry { served: entry.served, ..Entry::default() };
                    self.contested.remove(&name);
                    self.forget_if_idle(&name);
                }
            }
            IngressChange::Served(name, served) => {
                self.entries.entry(name.clone()).or_default().served = served;
                if !served {
                    self.contested.remove(&name);
                }
                self.forget_if_idle(&name);
                self.suspects.insert(name);
            }
        }
    }

    fn forget_if_idle(&mut self, name: &NamespacedName) {
        if self.entries.get(name).is_some_and(|entry| !entry.served && entry.seen.is_none()) {
            self.entries.remove(name);
        }
    }

    /// What the status of all Ingresses that are served should be from now on. None at all is not written.
    pub(super) fn want(&mut self, addresses: Vec<Address>) -> bool {
        if *self.wanted == *addresses {
            return false;
        }
        self.wanted = addresses.into();
        self.look_at_all();
        true
    }

    /// What the status of all should be.
    pub(super) fn wanted(&self) -> &Arc<[Address]> {
        &self.wanted
    }

    /// Everything may be other than it should, and that is no contest: another replica has written
    /// while we did not, or other addresses are wanted.
    pub(super) fn look_at_all(&mut self) {
        for entry in self.entries.values_mut() {
            (entry.writing, entry.written, entry.contests, entry.not_before) = (false, None, 0, None);
        }
        self.contested.clear();
        self.suspects = self.entries.keys().cloned().collect();
    }

    /// What has to be written now, and when to ask again for the rest.
    pub(super) fn due(&mut self, now: Instant) -> (Vec<Write>, Option<Instant>) {
        let (mut due, mut later) = (Vec::new(), None::<Instant>);
        if self.wanted.is_empty() {
            return (due, None);
        }
        let Self { entries, wanted, suspects, contested } = self;
        suspects.retain(|name| {
            let Some(entry) = entries.get_mut(name) else { return false };
            let Some(seen) = entry.seen.as_ref().filter(|_| entry.served) else { return false };
            let waits = entry.not_before.filter(|at| *at > now);
            let differs = *seen.addresses != **wanted;
            match waits {
                _ if !differs && entry.contests == 0 => return false,
                Some(at) => later = Some(later.map_or(at, |other| other.min(at))),
                // The watch may show our write before it is confirmed, which says nothing of how
                // long it lasts.
                None if entry.writing => {}
                None if !differs => {
                    // It has lasted for as long as the next write would have waited.
                    entry.contests = 0;
                    contested.remove(name);
                    return false;
                }
                None => {
                    let (uid, addresses) = (seen.uid.clone(), wanted.clone());
                    due.push(Write { name: name.clone(), uid, addresses });
                }
            }
            true
        });
        due.sort_by(|one, other| one.name.cmp(&other.name));
        (due, later)
    }

    /// A write is about to be sent. None where it is not due any more.
    pub(super) fn begin(&mut self, name: &NamespacedName, now: Instant) -> Option<Write> {
        let entry = self.entries.get_mut(name).filter(|entry| entry.served && !entry.writing)?;
        let seen = entry.seen.as_ref().filter(|seen| *seen.addresses != *self.wanted)?;
        if self.wanted.is_empty() || entry.not_before.is_some_and(|at| at > now) {
            return None;
        }
        entry.writing = true;
        Some(Write { name: name.clone(), uid: seen.uid.clone(), addresses: self.wanted.clone() })
    }

    /// The API server has confirmed a write of these addresses.
    pub(super) fn written(&mut self, write: &Write, version: Option<u64>, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&write.name) {
            entry.writing = false;
            // Of another object of that name, or of addresses that are wanted no more, this says
            // nothing.
            let seen = entry.seen.as_ref().filter(|seen| seen.uid == write.uid);
            if let Some(seen) = seen.filter(|_| write.addresses == self.wanted) {
                let written = Written { at: now, version };
                // The watch may show another writer's next version before the confirmation of ours
                // is here.
                if *seen.addresses != *self.wanted && version.is_some() && seen.version > version {
                    if entry.contest(written, now) {
                        self.contested.insert(write.name.clone());
                    }
                } else {
                    entry.written = Some(written);
                    entry.not_before = Some(now + LONGEST);
                }
            }
            self.suspects.insert(write.name.clone());
        }
    }

    /// A write did not take place, which says nothing of other writers: it is due again at `at`.
    pub(super) fn put_off(&mut self, name: &NamespacedName, at: Instant) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.writing = false;
            entry.not_before = Some(at);
            self.suspects.insert(name.clone());
        }
    }

    /// The Ingresses whose status does not stay as it was written.
    pub(super) fn contested(&self) -> impl ExactSizeIterator<Item = &NamespacedName> {
        self.contested.iter()
    }

    /// What the status of most Ingresses that are served is, where it is not empty.
    pub(super) fn published(&self) -> Vec<Address> {
        let mut counts: HashMap<&[Address], usize> = HashMap::new();
        let served = self.entries.values().filter(|entry| entry.served);
        for seen in served.filter_map(|entry| entry.seen.as_ref()) {
            *counts.entry(&seen.addresses).or_default() += 1;
        }
        counts.remove(&[][..]);
        let most = counts.into_iter().max_by_key(|(addresses, count)| (*count, *addresses));
        most.map(|(addresses, _)| addresses.to_vec()).unwrap_or_default()
    }

    /// The Ingresses whose status is exactly what we write: what may be cleared when the last replica ends.
    pub(super) fn ours(&self) -> Vec<Write> {
        let is_ours = |seen: &&Seen| !self.wanted.is_empty() && *seen.addresses == *self.wanted;
        let all = self.entries.iter().filter(|(_, entry)| entry.served);
        let all = all.filter_map(|(name, entry)| Some((name, entry.seen.as_ref().filter(is_ours)?)));
        let write = |(name, seen): (&NamespacedName, &Seen)| Write {
            name: name.clone(),
            uid: seen.uid.clone(),
            addresses: Arc::default(),
        };
        let mut all: Vec<Write> = all.map(write).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }
}

impl Entry {
    /// Counts a write that did not last. Returns whether so many in a row did not that it is a
    /// problem.
    fn contest(&mut self, written: Written, now: Instant) -> bool {
        let lasted = now >= written.at + LONGEST.max(wait(self.contests));
        self.contests = if lasted { 1 } else { self.contests.saturating_add(1) };
        self.not_before = Some(written.at + wait(self.contests));
        self.contests >= CONTESTED
    }
}

/// From one write to the next after so many contests.
fn wait(contests: u32) -> Duration {
    FIRST.saturating_mul(1 << contests.saturating_sub(1).min(10)).min(LONGEST)
}

#[cfg(test)]
mod tests;
