//! Which objects a watch has given, with their versions. This is what lets a list be taken in without clearing
//! anything: what it brings anew is passed on at once, what is as before is dropped here, and only when the
//! list is whole is something taken for gone that it did not have.

use std::num::NonZero;

use sluice_config::{ByKey, Keyed, NamespacedName};

use crate::store::Object;

/// A resource version. API servers compare them as numbers; one that is no number is never equal to any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(Option<NonZero<u64>>);

/// The objects of one watch.
#[derive(Debug, Default)]
pub(super) struct Known {
    objects: ByKey<Entry>,
    /// Counts lists; an entry carries the number of the last one that had it.
    list: u32,
}

#[derive(Debug)]
struct Entry {
    object: Object,
    version: Version,
    list: u32,
}

impl Version {
    pub(super) fn of(text: Option<&str>) -> Self {
        Self(text.and_then(|text| text.parse().ok()))
    }

    fn is_news_after(self, known: Self) -> bool {
        match (self.0, known.0) {
            (Some(new), Some(known)) => new > known,
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
    /// A list begins. An earlier one that did not come to its end counts for nothing.
    pub(super) fn begin(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    /// There is an object of this version. False when that is no news: it is known, or something newer is.
    pub(super) fn put(&mut self, object: &Object, version: Version) -> bool {
        let list = self.list;
        match self.objects.get_mut(object.name()) {
            Some(entry) => {
                entry.list = list;
                let news = version.is_news_after(entry.version);
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

    /// An object is gone as of this version. False when it was not there, or has come back since.
    pub(super) fn gone(&mut self, name: &NamespacedName, version: Version) -> bool {
        let Some(entry) = self.objects.get(name) else { return false };
        let news = version.is_news_after(entry.version) || version == entry.version;
        if news {
            self.objects.remove(name);
        }
        news
    }

    /// Nobody wants to know of this object any more. True when it was there.
    pub(super) fn forget(&mut self, name: &NamespacedName) -> bool {
        self.objects.remove(name).is_some()
    }

    /// The list is whole. Gives what it did not have.
    pub(super) fn done(&mut self) -> Vec<NamespacedName> {
        let list = self.list;
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
        let spec = Service { name: name(object), external_name: None, ports: Box::default() };
        Object::Service(Arc::new(spec))
    }

    fn version(number: u64) -> Version {
        Version::of(Some(&number.to_string()))
    }

    #[test]
    fn a_second_list_brings_what_is_new_and_takes_what_is_gone_at_its_end() {
        let mut known = Known::default();
        known.begin();
        assert!(known.put(&object("a"), version(1)) && known.put(&object("b"), version(2)));
        assert_eq!(known.done(), []);
        known.begin();
        assert!(!known.put(&object("a"), version(1)), "unchanged");
        // The list breaks off and begins anew: nothing is gone by that.
        known.begin();
        assert!(known.put(&object("a"), version(5)));
        assert!(known.put(&object("c"), version(4)));
        assert_eq!(known.done(), [name("b")]);
        assert_eq!(known.done(), []);
    }

    #[test]
    fn what_is_older_than_what_is_known_is_no_news_but_still_there() {
        let mut known = Known::default();
        assert!(known.put(&object("a"), version(7)));
        known.begin();
        assert!(!known.put(&object("a"), version(6)));
        assert!(!known.gone(&name("a"), version(5)));
        assert_eq!(known.done(), []);
        assert!(known.gone(&name("a"), version(8)));
        assert!(!known.gone(&name("a"), version(9)));
    }

    #[test]
    fn versions_that_are_no_numbers_are_always_news() {
        let mut known = Known::default();
        let odd = Version::of(Some("x1"));
        assert!(known.put(&object("a"), odd) && known.put(&object("a"), odd));
        assert!(known.gone(&name("a"), odd));
    }
}
