//! Workers: one thread each, with a runtime, engines and a pool of upstream connections of its own.
//!
//! Nothing that a request touches is shared between workers but what is immutable or counted, and no task ever
//! moves to another thread. That is a tenth faster than a runtime that steals work, and it is also the only way
//! to keep Pingora from putting streams and idle connections on a random thread.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use tokio::sync::{oneshot, watch};

use crate::critical_task::{self, CriticalTask};
use crate::descriptors::Shares;
use crate::drain::{Drain, LocalDrain, Phase};
use crate::driver::Driver;
use crate::engine::proxy;
use crate::io::budget;
use crate::listen::accept::accept;
use crate::listen::{ListenerSet, Listeners, Listening, SocketKey};
use crate::per_worker;
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::telemetry::AccessLog;
use crate::tls::{CertificateStore, install_provider};
use crate::worker::Worker;

/// The worker threads.
#[derive(Debug)]
pub struct Workers {
    threads: Vec<JoinHandle<()>>,
    stop: watch::Sender<bool>,
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
        proxy::prepare()?;
        let stop = watch::Sender::new(false);
        let idle = Shares::for_workers(count).idle(count);
        let mut threads = Vec::with_capacity(count);
        let (started, all_started) = mpsc::channel();
        for index in 0..count {
            let (state, certificates, drain) = (state.clone(), certificates.clone(), drain.clone());
            let (listeners, stop, started) = (listeners.subscribe(), stop.subscribe(), started.clone());
            let thread = thread::Builder::new().name(format!("worker-{index}"));
            let critical_task = CriticalTask::new(&state.reporter, format!("worker-{index}"));
            threads.push(thread.spawn(move || {
                let _vital = critical_task;
                let _place = per_worker::enter();
                let log = state.telemetry.access_log.clone();
                // Made here, so that what a worker has is on no cache line with what another one has.
                let runtime = match runtime(&log) {
                    Ok(runtime) => runtime,
                    Err(error) => return drop(started.send(error)),
                };
                drop(started);
                AccessLog::gather();
                budget::serve(state.budget.clone());
                let phase = drain.subscribe();
                let drain = LocalDrain::new(drain);
                let worker = Arc::new(Worker { state, certificates, drain, driver, idle, count });
                runtime.block_on(run(worker, listeners, phase, stop));
                // Requests that are cut off end here.
                drop(runtime);
                log.pass_on();
            })?);
        }
        drop(started);
        if let Ok(error) = all_started.recv() {
            return Err(error);
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

/// A runtime for this thread, which passes on what is logged before it waits.
fn runtime(log: &AccessLog) -> io::Result<tokio::runtime::Runtime> {
    let log = log.clone();
    tokio::runtime::Builder::new_current_thread().enable_all().on_thread_park(move || log.pass_on()).build()
}

/// Starts and ends accepting as the listeners come and go, until told to stop.
async fn run(
    worker: Arc<Worker>,
    mut listeners: watch::Receiver<ListenerSet>,
    mut phase: watch::Receiver<Phase>,
    mut stop: watch::Receiver<bool>,
) {
    tokio::spawn(Snapshot::follow(worker.state.clone()));
    let mut accepting = HashMap::new();
    listeners.mark_changed();
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => return,
            Ok(()) = listeners.changed() => {
                let set = listeners.borrow_and_update().clone();
                reconcile(&worker, &mut accepting, set);
            }
            Ok(()) = phase.changed() => {
                let phase = *phase.borrow_and_update();
                if phase == Phase::Closing {
                    accepting.clear();
                }
                worker.drain.notify();
            }
        }
    }
}

fn reconcile(worker: &Arc<Worker>, accepting: &mut HashMap<SocketKey, Accepting>, set: ListenerSet) {
    if !set.open || worker.drain.shared().phase() == Phase::Closing {
        accepting.clear();
        return;
    }
    accepting.retain(|key, now| {
        set.sockets.get(key).is_some_and(|listening| {
            listening.entry == now.listening.entry && Arc::ptr_eq(&listening.socket, &now.listening.socket)
        })
    });
    for (key, listening) in set.sockets {
        accepting.entry(key).or_insert_with(|| {
            let (stop, stopped) = oneshot::channel();
            let (worker, accepted) = (worker.clone(), listening.clone());
            let hold = worker.drain.shared().hold();
            let report = worker.state.reporter.clone();
            critical_task::spawn(&report, "accepting connections", async move {
                accept(accepted, worker, stopped).await;
                drop(hold);
            });
            Accepting { listening, _stop: stop }
        });
    }
}

#[cfg(test)]
mod tests;
