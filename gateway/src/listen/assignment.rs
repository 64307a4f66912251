//! Which worker serves a new connection.
//!
//! One worker accepts from each listening socket. If all workers waited for it, a new connection
//! would wake all of them, and all but one would find the queue empty; the runtime offers no
//! exclusive wakeups (`EPOLLEXCLUSIVE`). The worker that accepts serves a connection itself or
//! passes it to another, so that a connection wakes at most two workers, however many there are.
//!
//! A connection goes to the one of two workers that has fewer: the accepting worker, which needs no
//! other thread, or the next of the others in turn. This balances the workers at a cost that does
//! not depend on their number.
//!
//! Fewer workers than there are may serve (`worker-processes`). The others still accept, but pass
//! each connection on; what they serve already stays with them.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use tokio::runtime::Handle;

use crate::process::per_worker::Padded;
use crate::worker::Worker;

/// The workers that connections are assigned to.
pub(crate) struct Assignment {
    workers: Box<[OnceLock<Arc<Assignee>>]>,
    /// The worker that the next connection may be passed to.
    turn: Padded<AtomicUsize>,
}

/// A worker and the runtime that it serves connections on.
pub(crate) struct Assignee {
    pub(crate) worker: Arc<Worker>,
    index: usize,
    runtime: Handle,
    connections: Padded<AtomicUsize>,
}

/// A connection in the count of its worker, until it is dropped.
pub(crate) struct AssignedConnection(Arc<Assignee>);

impl Assignment {
    /// No connections are assigned to any of `count` workers until they [join](Self::join).
    pub(crate) fn new(count: usize) -> Arc<Self> {
        let workers = (0..count).map(|_| OnceLock::new()).collect();
        Arc::new(Self { workers, turn: Padded::default() })
    }

    /// Adds a worker. Call it on the worker's own thread, within its runtime.
    pub(crate) fn join(&self, index: usize, worker: Arc<Worker>) -> Arc<Assignee> {
        let (runtime, connections) = (Handle::current(), Padded::default());
        let assignee = Assignee { worker, index, runtime, connections };
        self.workers[index].get_or_init(|| Arc::new(assignee)).clone()
    }

    /// Assigns a connection that `own` has accepted to one of the first `serving` workers.
    pub(crate) fn assign(&self, own: &Arc<Assignee>, serving: usize) -> AssignedConnection {
        let serving = serving.clamp(1, self.workers.len());
        let other = self.next_other(own.index, serving).and_then(|other| self.workers[other].get());
        let assignee = match other {
            Some(other) if own.index >= serving || other.connections() < own.connections() => other,
            _ => own,
        };
        assignee.connections.fetch_add(1, Relaxed);
        AssignedConnection(assignee.clone())
    }

    /// The next of the first `serving` workers in turn that is not the one with this index.
    fn next_other(&self, own: usize, serving: usize) -> Option<usize> {
        let others = if own < serving { serving - 1 } else { serving };
        let place = self.turn.fetch_add(1, Relaxed).checked_rem(others)?;
        Some(if place < own { place } else { place + 1 })
    }
}

impl Assignee {
    fn connections(&self) -> usize {
        self.connections.load(Relaxed)
    }
}

impl AssignedConnection {
    /// Returns whether the connection stays with the worker that accepted it.
    pub(crate) fn is_to(&self, own: &Arc<Assignee>) -> bool {
        Arc::ptr_eq(&self.0, own)
    }

    /// Returns the worker that serves the connection.
    pub(crate) fn worker(&self) -> &Arc<Worker> {
        &self.0.worker
    }

    /// Returns the runtime that serves the connection.
    pub(crate) fn runtime(&self) -> &Handle {
        &self.0.runtime
    }
}

impl Drop for AssignedConnection {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_workers_that_serve_have_a_turn_and_each_other_one_has() {
        let turns = |own, serving| {
            let assignment = Assignment::new(4);
            (0..6).filter_map(|_| assignment.next_other(own, serving)).collect::<Vec<_>>()
        };
        assert_eq!(turns(1, 4), [0, 2, 3, 0, 2, 3]);
        assert_eq!(turns(1, 2), [0; 6]);
        assert_eq!(turns(3, 2), [0, 1, 0, 1, 0, 1]);
        assert_eq!(turns(2, 1), [0; 6]);
        assert_eq!(turns(0, 1), [0; 0]);
    }
}
