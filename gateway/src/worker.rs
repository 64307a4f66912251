//! Workers: one thread each, with a runtime, a proxy and a pool of upstream connections of its own.
//!
//! Nothing that a request touches is shared between workers but what is immutable or counted, and no task ever
//! moves to another thread. That is a tenth faster than a runtime that steals work, and it is also the only way
//! to keep Pingora from putting streams and idle connections on a random thread.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use arc_swap::ArcSwap;
use pingora_core::server::ShutdownWatch;
use tokio::sync::{oneshot, watch};

use crate::connection::accept::accept;
use crate::connection::{ListenerSet, Listeners, Listening, SocketKey};
use crate::descriptors::Shares;
use crate::direct::Driver;
use crate::drain::{Drain, LocalDrain, Phase};
use crate::proxy::{Engine, TrustAnchor, engine};
use crate::state::State;
use crate::telemetry::AccessLog;
use crate::tls::{CertificateStore, install_provider};
use crate::vital::Vital;

/// The worker threads.
#[derive(Debug)]
pub struct Workers {
    threads: Vec<JoinHandle<()>>,
    stop: watch::Sender<bool>,
}

/// What the connections of one worker share.
pub(crate) struct Worker {
    pub(crate) state: Arc<State>,
    pub(crate) certificates: Arc<CertificateStore>,
    pub(crate) drain: LocalDrain,
    pub(crate) driver: Driver,
    /// Idle connections to endpoints that there is room for.
    pub(crate) idle: usize,
    /// Pingora's own sign of the end, which never comes: the end is our business.
    pub(crate) never: ShutdownWatch,
    engine: ArcSwap<SizedEngine>,
    trust: TrustAnchor,
}

/// A proxy whose pool has a size for life.
struct SizedEngine {
    pool: usize,
    engine: Arc<Engine>,
}

/// Accepting from one socket.
struct Accepting {
    listening: Listening,
    /// Dropped to end it.
    _stop: oneshot::Sender<()>,
}

impl Workers {
    /// Starts `count` workers that serve with `driver`. They accept from `listeners` once these are open, and tell the phases of `drain`
    /// to their connections.
    ///
    /// # Errors
    /// A thread, a runtime or the trust anchor's file cannot be had.
    pub fn start(
        state: &Arc<State>,
        certificates: &Arc<CertificateStore>,
        listeners: &Listeners,
        drain: &Arc<Drain>,
        driver: Driver,
        count: usize,
    ) -> io::Result<Self> {
        install_provider();
        let trust = TrustAnchor::new()?;
        let stop = watch::Sender::new(false);
        let idle = Shares::for_workers(count).idle(count);
        let mut threads = Vec::with_capacity(count);
        for index in 0..count {
            let log = state.telemetry.access_log.clone();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .on_thread_park({
                    let log = log.clone();
                    move || log.pass_on()
                })
                .build()?;
            // Its sender lives as long as the process: Pingora takes a dropped one for a signal.
            let never = never();
            let pool = pool_size(state, idle);
            let engine = SizedEngine { pool, engine: engine(state, drain, pool, &trust) };
            let worker = Arc::new(Worker {
                state: state.clone(),
                certificates: certificates.clone(),
                drain: LocalDrain::new(drain.clone()),
                driver,
                idle,
                never,
                engine: ArcSwap::from_pointee(engine),
                trust: trust.clone(),
            });
            let run = worker.run(listeners.subscribe(), drain.subscribe(), stop.subscribe());
            let thread = thread::Builder::new().name(format!("worker-{index}"));
            let vital = Vital::new(&state.reporter, format!("worker-{index}"));
            threads.push(thread.spawn(move || {
                let _vital = vital;
                AccessLog::gather();
                runtime.block_on(run);
                // Requests that are cut off end here.
                drop(runtime);
                log.pass_on();
            })?);
        }
        Ok(Self { threads, stop })
    }

    /// Ends all workers with whatever they are doing. Call it after [`Drain::ended`].
    pub fn stop(self) {
        self.stop.send_replace(true);
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a worker had panicked");
            }
        }
    }
}

/// Idle connections of a worker's proxy. Pingora reserves room for them all at once, so there is a bound.
fn pool_size(state: &State, idle: usize) -> usize {
    const MOST: usize = 4096;
    state.tuning.load().upstream_keepalive_connections.min(idle).min(MOST)
}

fn never() -> ShutdownWatch {
    static NEVER: std::sync::LazyLock<watch::Sender<bool>> =
        std::sync::LazyLock::new(|| watch::Sender::new(false));
    NEVER.subscribe()
}

impl Worker {
    /// The proxy for a new connection. Its pool has the size that is configured now.
    pub(crate) fn engine(&self) -> Arc<Engine> {
        let pool = pool_size(&self.state, self.idle);
        let current = self.engine.load();
        if current.pool == pool {
            return current.engine.clone();
        }
        let engine = engine(&self.state, self.drain.shared(), pool, &self.trust);
        self.engine.store(Arc::new(SizedEngine { pool, engine: engine.clone() }));
        engine
    }

    /// Starts and ends accepting as the listeners come and go, until told to stop.
    async fn run(
        self: Arc<Self>,
        mut listeners: watch::Receiver<ListenerSet>,
        mut phase: watch::Receiver<Phase>,
        mut stop: watch::Receiver<bool>,
    ) {
        let mut accepting = HashMap::new();
        listeners.mark_changed();
        loop {
            tokio::select! {
                biased;
                _ = stop.changed() => return,
                Ok(()) = listeners.changed() => {
                    let set = listeners.borrow_and_update().clone();
                    self.reconcile(&mut accepting, set);
                }
                Ok(()) = phase.changed() => {
                    let phase = *phase.borrow_and_update();
                    if phase == Phase::Closing {
                        accepting.clear();
                    }
                    self.drain.notify();
                }
            }
        }
    }

    fn reconcile(self: &Arc<Self>, accepting: &mut HashMap<SocketKey, Accepting>, set: ListenerSet) {
        if !set.open || self.drain.shared().phase() == Phase::Closing {
            accepting.clear();
            return;
        }
        accepting.retain(|key, now| {
            set.sockets.get(key).is_some_and(|listening| {
                listening.entry == now.listening.entry
                    && Arc::ptr_eq(&listening.socket, &now.listening.socket)
            })
        });
        for (key, listening) in set.sockets {
            accepting.entry(key).or_insert_with(|| {
                let (stop, stopped) = oneshot::channel();
                let (worker, accepted) = (self.clone(), listening.clone());
                let hold = self.drain.shared().hold();
                let vital = Vital::new(&self.state.reporter, "accepting connections");
                tokio::spawn(async move {
                    let _vital = vital;
                    accept(accepted, worker, stopped).await;
                    drop(hold);
                });
                Accepting { listening, _stop: stop }
            });
        }
    }
}

#[cfg(test)]
mod tests;
