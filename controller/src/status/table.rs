//! The table of Ingresses to write, without a clock and I/O.
//!
//! A confirmed write is not repeated until the watch shows different addresses at a later version,
//! which means that another writer contests it. Each consecutive contest increases the wait before
//! the next write, counted from the last one, so that two conflicting writers cause little load.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use sluice_config::{NamespacedName, Uid};
use tokio::time::Instant;

use crate::store::{Address, IngressChange};

/// Wait after the first contest.
const FIRST: Duration = Duration::from_secs(1);
/// Maximum wait between two writes, and maximum delay of the watch.
const LONGEST: Duration = Duration::from_secs(60);
/// Number of consecutive contests that are reported as a problem.
const CONTESTED: u32 = 5;

/// All Ingresses and their desired status.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: HashMap<NamespacedName, Entry>,
    wanted: Arc<[Address]>,
    /// Ingresses whose status may differ from the desired one.
    suspects: HashSet<NamespacedName>,
    /// Ingresses whose status does not stay as written.
    contested: BTreeSet<NamespacedName>,
}

#[derive(Debug, Default)]
struct Entry {
    served: bool,
    seen: Option<Seen>,
    /// A write is in progress.
    writing: bool,
    /// The last write, until a later version is seen.
    written: Option<Written>,
    /// Consecutive contests.
    contests: u32,
    /// No write before this time.
    not_before: Option<Instant>,
}

#[derive(Debug)]
struct Seen {
    uid: Option<Uid>,
    addresses: Arc<[Address]>,
    /// Resource version of the object.
    version: Option<u64>,
}

/// A confirmed write.
#[derive(Clone, Copy, Debug)]
struct Written {
    at: Instant,
    /// Resource version after the write.
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
    /// Processes a change of an Ingress.
    pub(super) fn take(&mut self, change: IngressChange, now: Instant) {
        match change {
            IngressChange::Seen { name, uid, addresses, version, .. } => {
                // Shares the allocation: nearly all Ingresses have the desired addresses.
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

    /// Sets the desired addresses of all served Ingresses. Returns whether they changed. While they
    /// are empty, nothing is written.
    pub(super) fn want(&mut self, addresses: Vec<Address>) -> bool {
        if *self.wanted == *addresses {
            return false;
        }
        self.wanted = addresses.into();
        self.look_at_all();
        true
    }

    /// Returns the desired addresses.
    pub(super) fn wanted(&self) -> &Arc<[Address]> {
        &self.wanted
    }

    /// Suspects every status, without counting contests: another replica wrote meanwhile, or the
    /// desired addresses changed.
    pub(super) fn look_at_all(&mut self) {
        for entry in self.entries.values_mut() {
            (entry.writing, entry.written, entry.contests, entry.not_before) = (false, None, 0, None);
        }
        self.contested.clear();
        self.suspects = self.entries.keys().cloned().collect();
    }

    /// Returns the writes that are due, and the time at which others become due.
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
                // The watch may show the write before it is confirmed. How long it lasts is not
                // known yet.
                None if entry.writing => {}
                None if !differs => {
                    // The status lasted for as long as the next write would have waited.
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

    /// Marks a write as in progress and returns it. `None` if it is no longer due.
    pub(super) fn begin(&mut self, name: &NamespacedName, now: Instant) -> Option<Write> {
        let entry = self.entries.get_mut(name).filter(|entry| entry.served && !entry.writing)?;
        let seen = entry.seen.as_ref().filter(|seen| *seen.addresses != *self.wanted)?;
        if self.wanted.is_empty() || entry.not_before.is_some_and(|at| at > now) {
            return None;
        }
        entry.writing = true;
        Some(Write { name: name.clone(), uid: seen.uid.clone(), addresses: self.wanted.clone() })
    }

    /// Records a confirmed write.
    pub(super) fn written(&mut self, write: &Write, version: Option<u64>, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&write.name) {
            entry.writing = false;
            // A write to a previous object of that name, or of addresses that are no longer
            // desired, proves nothing.
            let seen = entry.seen.as_ref().filter(|seen| seen.uid == write.uid);
            if let Some(seen) = seen.filter(|_| write.addresses == self.wanted) {
                let written = Written { at: now, version };
                // The watch may show another writer's next version before the confirmation of this
                // write arrives.
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

    /// Postpones a write that was refused or dropped until `at`. Does not count as a contest.
    pub(super) fn postpone(&mut self, name: &NamespacedName, at: Instant) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.writing = false;
            entry.not_before = Some(at);
            self.suspects.insert(name.clone());
        }
    }

    /// Records that the Ingress of a write no longer exists, and postpones further writes to it
    /// until `at`. Has no effect on an Ingress of the same name that was created since: it arrives
    /// through the watch, before or after this.
    pub(super) fn gone(&mut self, write: &Write, at: Instant) {
        let seen = self.entries.get(&write.name).and_then(|entry| entry.seen.as_ref());
        if seen.is_some_and(|seen| seen.uid == write.uid) {
            self.postpone(&write.name, at);
        }
    }

    /// Returns the Ingresses whose status does not stay as written.
    pub(super) fn contested(&self) -> impl ExactSizeIterator<Item = &NamespacedName> {
        self.contested.iter()
    }

    /// Returns the most frequent non-empty status among served Ingresses.
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

    /// Returns writes that clear the Ingresses whose status is exactly the desired one. For the end
    /// of the last replica.
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
    /// Counts a contest. Returns whether it is to be reported as a problem.
    fn contest(&mut self, written: Written, now: Instant) -> bool {
        let lasted = now >= written.at + LONGEST.max(wait(self.contests));
        self.contests = if lasted { 1 } else { self.contests.saturating_add(1) };
        self.not_before = Some(written.at + wait(self.contests));
        self.contests >= CONTESTED
    }
}

/// Returns the wait between writes after this many contests.
fn wait(contests: u32) -> Duration {
    FIRST.saturating_mul(1 << contests.saturating_sub(1).min(10)).min(LONGEST)
}

#[cfg(test)]
mod tests;
