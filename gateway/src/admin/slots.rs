//! A limited number of slots for connections. If none is free, the oldest connection is evicted.
//!
//! Slow clients can occupy all slots, but not keep them: a new connection, which usually needs a
//! slot only briefly, evicts the oldest one. A connection is not evicted before it had time to be
//! served. If many connect at once, the excess connections wait until another one has ended or its
//! time has expired.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// How long a connection keeps its slot before it may be evicted.
const KEPT: Duration = Duration::from_millis(100);
/// How long a connection keeps its slot once its document is available: downloading a large
/// document takes longer than a short response.
const READING: Duration = Duration::from_secs(2);

/// The slots.
#[derive(Debug)]
pub(super) struct Slots {
    size: usize,
    inner: Mutex<Inner>,
    /// Notified when a slot becomes free, or the time of an eviction changes.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    next: u64,
    /// Ordered by age.
    taken: BTreeMap<u64, OpenSlot>,
}

#[derive(Debug)]
struct OpenSlot {
    end: Arc<Notify>,
    /// Time after which the connection may be evicted; `None` if it may not.
    may_go: Option<Instant>,
}

/// Permission for one connection; released when dropped.
#[derive(Debug)]
pub(super) struct Slot {
    room: Arc<Slots>,
    number: u64,
    end: Arc<Notify>,
}

/// Signals to a connection that it has lost its slot.
#[derive(Debug)]
pub(super) struct Evicted(Arc<Notify>);

impl Slots {
    pub(super) fn new(size: usize) -> Arc<Self> {
        Arc::new(Self { size, inner: Mutex::default(), changed: Notify::new() })
    }

    /// Waits for a free slot for a new connection.
    pub(super) async fn take(self: &Arc<Self>) -> (Slot, Evicted) {
        let end = Arc::new(Notify::new());
        let slot = self.when_free(|inner| self.enter(inner, end.clone(), Some(Instant::now() + KEPT))).await;
        (slot, Evicted(end))
    }

    /// Exchanges a slot elsewhere for one here, as soon as one is free. The connection cannot be
    /// evicted until [`may_go`](Exchanged::may_go) is called. Returns `None` if `slot` holds none.
    pub(super) async fn take_from(self: &Arc<Self>, slot: &Mutex<Option<Slot>>) -> Option<Exchanged> {
        let held = || slot.lock().unwrap_or_else(PoisonError::into_inner);
        let end = held().as_ref()?.end.clone();
        let new = self.when_free(|inner| self.enter(inner, end.clone(), None)).await;
        let exchanged = Exchanged { room: self.clone(), number: new.number };
        *held() = Some(new);
        Some(exchanged)
    }

    /// Waits until a slot is free, and takes it.
    async fn when_free(&self, take: impl Fn(&mut Inner) -> Slot) -> Slot {
        loop {
            // Registered before the check, so that no later change is missed.
            let changed = self.changed.notified();
            let aged = {
                let mut inner = self.lock();
                match inner.make_room(self.size, Instant::now()) {
                    Ok(()) => return take(&mut inner),
                    Err(aged) => aged,
                }
            };
            let aged = async {
                match aged {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = changed => {}
                () = aged => {}
            }
        }
    }

    fn enter(self: &Arc<Self>, inner: &mut Inner, end: Arc<Notify>, may_go: Option<Instant>) -> Slot {
        let number = inner.next;
        inner.next += 1;
        inner.taken.insert(number, OpenSlot { end: end.clone(), may_go });
        Slot { room: self.clone(), number, end }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Poisoning can be ignored: the state is consistent after each statement.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Frees a slot, by eviction if necessary.
    ///
    /// # Errors
    /// No connection may be evicted now; the error is the time at which one may be, if there is
    /// one.
    fn make_room(&mut self, size: usize, now: Instant) -> Result<(), Option<Instant>> {
        if self.taken.len() < size {
            return Ok(());
        }
        let may_go = |taken: &OpenSlot| taken.may_go.is_some_and(|at| at <= now);
        let first = self.taken.iter().find(|(_, taken)| may_go(taken)).map(|(number, _)| *number);
        match first.and_then(|number| self.taken.remove(&number)) {
            Some(taken) => {
                taken.end.notify_one();
                Ok(())
            }
            None => Err(self.taken.values().filter_map(|taken| taken.may_go).min()),
        }
    }
}

/// A slot that cannot be evicted for now.
#[derive(Debug)]
pub(super) struct Exchanged {
    room: Arc<Slots>,
    number: u64,
}

impl Exchanged {
    /// Starts the download: after [`READING`], the connection may be evicted.
    pub(super) fn may_go(self) {
        if let Some(taken) = self.room.lock().taken.get_mut(&self.number) {
            taken.may_go = Some(Instant::now() + READING);
        }
        self.room.changed.notify_waiters();
    }
}

impl Evicted {
    /// Waits until the slot is lost.
    pub(super) async fn wait(&self) {
        self.0.notified().await;
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.room.lock().taken.remove(&self.number);
        self.room.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn is_gone(evicted: &Evicted) -> bool {
        evicted.wait().now_or_never().is_some()
    }

    #[tokio::test]
    async fn the_oldest_connection_is_evicted() {
        let room = Slots::new(2);
        let (first, one) = room.take().await;
        let (second, two) = room.take().await;
        drop(second);
        let (_third, three) = room.take().await;
        assert!(!is_gone(&one) && !is_gone(&three), "there was room");
        let (_fourth, _) = room.take().await;
        assert!(is_gone(&one) && !is_gone(&two) && !is_gone(&three));
        drop(first);
        let (_fifth, _) = room.take().await;
        assert!(is_gone(&three), "the place of one that has gone counts once");
    }

    #[tokio::test]
    async fn no_connection_is_evicted_before_it_could_be_served() {
        let room = Slots::new(1);
        let came = Instant::now();
        let (slot, one) = room.take().await;
        let mut next = Box::pin(room.take());
        let at_once = next.as_mut().now_or_never();
        if came.elapsed() < KEPT {
            assert!(at_once.is_none() && !is_gone(&one), "it has only come");
        }
        drop((slot, at_once, next));
        let came = Instant::now();
        let (_place, two) = room.take().await;
        let (_other, _) = room.take().await;
        assert!(is_gone(&two) && came.elapsed() >= KEPT, "it was given its time");
    }

    #[tokio::test]
    async fn a_client_that_waits_for_a_document_is_not_evicted_for_another() {
        let (short, long) = (Slots::new(1), Slots::new(1));
        let (slot, one) = short.take().await;
        let held = Mutex::new(Some(slot));
        let kept = long.take_from(&held).await.unwrap();
        let (other, two) = short.take().await;
        assert!(!is_gone(&one), "it left its place");
        let other = Mutex::new(Some(other));
        {
            let mut waits = Box::pin(long.take_from(&other));
            assert!(waits.as_mut().now_or_never().is_none(), "none may be evicted");
            let printed = Instant::now();
            kept.may_go();
            assert!(waits.await.is_some(), "it heard of that");
            assert!(
                printed.elapsed() >= READING,
                "a client that reads a large document was cut off by the next one"
            );
        }
        assert!(is_gone(&one) && !is_gone(&two));
    }
}
