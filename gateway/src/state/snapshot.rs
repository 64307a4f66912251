//! What requests see of the configuration: one snapshot each, taken once and kept until the log
//! line is written.
//!
//! Workers share what is published. A reference count in it would travel between their caches with
//! every request, so each worker wraps what it finds published once, and its requests count their
//! references to that wrapper and to parts of the content through it.

use std::cell::RefCell;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use arc_swap::cache::Cache;
use yoke::Yoke;

use crate::state::{Published, State};

/// What was published when it was taken. A clone costs a count that no other worker touches.
#[derive(Clone)]
pub struct Snapshot(Arc<Shared>);

struct Shared {
    state: Arc<State>,
    published: Arc<Published>,
}

/// Something of a snapshot, which stays while this does.
pub struct Held<T: 'static>(Yoke<&'static T, Arc<Shared>>);

/// The last snapshot that this thread has taken.
struct Last {
    newest: Cache<Source, Arc<Published>>,
    snapshot: Snapshot,
}

/// Where snapshots come from.
struct Source(Arc<State>);

/// How long a worker without requests may keep what is gone from the configuration.
const LAG: Duration = Duration::from_secs(1);

thread_local! {
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

impl Snapshot {
    /// What is in force now.
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

    /// Keeps the last one of this thread up to date for ever, also while no request comes: an old
    /// one would keep what is gone from the configuration, metric series among it.
    pub(crate) async fn follow(state: Arc<State>) {
        let mut publications = state.publications.subscribe();
        while publications.changed().await.is_ok() {
            // Of many changes the last one will do.
            tokio::time::sleep(LAG).await;
            Self::take(&state);
        }
    }

    fn of(state: &Arc<State>, published: Arc<Published>) -> Self {
        Self(Arc::new(Shared { state: state.clone(), published }))
    }

    /// What does not change with the configuration.
    pub(crate) fn state(&self) -> &Arc<State> {
        &self.0.state
    }

    /// Holds what `find` finds.
    ///
    /// # Errors
    /// Those of `find`.
    pub(crate) fn hold<T, E>(
        &self,
        find: impl for<'a> FnOnce(&'a Published) -> Result<&'a T, E>,
    ) -> Result<Held<T>, E> {
        Yoke::try_attach_to_cart(self.0.clone(), |taken: &Shared| find(&taken.published)).map(Held)
    }
}

impl Last {
    fn now(&mut self) -> Snapshot {
        let newest = self.newest.load();
        if !Arc::ptr_eq(newest, &self.snapshot.0.published) {
            self.snapshot = Snapshot::of(&self.snapshot.0.state, newest.clone());
        }
        self.snapshot.clone()
    }
}

impl<T> Held<T> {
    /// Holds a part of it.
    pub(crate) fn part<U>(&self, part: impl for<'a> FnOnce(&'a T) -> Option<&'a U>) -> Option<Held<U>> {
        self.0.try_map_project_cloned(|whole, _| part(whole).ok_or(())).ok().map(Held)
    }
}

impl Deref for Snapshot {
    type Target = Published;

    fn deref(&self) -> &Published {
        &self.0.published
    }
}

impl<T> Deref for Held<T> {
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

impl<T> Clone for Held<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: fmt::Debug> fmt::Debug for Held<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").finish_non_exhaustive()
    }
}
