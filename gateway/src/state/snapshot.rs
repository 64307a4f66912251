//! The configuration as a request sees it: one snapshot, taken once and kept until its log line is
//! written.
//!
//! Workers share the published configuration. If requests counted references to it, the count would
//! move between the workers' caches with every request. Each worker therefore wraps a published
//! configuration once, and its requests count references to the wrapper, also for parts of it.

use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use arc_swap::cache::Cache;
use yoke::Yoke;

use crate::state::{Published, State};

/// The published configuration at one moment. A clone changes a count that no other worker uses.
#[derive(Clone)]
pub struct PublishedSnapshot(Arc<Shared>);

struct Shared {
    state: Arc<State>,
    published: Arc<Published>,
}

/// A part of a snapshot, which keeps the snapshot alive.
pub struct SnapshotPart<T: 'static>(Yoke<&'static T, Arc<Shared>>);

/// The last snapshot of this thread.
struct Last {
    newest: Cache<Source, Arc<Published>>,
    snapshot: PublishedSnapshot,
}

/// The source of snapshots for [`Cache`].
struct Source(Arc<State>);

/// Maximum time that an idle worker keeps objects that are gone from the configuration.
const LAG: Duration = Duration::from_secs(1);

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

impl PublishedSnapshot {
    /// Returns a snapshot of the current configuration.
    pub fn take(state: &Arc<State>) -> Self {
        LAST.with_borrow_mut(|last| {
            if let Some(last) = last
                && Arc::ptr_eq(&last.snapshot.0.state, state)
            {
                return last.now();
            }
            let newest = Cache::new(Source(state.clone()));
            let snapshot = Self::of(state, state.published.load_full());
            last.insert(Last { newest, snapshot }).now()
        })
    }

    /// Returns a snapshot that the thread does not keep, for threads that serve no requests.
    pub(crate) fn of_now(state: &Arc<State>) -> Self {
        Self::of(state, state.published.load_full())
    }

    /// Keeps the thread's last snapshot up to date while no request arrives; an old one would keep
    /// objects that are gone, such as metric series. Does not return.
    pub(crate) async fn follow(state: Arc<State>) {
        let mut publications = state.publications.subscribe();
        while publications.changed().await.is_ok() {
            // Collects several changes.
            tokio::time::sleep(LAG).await;
            Self::take(&state);
        }
    }

    fn of(state: &Arc<State>, published: Arc<Published>) -> Self {
        Self(Arc::new(Shared { state: state.clone(), published }))
    }

    /// Returns the state that does not change with the configuration.
    pub(crate) fn state(&self) -> &Arc<State> {
        &self.0.state
    }

    /// Returns the part that `find` selects.
    ///
    /// # Errors
    /// Those of `find`.
    pub(crate) fn hold<T, E>(
        &self,
        find: impl for<'a> FnOnce(&'a Published) -> Result<&'a T, E>,
    ) -> Result<SnapshotPart<T>, E> {
        Yoke::try_attach_to_cart(self.0.clone(), |taken: &Shared| find(&taken.published)).map(SnapshotPart)
    }
}

impl Last {
    fn now(&mut self) -> PublishedSnapshot {
        let newest = self.newest.load();
        if !Arc::ptr_eq(newest, &self.snapshot.0.published) {
            self.snapshot = PublishedSnapshot::of(&self.snapshot.0.state, newest.clone());
        }
        self.snapshot.clone()
    }
}

impl<T> SnapshotPart<T> {
    /// Returns a part of this part.
    pub(crate) fn part<U>(
        &self,
        part: impl for<'a> FnOnce(&'a T) -> Option<&'a U>,
    ) -> Option<SnapshotPart<U>> {
        self.0.try_map_project_cloned(|whole, _| part(whole).ok_or(())).ok().map(SnapshotPart)
    }
}

impl Deref for PublishedSnapshot {
    type Target = Published;

    fn deref(&self) -> &Published {
        &self.0.published
    }
}

impl<T> Deref for SnapshotPart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.get()
    }
}

impl Deref for Source {
    type Target = ArcSwap<Published>;

    fn deref(&self) -> &ArcSwap<Published> {
        &self.0.published
    }
}

impl<T> Clone for SnapshotPart<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: fmt::Debug> fmt::Debug for SnapshotPart<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl fmt::Debug for PublishedSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}
