//! Which Secrets are wanted. Of all that a watch of Secrets brings, only those are kept that something refers
//! to; one that is referred to later than it was seen is asked for by name.
//!
//! A question has a number. A Secret that is released and wanted again while a question is under way is asked for
//! again, and the answer to the earlier question counts for nothing: it may be older than what has become of the
//! Secret since.

use std::collections::HashMap;

use sluice_config::NamespacedName;

use super::fault::Fault;

/// Secrets that something refers to.
#[derive(Debug, Default)]
pub(super) struct Interest {
    secrets: HashMap<NamespacedName, State>,
    /// The number of the last question.
    asked: u64,
}

/// Names a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Number(u64);

/// What is known of one.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// The watch tells.
    Watched,
    /// Asked for by name, so far without an answer that can be used.
    Asked { number: Number, fault: Option<Fault> },
}

impl Interest {
    /// Something refers to it now. A number when it has to be asked for: `seen` says that the watch may have had
    /// it before.
    pub(super) fn want(&mut self, name: &NamespacedName, seen: bool) -> Option<Number> {
        if self.secrets.contains_key(name) {
            return None;
        }
        if !seen {
            self.secrets.insert(name.clone(), State::Watched);
            return None;
        }
        self.asked += 1;
        let number = Number(self.asked);
        self.secrets.insert(name.clone(), State::Asked { number, fault: None });
        Some(number)
    }

    /// Nothing refers to it any more. The question that nobody has to answer now, if there is one.
    pub(super) fn release(&mut self, name: &NamespacedName) -> Option<Number> {
        self.secrets.remove(name).and_then(State::number)
    }

    /// The watch says something about it; none when nobody wants to know. With the question that need not be
    /// answered now: its answer would be older, or comes by the watch as well.
    pub(super) fn tell(&mut self, name: &NamespacedName) -> Option<Option<Number>> {
        let state = self.secrets.get_mut(name)?;
        Some(std::mem::replace(state, State::Watched).number())
    }

    /// The answer to a question. True when it counts.
    pub(super) fn answer(&mut self, name: &NamespacedName, number: Number) -> bool {
        match self.secrets.get_mut(name) {
            Some(state @ State::Asked { .. }) if state.is(number) => {
                *state = State::Watched;
                true
            }
            _ => false,
        }
    }

    /// A question could not be answered, and is asked again. True when that counts.
    pub(super) fn fail(&mut self, name: &NamespacedName, of: Number, new: Fault) -> bool {
        match self.secrets.get_mut(name) {
            Some(State::Asked { number, fault }) if *number == of => {
                *fault = Some(new);
                true
            }
            _ => false,
        }
    }

    /// What keeps questions from being answered.
    pub(super) fn faults(&self) -> impl Iterator<Item = (&NamespacedName, &Fault)> {
        self.secrets.iter().filter_map(|(name, state)| match state {
            State::Asked { fault: Some(fault), .. } => Some((name, fault)),
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
    use super::*;

    fn name() -> NamespacedName {
        NamespacedName::new("n", "tls")
    }

    #[test]
    fn what_is_wanted_before_the_watch_began_comes_with_it() {
        let mut interest = Interest::default();
        assert_eq!(interest.tell(&name()), None, "nobody wants it");
        assert_eq!(interest.want(&name(), false), None);
        assert_eq!(interest.tell(&name()), Some(None));
        assert_eq!(interest.release(&name()), None);
        assert_eq!(interest.tell(&name()), None);
    }

    #[test]
    fn what_is_wanted_later_is_asked_for_once_and_the_watch_knows_better() {
        let mut interest = Interest::default();
        let number = interest.want(&name(), true).unwrap();
        assert_eq!(interest.want(&name(), true), None);
        assert!(interest.answer(&name(), number));
        assert!(!interest.answer(&name(), number), "answered already");
        assert_eq!(interest.release(&name()), None);
        assert!(!interest.answer(&name(), number), "released meanwhile");
        let number = interest.want(&name(), true).unwrap();
        assert_eq!(interest.tell(&name()), Some(Some(number)));
        assert!(!interest.answer(&name(), number), "the watch was faster");
    }

    #[test]
    fn the_answer_to_a_question_from_before_a_release_does_not_count() {
        let mut interest = Interest::default();
        let first = interest.want(&name(), true).unwrap();
        assert_eq!(interest.release(&name()), Some(first));
        let second = interest.want(&name(), true).unwrap();
        assert!(!interest.answer(&name(), first));
        assert!(!interest.fail(&name(), first, Fault::Unauthorized));
        assert!(interest.answer(&name(), second));
    }

    #[test]
    fn a_failed_question_is_a_fault_until_it_is_answered_released_or_told_by_the_watch() {
        let mut interest = Interest::default();
        let fail = |interest: &mut Interest| {
            interest.release(&name());
            let number = interest.want(&name(), true).unwrap();
            assert!(interest.fail(&name(), number, Fault::Unauthorized));
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
}
