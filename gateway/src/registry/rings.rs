//! Builds the rings of endpoint sets.
//!
//! Large rings are not built while a delta is applied but on one thread of the registry, once for
//! all changes that arrived meanwhile. Until then requests use the old ring and skip endpoints that
//! are no longer members.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, OnceLock};
use std::thread;

use super::endpoint_set::EndpointSet;
use super::ring::Ring;
use crate::process::critical_task::CriticalTask;
use crate::process::reporter::Reporter;

/// Sets up to this size get their ring at once, in less than half a millisecond.
const BUILT_AT_ONCE: usize = 64;

impl EndpointSet {
    /// Builds the ring of the current generation, unless it is not needed or a newer one exists.
    fn build_ring(&self, built: &AtomicU64) {
        let generation = self.current();
        // A temporarily empty set keeps its ring for when its endpoints return.
        if !self.ring_wanted.load(Ordering::Acquire) || generation.endpoints.is_empty() {
            return;
        }
        let ring = Arc::new(Ring::build(generation.number, &generation.endpoints));
        built.fetch_add(1, Ordering::Relaxed);
        self.ring.rcu(|present| match present {
            Some(present) if present.generation > ring.generation => Some(present.clone()),
            _ => Some(ring.clone()),
        });
    }

    /// Drops the ring: no pool uses it any more.
    pub(super) fn drop_ring(&self) {
        self.ring_wanted.store(false, Ordering::Release);
        self.ring.store(None);
    }
}

/// Builds rings. Large ones are built on a thread that starts with the first of them and ends with
/// this value.
pub(super) struct Rings {
    queue: OnceLock<Option<Sender<Arc<EndpointSet>>>>,
    built: Arc<AtomicU64>,
    reporter: Reporter,
}

impl Rings {
    pub(super) fn new(reporter: &Reporter) -> Self {
        Self { queue: OnceLock::new(), built: Arc::default(), reporter: reporter.clone() }
    }

    /// Gives the set a ring from now on.
    pub(super) fn want(&self, set: &EndpointSet) {
        set.ring_wanted.store(true, Ordering::Release);
        set.build_ring(&self.built);
    }

    /// Updates the ring after a change of the set. The first one is built at once even if it is
    /// large, because sessions depend on it.
    pub(super) fn refresh(&self, set: &Arc<EndpointSet>) {
        if !set.ring_wanted.load(Ordering::Acquire) {
            return;
        }
        let can_wait = set.len() > BUILT_AT_ONCE && set.ring.load().is_some();
        let thread = if can_wait { self.queue() } else { None };
        let Some(queue) = thread else { return set.build_ring(&self.built) };
        // A queued set is built from the generation that is current at that time.
        if !set.ring_queued.swap(true, Ordering::AcqRel) && queue.send(set.clone()).is_err() {
            set.build_ring(&self.built);
        }
    }

    pub(super) fn built(&self) -> u64 {
        self.built.load(Ordering::Relaxed)
    }

    /// Returns `None` if no thread can be started. Rings are then built by the caller.
    fn queue(&self) -> Option<&Sender<Arc<EndpointSet>>> {
        let start = || {
            let (sender, sets) = mpsc::channel::<Arc<EndpointSet>>();
            let built = self.built.clone();
            let critical_task = CriticalTask::new(&self.reporter, "sluice-rings");
            let work = move || {
                let _held = critical_task;
                for set in sets {
                    set.ring_queued.swap(false, Ordering::AcqRel);
                    set.build_ring(&built);
                }
            };
            thread::Builder::new().name("sluice-rings".into()).spawn(work).ok().map(|_| sender)
        };
        self.queue.get_or_init(start).as_ref()
    }
}
