//! Room for a number of connections. Where there is none, the one that came first goes.
//!
//! Whoever is slow on purpose can fill any number of places; but nobody can keep one from those who come after and
//! need it for a moment only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The room.
#[derive(Debug)]
pub(super) struct Places {
    size: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    /// By the order in which they came.
    taken: BTreeMap<u64, Taken>,
}

#[derive(Debug)]
struct Taken {
    end: Arc<Notify>,
    /// Whether it may go for another.
    may_go: bool,
}

/// One of the places; free when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    room: Arc<Places>,
    number: u64,
    end: Arc<Notify>,
}

/// Tells a connection that it has lost its place.
#[derive(Debug)]
pub(super) struct Evicted(Arc<Notify>);

impl Places {
    pub(super) fn new(size: usize) -> Arc<Self> {
        Arc::new(Self { size, inner: Mutex::default() })
    }

    /// A place for a new connection.
    pub(super) fn take(self: &Arc<Self>) -> (Place, Evicted) {
        let end = Arc::new(Notify::new());
        let mut inner = self.lock();
        // All of them may go.
        inner.make_room(self.size);
        (self.enter(&mut inner, end.clone(), true), Evicted(end))
    }

    /// A place here in exchange for one elsewhere. It is kept until [`may_go`](Exchanged::may_go); `None` where all
    /// are kept.
    pub(super) fn take_from(self: &Arc<Self>, place: &Mutex<Option<Place>>) -> Option<Exchanged> {
        let mut held = place.lock().unwrap_or_else(PoisonError::into_inner);
        let end = held.as_ref()?.end.clone();
        let mut inner = self.lock();
        if !inner.make_room(self.size) {
            return None;
        }
        let new = self.enter(&mut inner, end, false);
        drop(inner);
        let exchanged = Exchanged { room: self.clone(), number: new.number };
        *held = Some(new);
        Some(exchanged)
    }

    fn enter(self: &Arc<Self>, inner: &mut Inner, end: Arc<Notify>, may_go: bool) -> Place {
        let number = inner.next;
        inner.next += 1;
        inner.taken.insert(number, Taken { end: end.clone(), may_go });
        Place { room: self.clone(), number, end }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Whole after every statement.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Whether there is room for one more, by whatever goes for it.
    fn make_room(&mut self, size: usize) -> bool {
        if self.taken.len() < size {
            return true;
        }
        let first = self.taken.iter().find(|(_, taken)| taken.may_go).map(|(number, _)| *number);
        let gone = first.and_then(|number| self.taken.remove(&number));
        gone.map(|taken| taken.end.notify_one()).is_some()
    }
}

/// A place that is kept for the time being.
#[derive(Debug)]
pub(super) struct Exchanged {
    room: Arc<Places>,
    number: u64,
}

impl Exchanged {
    /// From now on it may go for another.
    pub(super) fn may_go(self) {
        if let Some(taken) = self.room.lock().taken.get_mut(&self.number) {
            taken.may_go = true;
        }
    }
}

impl Evicted {
    /// Until it has.
    pub(super) async fn wait(&self) {
        self.0.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.lock().taken.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn is_gone(evicted: &Evicted) -> bool {
        evicted.wait().now_or_never().is_some()
    }

    #[test]
    fn who_came_first_makes_room() {
        let room = Places::new(2);
        let (first, one) = room.take();
        let (second, two) = room.take();
        drop(second);
        let (_third, three) = room.take();
        assert!(!is_gone(&one) && !is_gone(&three), "there was room");
        let (_fourth, _) = room.take();
        assert!(is_gone(&one) && !is_gone(&two) && !is_gone(&three));
        drop(first);
        let (_fifth, _) = room.take();
        assert!(is_gone(&three), "the place of one that has gone counts once");
    }

    #[test]
    fn who_waits_for_a_document_is_not_put_out_for_another() {
        let (short, long) = (Places::new(1), Places::new(1));
        let (place, one) = short.take();
        let held = Mutex::new(Some(place));
        let kept = long.take_from(&held).unwrap();
        let (other, two) = short.take();
        assert!(!is_gone(&one), "it left its place");
        let other = Mutex::new(Some(other));
        assert!(long.take_from(&other).is_none(), "nobody may go");
        kept.may_go();
        assert!(long.take_from(&other).is_some());
        assert!(is_gone(&one) && !is_gone(&two));
    }
}
