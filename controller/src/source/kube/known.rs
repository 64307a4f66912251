//! The objects that a watch has delivered, with their versions. They allow a list to be processed
//! without clearing anything: new and changed objects are passed on at once, unchanged ones are
//! dropped here, and only when the list is complete are missing ones removed.
//!
//! A list is read from the latest state, so its content applies whether versions are higher or
//! lower than before: after a restore of etcd they are lower. Between lists versions only increase,
//! and an event with a lower version is outdated.

use std::collections::BTreeMap;
use std::num::NonZero;

use sluice_config::{ByKey, Keyed, NamespacedName};

use crate::store::Object;

/// A resource version. API servers compare versions as numbers. One that is not a number equals no
/// other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(Option<NonZero<u64>>);

/// The objects of one watch.
#[derive(Debug, Default)]
pub(super) struct Known {
    objects: ByKey<Entry>,
    /// Objects that were unreadable when last seen, with the number of the list that contained
    /// them.
    unreadable: BTreeMap<NamespacedName, u32>,
    /// Whether an object had not even a readable name.
    nameless: bool,
    /// Number of the current list. Each entry has the number of the last list that contained it.
    list: u32,
    /// Whether that list is in progress.
    listing: bool,
}

#[derive(Debug)]
struct Entry {
    object: Object,
    version: Version,
    list: u32,
}

impl Version {
    pub(super) fn of(text: &str) -> Self {
        Self(text.parse().ok())
    }

    /// Returns whether it is known to be lower than `other`.
    pub(super) fn is_before(self, other: Self) -> bool {
        matches!((self.0, other.0), (Some(this), Some(other)) if this < other)
    }

    fn is_newer_than(self, known: Self) -> bool {
        match (self.0, known.0) {
            (Some(new), Some(known)) => new > known,
            _ => true,
        }
    }

    fn is_other_than(self, known: Self) -> bool {
        match (self.0, known.0) {
            (Some(new), Some(known)) => new != known,
            _ => true,
        }
    }
}

impl Keyed for Entry {
    type Key = NamespacedName;

    fn key(&self) -> &NamespacedName {
        self.object.name()
    }
}

impl Known {
    /// Begins a list. An unfinished earlier list is discarded.
    pub(super) fn begin(&mut self) {
        self.list = self.list.wrapping_add(1);
        self.listing = true;
        self.nameless = false;
    }

    /// Records an object with its version. Returns false if this or a newer version is known
    /// already.
    pub(super) fn put(&mut self, object: &Object, version: Version) -> bool {
        let list = self.list;
        self.unreadable.remove(object.name());
        match self.objects.get_mut(object.name()) {
            Some(entry) => {
                // The list must not revert what it, or a request since it began, has delivered
                // already.
                let listed = self.listing && entry.list != list;
                entry.list = list;
                let news = match listed {
                    true => version.is_other_than(entry.version),
                    false => version.is_newer_than(entry.version),
                };
                if news {
                    entry.object = object.clone();
                    entry.version = version;
                }
                news
            }
            None => {
                self.objects.insert(Entry { object: object.clone(), version, list });
                true
            }
        }
    }

    /// Records an unreadable object; `None` if its name is unreadable too. The object keeps its
    /// previous state.
    pub(super) fn unreadable(&mut self, name: Option<&NamespacedName>) {
        let Some(name) = name else {
            self.nameless = true;
            return;
        };
        if let Some(entry) = self.objects.get_mut(name) {
            entry.list = self.list;
        }
        self.unreadable.insert(name.clone(), self.list);
    }

    /// Returns the unreadable objects, and whether one has no readable name.
    pub(super) fn faults(&self) -> (impl Iterator<Item = &NamespacedName>, bool) {
        (self.unreadable.keys(), self.nameless)
    }

    /// Returns whether there are no objects.
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns whether an object is unreadable.
    pub(super) fn has_faults(&self) -> bool {
        self.nameless || !self.unreadable.is_empty()
    }

    /// Records that an object exists, without the fields that are needed of it.
    pub(super) fn seen(&mut self, name: &NamespacedName) {
        if let Some(entry) = self.objects.get_mut(name) {
            entry.list = self.list;
        }
    }

    /// Marks an object of which other fields are needed: its next event applies, whatever its
    /// version.
    pub(super) fn renew(&mut self, name: &NamespacedName) {
        if let Some(entry) = self.objects.get_mut(name) {
            entry.version = Version(None);
        }
    }

    /// Removes an object as of this version. Returns false if it was absent, or has been created
    /// again since.
    pub(super) fn gone(&mut self, name: &NamespacedName, version: Version) -> bool {
        self.unreadable.remove(name);
        let Some(entry) = self.objects.get(name) else { return false };
        let news = version.is_newer_than(entry.version) || version == entry.version;
        if news {
            self.objects.remove(name);
        }
        news
    }

    /// Removes an object that is no longer referenced. Returns whether it was present.
    pub(super) fn forget(&mut self, name: &NamespacedName) -> bool {
        self.unreadable.remove(name);
        self.objects.remove(name).is_some()
    }

    /// Completes the list. Returns the objects that it did not contain, or none if an entry had no
    /// readable name, because it may be any of them.
    pub(super) fn done(&mut self) -> Vec<NamespacedName> {
        let list = self.list;
        self.listing = false;
        if self.nameless {
            return Vec::new();
        }
        self.unreadable.retain(|_, seen| *seen == list);
        let gone: Vec<NamespacedName> = self
            .objects
            .values()
            .filter(|entry| entry.list != list)
            .map(|entry| entry.object.name().clone())
            .collect();
        for name in &gone {
            self.objects.remove(name);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::store::Service;

    fn name(name: &str) -> NamespacedName {
        NamespacedName::new("n", name)
    }

    fn object(object: &str) -> Object {
        let spec = Service {
            name: name(object),
            identity: Default::default(),
            external_name: None,
            cluster_ip: None,
            ports: Box::default(),
            udp_ports: Box::default(),
        };
        Object::Service(Arc::new(spec))
    }

    fn version(number: u64) -> Version {
        Version::of(&number.to_string())
    }

    #[test]
    fn a_second_list_adds_new_objects_and_removes_missing_ones_last() {
        let mut known = Known::default();
        known.begin();
        assert!(known.put(&object("a"), version(1)) && known.put(&object("b"), version(2)));
        assert_eq!(known.done(), []);
        known.begin();
        assert!(!known.put(&object("a"), version(1)), "unchanged");
        // An interrupted list that starts again removes nothing.
        known.begin();
        assert!(known.put(&object("a"), version(5)));
        assert!(known.put(&object("c"), version(4)));
        assert_eq!(known.done(), [name("b")]);
        assert_eq!(known.done(), []);
    }

    #[test]
    fn an_older_change_is_ignored() {
        let mut known = Known::default();
        assert!(known.put(&object("a"), version(7)));
        assert!(!known.put(&object("a"), version(6)));
        assert!(!known.gone(&name("a"), version(5)));
        assert_eq!(known.done(), []);
        assert!(known.gone(&name("a"), version(8)));
        assert!(!known.gone(&name("a"), version(9)));
    }

    #[test]
    fn after_a_restore_the_lower_versions_of_a_list_are_news() {
        let mut known = Known::default();
        known.begin();
        assert!(known.put(&object("a"), version(70)) && known.put(&object("b"), version(80)));
        known.done();
        known.begin();
        assert!(known.put(&object("a"), version(60)), "lower, and what there is now");
        assert!(!known.put(&object("b"), version(80)));
        assert!(known.put(&object("a"), version(61)), "a change in the midst of the list");
        assert!(!known.put(&object("a"), version(60)), "and not back");
        assert_eq!(known.done(), []);
        assert!(known.gone(&name("a"), version(62)));
    }

    #[test]
    fn a_list_does_not_revert_objects_fetched_meanwhile() {
        let mut known = Known::default();
        known.begin();
        assert!(known.put(&object("a"), version(9)), "the answer to a question");
        assert!(!known.put(&object("a"), version(8)), "the list, which had begun before");
    }

    #[test]
    fn objects_with_other_needed_fields_are_new_and_stay_listed() {
        let mut known = Known::default();
        known.begin();
        assert!(known.put(&object("a"), version(7)));
        known.done();
        known.renew(&name("a"));
        known.begin();
        known.seen(&name("a"));
        assert_eq!(known.done(), []);
        assert!(known.put(&object("a"), version(7)), "of the same version");
        assert!(!known.put(&object("a"), version(7)));
        known.renew(&name("a"));
        assert!(known.gone(&name("a"), Version::of("")));
    }

    #[test]
    fn versions_that_are_no_numbers_are_always_news() {
        let mut known = Known::default();
        let odd = Version::of("x1");
        assert!(known.put(&object("a"), odd) && known.put(&object("a"), odd));
        assert!(known.gone(&name("a"), odd));
        assert!(!odd.is_before(version(1)) && !version(1).is_before(odd));
    }

    #[test]
    fn an_unreadable_object_keeps_its_state_until_readable_or_deleted() {
        let names = |known: &Known| known.faults().0.cloned().collect::<Vec<_>>();
        let mut known = Known::default();
        known.begin();
        known.put(&object("a"), version(1));
        known.put(&object("b"), version(2));
        known.done();
        known.begin();
        known.unreadable(Some(&name("a")));
        known.unreadable(Some(&name("c")));
        known.put(&object("b"), version(2));
        assert_eq!(known.done(), [], "there, though it cannot be decoded");
        assert_eq!(names(&known), [name("a"), name("c")]);
        assert!(known.put(&object("a"), version(3)));
        assert_eq!(names(&known), [name("c")]);
        known.unreadable(Some(&name("b")));
        assert!(known.gone(&name("b"), version(4)));
        assert_eq!(names(&known), [name("c")]);
        known.begin();
        known.put(&object("a"), version(3));
        assert_eq!(known.done(), []);
        assert!(!known.has_faults(), "the list does not have it any more");
    }

    #[test]
    fn a_list_with_a_nameless_object_removes_nothing() {
        let mut known = Known::default();
        known.put(&object("a"), version(1));
        known.begin();
        known.unreadable(None);
        assert_eq!(known.done(), []);
        assert!(known.has_faults());
        known.begin();
        assert_eq!(known.done(), [name("a")]);
        assert!(!known.has_faults());
    }
}
