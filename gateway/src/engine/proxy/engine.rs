//! The `HttpProxy` of each worker.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use pingora_core::apps::HttpServerOptions;
use pingora_core::server::ShutdownWatch;
use pingora_core::server::configuration::ServerConf;
use pingora_proxy::{HttpProxy, http_proxy};
use tokio::sync::watch;

use super::Proxy;
use crate::policy::retry::MOST_ATTEMPTS;
use crate::state::State;
use crate::tls::anchor;
use crate::worker::Worker;

/// Pingora's proxy with the phases of [`Proxy`].
pub(super) type Engine = HttpProxy<Proxy>;

/// A proxy and its pool size, which cannot change.
struct SizedEngine {
    pool: usize,
    engine: Arc<Engine>,
}

thread_local! {
    /// The proxy of this worker, created at the first request that needs it.
    static ENGINE: RefCell<Option<SizedEngine>> = const { RefCell::new(None) };
}

/// Creates the file that all proxies share. Must be called before the first of them is created.
pub(crate) fn prepare() -> io::Result<()> {
    anchor::path().map(drop)
}

/// Returns a shutdown signal that never fires: [`Drain`](crate::connection::drain::Drain) controls
/// the shutdown. Its sender lives as long as the worker, because Pingora treats a dropped sender as
/// a signal.
pub(super) fn never() -> ShutdownWatch {
    // One per worker, because subscribing writes to it.
    thread_local! {
        static NEVER: watch::Sender<bool> = watch::Sender::new(false);
    }
    NEVER.with(watch::Sender::subscribe)
}

/// Returns the proxy of the worker whose thread calls, with the configured pool size.
pub(super) fn engine(worker: &Worker) -> Arc<Engine> {
    let pool = pool_size(&worker.state, worker.idle);
    ENGINE.with_borrow_mut(|current| match current {
        Some(current) if current.pool == pool => current.engine.clone(),
        _ => current.insert(SizedEngine { pool, engine: make(worker, pool) }).engine.clone(),
    })
}

/// Returns the number of idle connections per proxy. Bounded, because Pingora allocates for all of
/// them at once.
fn pool_size(state: &State, idle: usize) -> usize {
    const MOST: usize = 4096;
    state.published.load().compiled_settings.settings.upstream_keepalive_connections.min(idle).min(MOST)
}

/// Creates a proxy that keeps `pool` idle connections.
fn make(worker: &Worker, pool: usize) -> Arc<Engine> {
    let conf = ServerConf {
        threads: 1,
        upstream_keepalive_pool_size: pool,
        // The file exists since `prepare`.
        ca_file: anchor::path().ok(),
        // Attempts are counted per route, in the pipeline. Each may meet a stale connection first.
        max_retries: 2 * MOST_ATTEMPTS as usize,
        ..ServerConf::default()
    };
    let mut engine = http_proxy(&Arc::new(conf), Proxy::new(worker.drain.shared().clone(), pool));
    // The pipeline has already checked the request; disables Pingora's own rejection of CONNECT.
    let mut options = HttpServerOptions::default();
    options.allow_connect_method_proxying = true;
    engine.server_options = Some(options);
    Arc::new(engine)
}
