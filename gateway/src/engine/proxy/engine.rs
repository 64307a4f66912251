//! One worker's `HttpProxy`.

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

/// Pingora's proxy with our phases.
pub(super) type Engine = HttpProxy<Proxy>;

/// A proxy whose pool has a size for life.
struct SizedEngine {
    pool: usize,
    engine: Arc<Engine>,
}

thread_local! {
    /// That of the worker whose thread this is, once a request has needed it.
    static ENGINE: RefCell<Option<SizedEngine>> = const { RefCell::new(None) };
}

/// Makes what all proxies need. To be called before the first of them is.
pub(crate) fn prepare() -> io::Result<()> {
    anchor::path().map(drop)
}

/// Pingora's own sign of the end, which never comes: the end is our business. Its sender lives as long as the worker:
/// Pingora takes a dropped one for a signal.
pub(super) fn never() -> ShutdownWatch {
    // One for each worker: whoever subscribes writes to it.
    thread_local! {
        static NEVER: watch::Sender<bool> = watch::Sender::new(false);
    }
    NEVER.with(watch::Sender::subscribe)
}

/// The proxy of a worker, on whose thread this is called. Its pool has the size that is configured now.
pub(super) fn engine(worker: &Worker) -> Arc<Engine> {
    let pool = pool_size(&worker.state, worker.idle);
    ENGINE.with_borrow_mut(|current| match current {
        Some(current) if current.pool == pool => current.engine.clone(),
        _ => current.insert(SizedEngine { pool, engine: make(worker, pool) }).engine.clone(),
    })
}

/// Idle connections of a worker's proxy. Pingora reserves room for them all at once, so there is a bound.
fn pool_size(state: &State, idle: usize) -> usize {
    const MOST: usize = 4096;
    state.published.load().compiled_settings.settings.upstream_keepalive_connections.min(idle).min(MOST)
}

/// A proxy that keeps `pool` idle connections.
fn make(worker: &Worker, pool: usize) -> Arc<Engine> {
    let conf = ServerConf {
        threads: 1,
        upstream_keepalive_pool_size: pool,
        // Made before: `prepare` has seen to it.
        ca_file: anchor::path().ok(),
        // Attempts are counted per route, in the pipeline. Any of them may meet a stale connection first.
        max_retries: 2 * MOST_ATTEMPTS as usize,
        ..ServerConf::default()
    };
    let mut engine = http_proxy(&Arc::new(conf), Proxy::new(worker.drain.shared().clone()));
    // What is forwarded was judged before, and Pingora is to have no opinion about it.
    let mut options = HttpServerOptions::default();
    options.allow_connect_method_proxying = true;
    engine.server_options = Some(options);
    Arc::new(engine)
}
