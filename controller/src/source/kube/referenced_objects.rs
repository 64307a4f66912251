//! The referenced Secrets and ConfigMaps. Only these are kept of everything that their watches
//! deliver. An object is requested by name if it was delivered before it was referenced, or if
//! other fields are needed than were kept.
//!
//! Each request has a number. If an object is released and referenced again during a request, it is
//! requested again, and the first response is ignored: it may be older than a later event of the
//! object.

use std::collections::HashMap;

use super::failure::WatchFailure;
use crate::store::{DataFields, ObjectKey};

/// The referenced objects.
#[derive(Debug, Default)]
pub(super) struct ReferencedObjects {
    objects: HashMap<ObjectKey, (DataFields, State)>,
    /// Number of the last request by name.
    asked: u64,
}

/// Identifies a request by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Number(u64);

/// The consequences of a new reference.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Want {
    /// Request to send, if the object must be requested by name.
    pub(super) question: Option<Number>,
    /// Request that is no longer needed.
    pub(super) dropped: Option<Number>,
}

/// The state of a referenced object.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// The watch delivers it.
    Watched,
    /// Requested by name, without a usable response so far.
    Requested { number: Number, failure: Option<WatchFailure> },
}

impl ReferencedObjects {
    /// Records that an object is referenced and which fields are needed. `seen` means that the
    /// watch may have delivered the object before.
    pub(super) fn want(&mut self, key: &ObjectKey, fields: DataFields, seen: bool) -> Want {
        if self.fields(key) == Some(&fields) {
            return Want::default();
        }
        let question = seen.then(|| {
            self.asked += 1;
            Number(self.asked)
        });
        let state = question.map_or(State::Watched, |number| State::Requested { number, failure: None });
        let old = self.objects.insert(key.clone(), (fields, state));
        Want { question, dropped: old.and_then(|(_, state)| state.number()) }
    }

    /// Returns the fields that are needed of an object; `None` if it is not referenced.
    pub(super) fn fields(&self, key: &ObjectKey) -> Option<&DataFields> {
        self.objects.get(key).map(|(fields, _)| fields)
    }

    /// Removes a reference. Returns the request for the object that is no longer needed, if any.
    pub(super) fn release(&mut self, key: &ObjectKey) -> Option<Number> {
        self.objects.remove(key).and_then(|(_, state)| state.number())
    }

    /// Records an event of the watch. Returns `None` if the object is not referenced, else the
    /// request that is no longer needed, if any: its response would be older, or arrives by the
    /// watch as well.
    pub(super) fn watched(&mut self, key: &ObjectKey) -> Option<Option<Number>> {
        let (_, state) = self.objects.get_mut(key)?;
        Some(std::mem::replace(state, State::Watched).number())
    }

    /// Records the response to a request by name. Returns whether the response is still relevant.
    pub(super) fn answer(&mut self, key: &ObjectKey, number: Number) -> bool {
        match self.objects.get_mut(key) {
            Some((_, state @ State::Requested { .. })) if state.is(number) => {
                *state = State::Watched;
                true
            }
            _ => false,
        }
    }

    /// Records a failed request, which is sent again. Returns whether it is still relevant.
    pub(super) fn fail(&mut self, key: &ObjectKey, of: Number, new: WatchFailure) -> bool {
        match self.objects.get_mut(key) {
            Some((_, State::Requested { number, failure })) if *number == of => {
                *failure = Some(new);
                true
            }
            _ => false,
        }
    }

    /// Returns the failures of pending requests.
    pub(super) fn faults(&self) -> impl Iterator<Item = (&ObjectKey, &WatchFailure)> {
        self.objects.iter().filter_map(|(key, (_, state))| match state {
            State::Requested { failure: Some(failure), .. } => Some((key, failure)),
            _ => None,
        })
    }
}

impl State {
    fn number(self) -> Option<Number> {
        match self {
            Self::Watched => None,
            Self::Requested { number, .. } => Some(number),
        }
    }

    fn is(&self, of: Number) -> bool {
        matches!(self, Self::Requested { number, .. } if *number == of)
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::NamespacedName;

    use super::*;
    use crate::store::Kind;

    fn name() -> ObjectKey {
        ObjectKey { kind: Kind::Secret, name: NamespacedName::new("n", "tls") }
    }

    fn want(referenced: &mut ReferencedObjects, seen: bool) -> Option<Number> {
        referenced.want(&name(), DataFields::All, seen).question
    }

    #[test]
    fn objects_needed_before_the_watch_arrive_with_it() {
        let mut referenced = ReferencedObjects::default();
        assert_eq!(referenced.watched(&name()), None, "nothing refers to it");
        assert_eq!(want(&mut referenced, false), None);
        assert_eq!(referenced.watched(&name()), Some(None));
        assert_eq!(referenced.release(&name()), None);
        assert_eq!(referenced.watched(&name()), None);
    }

    #[test]
    fn objects_needed_later_are_fetched_once_unless_the_watch_has_them() {
        let mut referenced = ReferencedObjects::default();
        let number = want(&mut referenced, true).unwrap();
        assert_eq!(want(&mut referenced, true), None);
        assert!(referenced.answer(&name(), number));
        assert!(!referenced.answer(&name(), number), "answered already");
        assert_eq!(referenced.release(&name()), None);
        assert!(!referenced.answer(&name(), number), "released meanwhile");
        let number = want(&mut referenced, true).unwrap();
        assert_eq!(referenced.watched(&name()), Some(Some(number)));
        assert!(!referenced.answer(&name(), number), "the watch was faster");
    }

    #[test]
    fn the_answer_to_a_question_from_before_a_release_does_not_count() {
        let mut referenced = ReferencedObjects::default();
        let first = want(&mut referenced, true).unwrap();
        assert_eq!(referenced.release(&name()), Some(first));
        let second = want(&mut referenced, true).unwrap();
        assert!(!referenced.answer(&name(), first));
        assert!(!referenced.fail(&name(), first, WatchFailure::Unauthorized));
        assert!(referenced.answer(&name(), second));
    }

    #[test]
    fn a_failed_fetch_is_a_fault_until_resolved_or_released() {
        let mut referenced = ReferencedObjects::default();
        let fail = |referenced: &mut ReferencedObjects| {
            referenced.release(&name());
            let number = want(referenced, true).unwrap();
            assert!(referenced.fail(&name(), number, WatchFailure::Unauthorized));
            assert_eq!(referenced.faults().count(), 1);
            number
        };
        let number = fail(&mut referenced);
        assert!(referenced.answer(&name(), number));
        assert_eq!(referenced.faults().count(), 0);
        fail(&mut referenced);
        referenced.watched(&name());
        assert_eq!(referenced.faults().count(), 0);
        fail(&mut referenced);
        referenced.release(&name());
        assert_eq!(referenced.faults().count(), 0);
    }
    #[test]
    fn other_fields_are_fetched_again() {
        let mut referenced = ReferencedObjects::default();
        let mut want =
            |fields: &[&'static str], seen| referenced.want(&name(), DataFields::named(fields), seen);
        assert_eq!(want(&["a"], false), Want::default(), "comes with the first list");
        let first = want(&["a", "b"], true);
        assert_eq!(want(&["b", "a"], true), Want::default());
        let second = want(&["b"], true);
        assert_eq!(second.dropped, first.question);
        let number = |want: Want| want.question.unwrap();
        let (first, second) = (number(first), number(second));
        assert!(!referenced.answer(&name(), first) && referenced.answer(&name(), second));
        assert_eq!(referenced.fields(&name()), Some(&DataFields::named(&["b"])));
    }
}
