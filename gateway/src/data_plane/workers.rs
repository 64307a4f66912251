//! Workers: one thread each, with its own runtime, engines and pool of upstream connections.
//!
//! Workers share only data that is immutable or consists of counters, and a task never moves to
//! another thread once it runs. This is a tenth faster than a work-stealing runtime. It is also the
//! only way to keep Pingora from placing streams and idle connections on arbitrary threads.

mod idle_timeouts;

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};

use tokio::sync::{oneshot, watch};

use crate::connection::drain::{Drain, LocalDrain, ShutdownPhase};
use crate::engine::proxy;
use crate::io::budget;
use crate::listen::accept::{Workplace, accept};
use crate::listen::assignment::Assignment;
use crate::listen::{ListenSocket, ListenerSet, ListenerSocket, Listeners, SocketKey};
use crate::process::critical_task::{self, CriticalTask};
use crate::process::descriptors::DescriptorShares;
use crate::process::per_worker;
use crate::state::State;
use crate::state::snapshot::PublishedSnapshot;
use crate::stream::udp;
use crate::telemetry::AccessLog;
use crate::tls::{CertificateStore, install_provider};
use crate::worker::Worker;
use crate::worker::engine_choice::EngineChoice;

/// Threads of each worker for work that blocks: files of request bodies, passwords. A thread that
/// has worked keeps memory of the allocator, so the default of Tokio, 512, is memory that no budget
/// counts; disks and cores have work for a few.
const BLOCKING_THREADS: usize = 8;

/// The worker threads.
#[derive(Debug)]
pub struct Workers {
    threads: Vec<JoinHandle<()>>,
    stop: watch::Sender<bool>,
}

/// The task that accepts connections of one socket.
struct Accepting {
    listening: ListenerSocket,
    /// Ends the task when it is dropped.
    _stop: oneshot::Sender<()>,
}

impl Workers {
    /// Starts `count` workers that serve requests with `engine`. They accept connections from
    /// `listeners` once these are open, and forward the phases of `drain` to their connections.
    ///
    /// # Errors
    /// A thread or a runtime cannot be started, or the file of trust anchors cannot be read.
    pub fn start(
        state: &Arc<State>,
        certificates: &Arc<CertificateStore>,
        listeners: &Listeners,
        drain: &Arc<Drain>,
        engine: EngineChoice,
        count: usize,
    ) -> io::Result<Self> {
        install_provider();
        proxy::prepare()?;
        let stop = watch::Sender::new(false);
        let idle = DescriptorShares::for_workers(count).idle(count);
        let assignment = Assignment::new(count);
        let mut threads = Vec::with_capacity(count);
        let (started, all_started) = mpsc::channel();
        for index in 0..count {
            let (state, certificates, drain) = (state.clone(), certificates.clone(), drain.clone());
            let (listeners, stop, started) = (listeners.subscribe(), stop.subscribe(), started.clone());
            let assignment = assignment.clone();
            let thread = thread::Builder::new().name(format!("worker-{index}"));
            let critical_task = CriticalTask::new(&state.reporter, format!("worker-{index}"));
            threads.push(thread.spawn(move || {
                let _held = critical_task;
                let _place = per_worker::enter();
                let log = state.telemetry.access_log.clone();
                // Created on the worker's thread, so that workers share no cache line.
                let runtime = match runtime(&log) {
                    Ok(runtime) => runtime,
                    Err(error) => return drop(started.send(error)),
                };
                drop(started);
                AccessLog::gather();
                budget::serve(state.budget.clone());
                let phase = drain.subscribe();
                let drain = LocalDrain::new(drain);
                let worker = Arc::new(Worker { state, certificates, drain, engine, idle, count });
                runtime.block_on(async {
                    let own = assignment.join(index, worker);
                    run(Workplace { own, assignment }, index, listeners, phase, stop).await;
                });
                // Ends the requests that are still running.
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

    /// Stops all workers and aborts their requests. Call it after [`Drain::ended`].
    pub fn stop(self) {
        self.stop.send_replace(true);
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!("a worker had panicked");
            }
        }
    }
}

/// Creates a runtime for this thread that passes on collected log lines before it waits for events.
fn runtime(log: &AccessLog) -> io::Result<tokio::runtime::Runtime> {
    let log = log.clone();
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .on_thread_park(move || log.pass_on())
        .build()
}

/// Starts and ends accepting as listeners change, until the stop signal.
async fn run(
    workplace: Workplace,
    index: usize,
    mut listeners: watch::Receiver<ListenerSet>,
    mut phase: watch::Receiver<ShutdownPhase>,
    mut stop: watch::Receiver<bool>,
) {
    let worker = &workplace.own.worker;
    tokio::spawn(PublishedSnapshot::follow(worker.state.clone()));
    tokio::spawn(idle_timeouts::enforce(worker.clone()));
    let mut accepting = HashMap::new();
    listeners.mark_changed();
    loop {
        tokio::select! {
            biased;
            _ = stop.changed() => return,
            Ok(()) = listeners.changed() => {
                let set = listeners.borrow_and_update().clone();
                reconcile((&workplace, index), &mut accepting, set);
            }
            Ok(()) = phase.changed() => {
                let phase = *phase.borrow_and_update();
                if phase == ShutdownPhase::Closing {
                    accepting.clear();
                }
                worker.drain.notify();
            }
        }
    }
}

fn reconcile(
    (workplace, index): (&Workplace, usize),
    accepting: &mut HashMap<SocketKey, Accepting>,
    set: ListenerSet,
) {
    let worker = &workplace.own.worker;
    if !set.open || worker.drain.shared().phase() == ShutdownPhase::Closing {
        accepting.clear();
        return;
    }
    accepting.retain(|key, now| {
        set.sockets.get(key).is_some_and(|listening| {
            listening.entry == now.listening.entry && listening.socket.is(&now.listening.socket)
        })
    });
    for (key, listening) in set.sockets {
        if !is_served_by(&listening.socket, index, worker.count) {
            continue;
        }
        accepting.entry(key).or_insert_with(|| {
            let (stop, stopped) = oneshot::channel();
            let (workplace, ListenerSocket { socket, entry }) = (workplace.clone(), listening.clone());
            let hold = worker.drain.shared().hold();
            let report = worker.state.reporter.clone();
            critical_task::spawn(&report, "accepting connections", async move {
                match socket {
                    ListenSocket::Tcp(socket) => accept(socket, entry, workplace, stopped).await,
                    ListenSocket::Udp(socket) => {
                        udp::serve(socket, entry.group, workplace.own.worker.clone(), stopped).await;
                    }
                }
                drop(hold);
            });
            Accepting { listening, _stop: stop }
        });
    }
}

/// Returns whether the worker with this index accepts from a socket. Each socket has one worker:
/// connections are [assigned](Assignment) from there, and all datagrams of one client meet one
/// table of sessions.
fn is_served_by(socket: &ListenSocket, index: usize, count: usize) -> bool {
    let address = match socket {
        ListenSocket::Tcp(socket) => socket.local_addr(),
        ListenSocket::Udp(socket) => socket.local_addr(),
    };
    usize::from(address.map_or(0, |address| address.port())) % count == index
}

#[cfg(test)]
mod tests;
