//! The steps that the attempts of all protocols share.

use std::mem;

use tokio::task::yield_now;

use super::attempt_io::AttemptIo;
use super::download::Download;
use crate::body::downstream::Downstream;
use crate::engine::Forwarded;
use crate::engine::watch::unless_left;
use crate::io::alarm::Alarm;
use crate::io::budget::WaitTicket;
use crate::io::deadlines::Deadlines;
use crate::message::head::Head;
use crate::pipeline::{Failure, FailureKind, Next, Originator, Upstream};
use crate::upstream::connect::{self, ConnectionGate};
use crate::upstream::connection::Connection;
use crate::upstream::pool;
use crate::worker::Worker;

/// The parts of a request that all its attempts share.
pub(super) struct ForwardContext<'r, D, O> {
    pub(super) worker: &'r Worker,
    pub(super) downstream: &'r mut D,
    pub(super) alarm: &'r mut Alarm,
    pub(super) originator: &'r mut O,
    pub(super) head: &'r mut Head,
    pub(super) download: &'r mut Download,
    /// When the request first had to wait until a connection is admitted, in any attempt.
    pub(super) waited_since: Option<tokio::time::Instant>,
    /// The head was changed for an attempt.
    pub(super) changed: bool,
}

impl<D: Downstream, O: Originator> ForwardContext<'_, D, O> {
    /// Limit of idle connections to endpoints.
    pub(super) fn pool_size(&self) -> usize {
        self.originator.settings().upstream_keepalive_connections.min(self.worker.idle)
    }

    /// Returns a connection that serves one request at a time: a pooled one, or a new one. The
    /// error is what follows if there is none; `None` in it is another attempt.
    pub(super) async fn connection(
        &mut self,
        upstream: &Upstream,
        replayable: bool,
    ) -> Result<Connection, Option<Forwarded<O::Answer>>> {
        let pooled = pool::take(upstream);
        // Nothing is read from the client meanwhile.
        self.downstream.set_stalled(pooled.is_none() && !self.downstream.is_spent());
        if let Some(connection) = pooled {
            return Ok(connection);
        }
        let obtained = {
            let mut gate = gate(self.worker, self.originator);
            // Boxed, because it is rare and large.
            let mut obtain = Box::pin(connect::obtain(upstream, &mut gate, &mut self.waited_since));
            unless_left(self.downstream, obtain.as_mut()).await
        };
        match obtained.unwrap_or(Err(FailureKind::Client)) {
            Ok(connection) => Ok(connection),
            Err(kind) => Err(self.not_connected(kind, replayable).await),
        }
    }

    /// No connection was established. `None` is another attempt.
    pub(super) async fn not_connected(
        &mut self,
        kind: FailureKind,
        replayable: bool,
    ) -> Option<Forwarded<O::Answer>> {
        let forwarded = self.failed(Failure::before_connecting(kind, replayable));
        if forwarded.is_none() {
            // A refusal may arrive without a wait. Other tasks get their turn, and so does the
            // shutdown.
            yield_now().await;
        }
        forwarded
    }

    /// The attempt has a connection: prepares the head for the endpoint. Every attempt begins with
    /// the head as it was received.
    pub(super) fn connected(&mut self, upstream: &Upstream, reused: bool) {
        self.originator.call().connected(upstream.address, reused);
        match mem::replace(&mut self.changed, true) {
            false => self.head.keep(),
            true => self.head.restore(),
        }
        self.originator.upstream_request(self.head);
        self.download.begin();
    }

    /// The state that the relay of this attempt needs, and the head that it sends.
    pub(super) fn attempt_io<'s>(&'s mut self, upstream: &'s Upstream) -> (AttemptIo<'s, D, O>, &'s Head) {
        let attempt_io = AttemptIo {
            downstream: &mut *self.downstream,
            alarm: &mut *self.alarm,
            originator: &mut *self.originator,
            download: &mut *self.download,
            upstream,
            deadlines: Deadlines::default(),
            ticket: WaitTicket::default(),
        };
        (attempt_io, &*self.head)
    }

    /// An attempt failed before anything was sent. `None` is another attempt.
    pub(super) fn failed(&mut self, failure: Failure) -> Option<Forwarded<O::Answer>> {
        follow(self.originator.failed(failure))
    }
}

/// Admission of a new connection for the current attempt.
pub(super) fn gate<'g>(worker: &'g Worker, originator: &'g mut impl Originator) -> ConnectionGate<'g> {
    let may_wait = originator.may_wait();
    ConnectionGate { in_flight: originator.call().in_flight(), clients: worker.drain.shared(), may_wait }
}

/// The outcome of an attempt whose response is not relayed; `None` is another attempt.
pub(super) fn follow<A>(next: Next<A>) -> Option<Forwarded<A>> {
    match next {
        Next::Retry => None,
        Next::Answer(answer) => Some(Forwarded::Answer(answer)),
        Next::Abort => Some(Forwarded::Aborted { asked: true }),
    }
}
