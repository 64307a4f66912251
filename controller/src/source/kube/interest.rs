//! Which Secrets are wanted. Of all that a watch of Secrets brings, only those are kept that something refers
//! to; one that is referred to later than it was seen is asked for by name.

use std::collections::HashMap;

use sluice_config::NamespacedName;

/// Secrets that something refers to.
#[derive(Debug, Default)]
pub(super) struct Interest(HashMap<NamespacedName, State>);

/// What is known of one.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// The watch tells.
    Watched,
    /// Asked for by name.
    Asked,
}

impl Interest {
    /// Something refers to it now. True when it has to be asked for: `seen` says that the watch may have had it
    /// before.
    pub(super) fn want(&mut self, name: &NamespacedName, seen: bool) -> bool {
        if self.0.contains_key(name) {
            return false;
        }
        self.0.insert(name.clone(), if seen { State::Asked } else { State::Watched });
        seen
    }

    /// Nothing refers to it any more.
    pub(super) fn release(&mut self, name: &NamespacedName) {
        self.0.remove(name);
    }

    /// The watch says something about it. True when somebody wants to know.
    pub(super) fn tell(&mut self, name: &NamespacedName) -> bool {
        match self.0.get_mut(name) {
            Some(state) => {
                // What was asked for is older, or comes by the watch as well.
                *state = State::Watched;
                true
            }
            None => false,
        }
    }

    /// The answer to what was asked. True when it counts.
    pub(super) fn answer(&mut self, name: &NamespacedName) -> bool {
        match self.0.get_mut(name) {
            Some(state) => std::mem::replace(state, State::Watched) == State::Asked,
            None => false,
        }
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
        assert!(!interest.tell(&name()), "nobody wants it");
        assert!(!interest.want(&name(), false));
        assert!(interest.tell(&name()));
        interest.release(&name());
        assert!(!interest.tell(&name()));
    }

    #[test]
    fn what_is_wanted_later_is_asked_for_once_and_the_watch_knows_better() {
        let mut interest = Interest::default();
        assert!(interest.want(&name(), true));
        assert!(!interest.want(&name(), true));
        assert!(interest.answer(&name()));
        assert!(!interest.answer(&name()), "answered already");
        interest.release(&name());
        assert!(!interest.answer(&name()), "released meanwhile");
        assert!(interest.want(&name(), true));
        assert!(interest.tell(&name()));
        assert!(!interest.answer(&name()), "the watch was faster");
    }
}
