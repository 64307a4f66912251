//! Which Secrets and ConfigMaps are wanted. Of all that a watch of those brings, only those are kept that something
//! refers to; one that is referred to later than it was seen, or of which other fields are needed than were kept, is
//! asked for by name.
//!
//! A question has a number. An object that is released and wanted again while a question is under way is asked for
//! again, and the answer to the earlier question counts for nothing: it may be older than what has become of the
//! object since.

use std::collections::HashMap;

use super::failure::WatchFailure;
use crate::store::{Fields, ObjectKey};

/// Objects that something refers to.
#[derive(Debug, Default)]
pub(super) struct Interest {
    objects: HashMap<ObjectKey, (Fields, State)>,
    /// The number of the last question.
    asked: u64,
}

/// Names a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Number(u64);

/// What follows from a wish.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Want {
    /// It has to be asked for.
    pub(super) question: Option<Number>,
    /// This question need not be answered any more.
    pub(super) dropped: Option<Number>,
}

/// What is known of one.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// The watch has it.
    Watched,
    /// Asked for by name, so far without an answer that can be used.
    Asked { number: Number, failure: Option<WatchFailure> },
}

impl Interest {
    /// Something refers to it now, and needs these fields. `seen` says that the watch may have had it before.
    pub(super) fn want(&mut self, key: &ObjectKey, fields: Fields, seen: bool) -> Want {
        if self.fields(key) == Some(&fields) {
            return Want::default();
        }
        let question = seen.then(|| {
            self.asked += 1;
            Number(self.asked)
        });
        let state = question.map_or(State::Watched, |number| State::Asked { number, failure: None });
        let old = self.objects.insert(key.clone(), (fields, state));
        Want { question, dropped: old.and_then(|(_, state)| state.number()) }
    }

    /// The fields that are needed of it; none where nothing refers to it.
    pub(super) fn fields(&self, key: &ObjectKey) -> Option<&Fields> {
        self.objects.get(key).map(|(fields, _)| fields)
    }

    /// Nothing refers to it any more. Returns the request for it that is no longer needed, if there is one.
    pub(super) fn release(&mut self, key: &ObjectKey) -> Option<Number> {
        self.objects.remove(key).and_then(|(_, state)| state.number())
    }

    /// The watch has an event about it; none when nothing refers to it. With the question that need not be
    /// answered now: its answer would be older, or comes by the watch as well.
    pub(super) fn tell(&mut self, key: &ObjectKey) -> Option<Option<Number>> {
        let (_, state) = self.objects.get_mut(key)?;
        Some(std::mem::replace(state, State::Watched).number())
    }

    /// The answer to a question. True when it counts.
    pub(super) fn answer(&mut self, key: &ObjectKey, number: Number) -> bool {
        match self.objects.get_mut(key) {
            Some((_, state @ State::Asked { .. })) if state.is(number) => {
                *state = State::Watched;
                true
            }
            _ => false,
        }
    }

    /// A question could not be answered, and is asked again. True when that counts.
    pub(super) fn fail(&mut self, key: &ObjectKey, of: Number, new: WatchFailure) -> bool {
        match self.objects.get_mut(key) {
            Some((_, State::Asked { number, failure })) if *number == of => {
                *failure = Some(new);
                true
            }
            _ => false,
        }
    }

    /// What keeps questions from being answered.
    pub(super) fn faults(&self) -> impl Iterator<Item = (&ObjectKey, &WatchFailure)> {
        self.objects.iter().filter_map(|(key, (_, state))| match state {
            State::Asked { failure: Some(failure), .. } => Some((key, failure)),
            _ => None,
        })
    }
}

impl State {
    fn number(self) -> Option<Number> {
        match self {
            Self::Watched => None,
            Self::Asked { number, .. } => Some(number),
        }
    }

    fn is(&self, of: Number) -> bool {
        matches!(self, Self::Asked { number, .. } if *number == of)
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

    fn want(interest: &mut Interest, seen: bool) -> Option<Number> {
        interest.want(&name(), Fields::All, seen).question
    }

    #[test]
    fn what_is_wanted_before_the_watch_began_comes_with_it() {
        let mut interest = Interest::default();
        assert_eq!(interest.tell(&name()), None, "nothing refers to it");
        assert_eq!(want(&mut interest, false), None);
        assert_eq!(interest.tell(&name()), Some(None));
        assert_eq!(interest.release(&name()), None);
        assert_eq!(interest.tell(&name()), None);
    }

    #[test]
    fn what_is_wanted_later_is_asked_for_once_and_the_watch_knows_better() {
        let mut interest = Interest::default();
        let number = want(&mut interest, true).unwrap();
        assert_eq!(want(&mut interest, true), None);
        assert!(interest.answer(&name(), number));
        assert!(!interest.answer(&name(), number), "answered already");
        assert_eq!(interest.release(&name()), None);
        assert!(!interest.answer(&name(), number), "released meanwhile");
        let number = want(&mut interest, true).unwrap();
        assert_eq!(interest.tell(&name()), Some(Some(number)));
        assert!(!interest.answer(&name(), number), "the watch was faster");
    }

    #[test]
    fn the_answer_to_a_question_from_before_a_release_does_not_count() {
        let mut interest = Interest::default();
        let first = want(&mut interest, true).unwrap();
        assert_eq!(interest.release(&name()), Some(first));
        let second = want(&mut interest, true).unwrap();
        assert!(!interest.answer(&name(), first));
        assert!(!interest.fail(&name(), first, WatchFailure::Unauthorized));
        assert!(interest.answer(&name(), second));
    }

    #[test]
    fn a_failed_question_is_a_fault_until_it_is_answered_released_or_told_by_the_watch() {
        let mut interest = Interest::default();
        let fail = |interest: &mut Interest| {
            interest.release(&name());
            let number = want(interest, true).unwrap();
            assert!(interest.fail(&name(), number, WatchFailure::Unauthorized));
            assert_eq!(interest.faults().count(), 1);
            number
        };
        let number = fail(&mut interest);
        assert!(interest.answer(&name(), number));
        assert_eq!(interest.faults().count(), 0);
        fail(&mut interest);
        interest.tell(&name());
        assert_eq!(interest.faults().count(), 0);
        fail(&mut interest);
        interest.release(&name());
        assert_eq!(interest.faults().count(), 0);
    }
    #[test]
    fn other_fields_are_asked_for_anew() {
        let mut interest = Interest::default();
        let mut want = |fields: &[&'static str], seen| interest.want(&name(), Fields::named(fields), seen);
        assert_eq!(want(&["a"], false), Want::default(), "comes with the first list");
        let first = want(&["a", "b"], true);
        assert_eq!(want(&["b", "a"], true), Want::default());
        let second = want(&["b"], true);
        assert_eq!(second.dropped, first.question);
        let number = |want: Want| want.question.unwrap();
        let (first, second) = (number(first), number(second));
        assert!(!interest.answer(&name(), first) && interest.answer(&name(), second));
        assert_eq!(interest.fields(&name()), Some(&Fields::named(&["b"])));
    }
}
