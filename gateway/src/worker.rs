//! The threads that serve.
//!
//! Each worker is one thread with a `current_thread` runtime, its own `HttpProxy` and so its own pool of
//! upstream connections: no work is stolen and nothing is shared on the request path but what `State` holds.
//! All workers accept from the same listening sockets.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use arc_swap::ArcSwap;
use pingora_core::apps::HttpServerOptions;
use pingora_core::server::ShutdownWatch;
use pingora_core::server::configuration::ServerConf;
use pingora_proxy::{HttpProxy, http_proxy};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle as Task;

use crate::connection::accept;
use crate::connection::bind::{BoundSocket, BoundSockets};
use crate::drain::{Drain, Phase};
use crate::proxy::{Service, TrustAnchor};
use crate::state::State;
use crate::tls::CertificateStore;

/// How long a worker waits after it could not accept: file descriptors come back when connections end, and
/// trying at once would spin.
const ACCEPT_BACK_OFF: Duration = Duration::from_millis(20);

/// The driver of a worker.
pub(crate) type Proxy = HttpProxy<Service>;

/// What the connections of one worker share.
pub(crate) struct Worker {
    pub(crate) state: Arc<State>,
    pub(crate) certificates: Arc<CertificateStore>,
    pub(crate) drain: Drain,
    /// True when HTTP/2 connections are to say GOAWAY.
    pub(crate) shutdown: ShutdownWatch,
    /// True when idle connections are to end. Of this worker alone: every connection waits for it between
    /// requests, and workers must not wait for each other.
    pub(crate) closing: watch::Receiver<bool>,
    trust: TrustAnchor,
    /// With the size of its pool.
    proxy: ArcSwap<(usize, Arc<Proxy>)>,
}

/// What the workers need to serve.
#[derive(Clone, Debug)]
pub struct Serving {
    /// Shared state.
    pub state: Arc<State>,
    /// Certificates.
    pub certificates: Arc<CertificateStore>,
    /// The life cycle.
    pub drain: Drain,
    /// The sockets to accept from, as they come and go.
    pub sockets: watch::Receiver<BoundSockets>,
}

impl Serving {
    /// Starts `count` workers, which end with the life cycle.
    ///
    /// # Errors
    /// A thread or its runtime cannot be made.
    pub(crate) fn start_workers(&self, count: usize) -> io::Result<()> {
        let trust = TrustAnchor::new()?;
        for index in 0..count {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let (serving, trust) = (self.clone(), trust.clone());
            let acceptor = serving.drain.acceptor();
            thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
                runtime.block_on(async {
                    accept_until_closed(&serving, trust).await;
                    drop(acceptor);
                    serving.drain.reached(Phase::Ended).await;
                });
            })?;
        }
        Ok(())
    }
}

impl Worker {
    fn new(
        serving: &Serving,
        trust: TrustAnchor,
        shutdown: ShutdownWatch,
        closing: watch::Receiver<bool>,
    ) -> Self {
        let size = serving.state.tuning.load().upstream_keepalive_connections;
        let proxy = proxy(&serving.state, &serving.drain, &trust, size);
        Self {
            state: serving.state.clone(),
            certificates: serving.certificates.clone(),
            drain: serving.drain.clone(),
            shutdown,
            closing,
            trust,
            proxy: ArcSwap::from_pointee((size, proxy)),
        }
    }

    /// The driver. Its pool has a fixed size, so a new size means a new driver; connections that are being
    /// served keep theirs until their request ends.
    pub(crate) fn proxy(&self) -> Arc<Proxy> {
        let size = self.state.tuning.load().upstream_keepalive_connections;
        let current = self.proxy.load();
        if current.0 == size {
            return current.1.clone();
        }
        let new = proxy(&self.state, &self.drain, &self.trust, size);
        self.proxy.store(Arc::new((size, new.clone())));
        new
    }
}

/// A driver that keeps `pool` idle connections to endpoints.
fn proxy(state: &Arc<State>, drain: &Drain, trust: &TrustAnchor, pool: usize) -> Arc<Proxy> {
    let configuration = ServerConf {
        threads: 1,
        upstream_keepalive_pool_size: pool,
        // Our own rule decides when to stop; Pingora only must not stop earlier.
        max_retries: usize::MAX,
        ca_file: Some(trust.path()),
        ..ServerConf::default()
    };
    let mut proxy = http_proxy(&Arc::new(configuration), Service::new(state.clone(), drain.clone()));
    // CONNECT over HTTP/2 is to reach us, who refuse it with our own page.
    let mut options = HttpServerOptions::default();
    options.allow_connect_method_proxying = true;
    proxy.server_options = Some(options);
    Arc::new(proxy)
}

/// Accepts from all sockets until the last phase but one is over.
async fn accept_until_closed(serving: &Serving, trust: TrustAnchor) {
    serving.drain.reached(Phase::Serving).await;
    let (say_goaway, shutdown) = watch::channel(false);
    let (close, closing) = watch::channel(false);
    let worker = Arc::new(Worker::new(serving, trust, shutdown, closing));
    let mut sockets = serving.sockets.clone();
    let mut running: HashMap<usize, (watch::Sender<()>, Task<()>)> = HashMap::new();
    let mut ending: Vec<Task<()>> = Vec::new();
    let mut draining = false;
    loop {
        let current = sockets.borrow_and_update().clone();
        let identity = |socket: &Arc<BoundSocket>| Arc::as_ptr(socket).addr();
        running.retain(|id, (_, task)| {
            let stays = current.iter().any(|socket| identity(socket) == *id);
            if !stays {
                ending.push(std::mem::replace(task, tokio::spawn(async {})));
            }
            stays
        });
        for socket in current.iter() {
            running.entry(identity(socket)).or_insert_with(|| {
                let (stop, stopped) = watch::channel(());
                (stop, tokio::spawn(accept_from(socket.clone(), stopped, worker.clone())))
            });
        }
        drop(current);
        ending.retain(|task| !task.is_finished());
        tokio::select! {
            changed = sockets.changed() => if changed.is_err() {
                // Their owner has gone, which it does when it closes them.
                serving.drain.reached(Phase::Closing).await;
                break;
            },
            () = serving.drain.reached(Phase::Draining), if !draining => {
                draining = true;
                // Receivers live as long as connections do.
                let _ = say_goaway.send(true);
            }
            () = serving.drain.reached(Phase::Closing) => break,
        }
    }
    // Receivers live as long as connections do.
    let _ = close.send(true);
    for (stop, task) in running.into_values() {
        drop(stop);
        // It ends by itself when the queue is empty.
        let _ = task.await;
    }
    for task in ending {
        let _ = task.await;
    }
    // HTTP/2 connections take the end of this sender for its word; it lives as long as they do.
    tokio::spawn(async move { say_goaway.closed().await });
}

/// Accepts from one socket until told to stop, then takes what is still in its queue: those connections are
/// established as far as their clients know.
async fn accept_from(socket: Arc<BoundSocket>, mut stop: watch::Receiver<()>, worker: Arc<Worker>) {
    let listener = match socket.listener.try_clone().and_then(TcpListener::from_std) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(address = %socket.address, %error, "cannot accept connections");
            return;
        }
    };
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.changed() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => take(stream, peer, &socket, &worker),
            Err(error) if is_of_the_peer(&error) => {}
            Err(error) => {
                tracing::warn!(address = %socket.address, %error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_BACK_OFF).await;
            }
        }
    }
    let Ok(listener) = listener.into_std() else { return };
    while let Ok((stream, peer)) = listener.accept() {
        if stream.set_nonblocking(true).is_ok()
            && let Ok(stream) = tokio::net::TcpStream::from_std(stream)
        {
            take(stream, peer, &socket, &worker);
        }
    }
}

/// Errors about one connection, not about accepting.
fn is_of_the_peer(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

fn take(
    stream: tokio::net::TcpStream,
    peer: std::net::SocketAddr,
    socket: &Arc<BoundSocket>,
    worker: &Arc<Worker>,
) {
    let telemetry = &worker.state.telemetry;
    telemetry.connection_opened();
    let guard = worker.drain.connection();
    let limit = worker.state.tuning.load().max_connections;
    if limit != 0 && worker.drain.open_connections() > limit {
        telemetry.connection_refused();
        telemetry.connection_closed();
        return;
    }
    let (socket, worker) = (socket.clone(), worker.clone());
    tokio::spawn(async move {
        let state = worker.state.clone();
        accept::serve(stream, peer, socket, worker).await;
        state.telemetry.connection_closed();
        drop(guard);
    });
}
