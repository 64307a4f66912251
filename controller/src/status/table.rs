//! Which Ingresses have to be written, as a table without a clock and without a network.
//!
//! What was written is believed only when the watch shows it. Until then, and when somebody else writes something
//! different each time, an Ingress waits ever longer for its next write, so that two writers who disagree are no load.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_config::{NamespacedName, Uid};

use super::IngressChange;
use crate::store::Address;

/// How long the watch may take to show what was written, and the first wait of two writers who disagree.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait between two writes.
const LONGEST: Duration = Duration::from_secs(60);
/// So many writes that did not last are told as a problem.
const CONTESTED: u32 = 5;

/// All Ingresses, and what their status should be.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: HashMap<NamespacedName, Entry>,
    wanted: Arc<[Address]>,
    /// Those that may have another status than they should.
    suspects: HashSet<NamespacedName>,
}

#[derive(Debug, Default)]
struct Entry {
    served: bool,
    seen: Option<Seen>,
    /// Writes that the watch has not shown to last.
    writes: u32,
    /// No write before this.
    not_before: Option<Instant>,
}

#[derive(Debug)]
struct Seen {
    uid: Option<Uid>,
    addresses: Arc<[Address]>,
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
    pub(super) fn take(&mut self, change: IngressChange) {
        match change {
            IngressChange::Seen { name, uid, addresses, .. } => {
                // Nearly all have the same ones.
                let addresses = if *addresses == *self.wanted { self.wanted.clone() } else { addresses };
                let entry = self.entries.entry(name.clone()).or_default();
                entry.seen = Some(Seen { uid, addresses });
                self.suspects.insert(name);
            }
            IngressChange::Gone(name) => {
                if let Some(entry) = self.entries.get_mut(&name) {
                    *entry = Entry { served: entry.served, ..Entry::default() };
                    self.forget_if_idle(&name);
                }
            }
            IngressChange::Served(name, served) => {
                self.entries.entry(name.clone()).or_default().served = served;
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
        for entry in self.entries.values_mut() {
            (entry.writes, entry.not_before) = (0, None);
        }
        self.look_at_all();
        true
    }

    /// What the status of all should be.
    pub(super) fn wanted(&self) -> &Arc<[Address]> {
        &self.wanted
    }

    /// Everything may be other than it should: somebody else has written while we did not.
    pub(super) fn look_at_all(&mut self) {
        self.suspects = self.entries.keys().cloned().collect();
    }

    /// What has to be written now, and when to ask again for the rest.
    pub(super) fn due(&mut self, now: Instant) -> (Vec<Write>, Option<Instant>) {
        let (mut due, mut later) = (Vec::new(), None::<Instant>);
        if self.wanted.is_empty() {
            return (due, None);
        }
        let Self { entries, wanted, suspects } = self;
        suspects.retain(|name| {
            let Some(entry) = entries.get_mut(name) else { return false };
            let Some(seen) = entry.seen.as_ref().filter(|_| entry.served) else { return false };
            if *seen.addresses == **wanted {
                // It has lasted for as long as the next write would have waited.
                if entry.not_before.is_some_and(|at| at <= now) {
                    (entry.writes, entry.not_before) = (0, None);
                }
                return false;
            }
            match entry.not_before.filter(|at| *at > now) {
                Some(at) => later = Some(later.map_or(at, |other| other.min(at))),
                None => {
                    entry.not_before = Some(now + wait(entry.writes));
                    entry.writes = entry.writes.saturating_add(1);
                    let (uid, addresses) = (seen.uid.clone(), wanted.clone());
                    due.push(Write { name: name.clone(), uid, addresses });
                    later = Some(later.map_or(now + FIRST, |other| other.min(now + FIRST)));
                }
            }
            true
        });
        due.sort_by(|one, other| one.name.cmp(&other.name));
        (due, later)
    }

    /// What is due was not written, which says nothing of anybody else: it is due again at `at`.
    pub(super) fn put_back(&mut self, name: &NamespacedName, at: Instant) {
        if let Some(entry) = self.entries.get_mut(name) {
            entry.writes = entry.writes.saturating_sub(1);
            entry.not_before = Some(at);
            self.suspects.insert(name.clone());
        }
    }

    /// The Ingresses whose status does not stay as it was written, with how often it was.
    pub(super) fn contested(&self) -> Vec<(NamespacedName, u32)> {
        let all = self.entries.iter().filter(|(_, entry)| entry.served && entry.writes >= CONTESTED);
        let mut all: Vec<_> = all.map(|(name, entry)| (name.clone(), entry.writes)).collect();
        all.sort();
        all
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

fn wait(writes: u32) -> Duration {
    FIRST.saturating_mul(1 << writes.min(10)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(ips: &[&str]) -> Vec<Address> {
        ips.iter().map(|ip| Address { ip: (*ip).into(), hostname: Box::default() }).collect()
    }

    fn name(name: &str) -> NamespacedName {
        NamespacedName::new("shop", name)
    }

    fn seen(ingress: &str, ips: &[&str]) -> IngressChange {
        let (name, uid) = (name(ingress), Some(Uid::new(ingress)));
        IngressChange::Seen { name, uid, addresses: addresses(ips).into(), edited: true }
    }

    fn table(ingresses: &[&str]) -> Table {
        let mut table = Table::default();
        for ingress in ingresses {
            table.take(seen(ingress, &[]));
            table.take(IngressChange::Served(name(ingress), true));
        }
        table
    }

    fn due(table: &mut Table, now: Instant) -> Vec<String> {
        table.due(now).0.into_iter().map(|write| write.name.name.to_string()).collect()
    }

    #[test]
    fn only_what_is_served_and_differs_is_written_and_once_until_it_is_seen() {
        let now = Instant::now();
        let mut table = table(&["a", "b"]);
        table.take(seen("other", &[]));
        assert!(due(&mut table, now).is_empty(), "no address is known");
        table.want(addresses(&["1.2.3.4"]));
        assert_eq!(due(&mut table, now), ["a", "b"]);
        assert!(due(&mut table, now).is_empty(), "written and not seen yet");
        table.take(seen("a", &["1.2.3.4"]));
        table.take(seen("b", &["1.2.3.4"]));
        assert!(due(&mut table, now + LONGEST).is_empty());
        assert!(!table.want(addresses(&["1.2.3.4"])), "nothing new");
        table.want(addresses(&["1.2.3.4", "5.6.7.8"]));
        assert_eq!(due(&mut table, now + LONGEST), ["a", "b"]);
        table.take(IngressChange::Gone(name("a")));
        table.take(IngressChange::Served(name("b"), false));
        assert!(due(&mut table, now + 3 * LONGEST).is_empty());
        table.take(IngressChange::Served(name("a"), false));
        assert_eq!(table.entries.len(), 2, "what is gone is forgotten");
    }

    #[test]
    fn a_write_that_got_lost_is_repeated() {
        let now = Instant::now();
        let mut table = table(&["a"]);
        table.want(addresses(&["1.2.3.4"]));
        assert_eq!(due(&mut table, now), ["a"]);
        let (none, later) = table.due(now + FIRST / 2);
        assert!(none.is_empty() && later == Some(now + FIRST), "{later:?}");
        assert_eq!(due(&mut table, now + FIRST), ["a"]);
    }

    #[test]
    fn who_writes_against_us_is_answered_ever_more_slowly_and_told() {
        let mut now = Instant::now();
        let mut table = table(&["a"]);
        table.want(addresses(&["1.2.3.4"]));
        let mut waits = Vec::new();
        for _ in 0..10 {
            let begin = now;
            while due(&mut table, now).is_empty() {
                now = table.due(now).1.unwrap();
            }
            waits.push(now - begin);
            table.take(seen("a", &["1.2.3.4"]));
            assert!(due(&mut table, now).is_empty());
            table.take(seen("a", &["9.9.9.9"]));
        }
        assert_eq!(waits[0], Duration::ZERO);
        assert!(waits.windows(2).all(|two| two[0] <= two[1]) && waits[9] == LONGEST, "{waits:?}");
        assert_eq!(table.contested().len(), 1);
        table.take(seen("a", &["1.2.3.4"]));
        assert!(due(&mut table, now + LONGEST).is_empty());
        assert!(table.contested().is_empty(), "it has lasted");
    }

    #[test]
    fn writes_that_were_refused_counted_as_a_fight_with_somebody() {
        let mut now = Instant::now();
        let mut table = table(&["a"]);
        table.want(addresses(&["1.2.3.4"]));
        for _ in 0..3 * CONTESTED {
            assert_eq!(due(&mut table, now), ["a"]);
            table.put_back(&name("a"), now + FIRST);
            assert!(due(&mut table, now).is_empty());
            now += FIRST;
        }
        assert!(table.contested().is_empty());
        assert_eq!(due(&mut table, now), ["a"], "it waits no longer than it was told to");
    }

    #[test]
    fn only_our_own_addresses_are_cleared() {
        let mut table = table(&["a", "b"]);
        table.want(addresses(&["1.2.3.4"]));
        table.take(seen("a", &["1.2.3.4"]));
        table.take(seen("b", &["9.9.9.9"]));
        let cleared: Vec<_> = table.ours().into_iter().map(|write| write.name).collect();
        assert_eq!(cleared, [name("a")]);
    }
}
