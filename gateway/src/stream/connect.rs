//! A connection to an endpoint, tried at several of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_config::StreamSettings;

use super::session::{NO_ENDPOINTS, StreamSession, UNREACHABLE};
use crate::io::failure::FailureKind;
use crate::registry::{Endpoint, InFlight, PickError, PickRequest};
use crate::upstream::attempt::Upstream;
use crate::upstream::connect::{ConnectionGate, obtain_new};
use crate::upstream::connection::Connection;
use crate::worker::Worker;

/// Time limit of one attempt: the default of nginx's stream module, which ingress-nginx keeps.
const CONNECT: Duration = Duration::from_secs(60);
/// Maximum number of attempts, as for requests.
const MOST_ATTEMPTS: usize = 16;

/// Connects to an endpoint of the session's pool. The error is the status of the stream. An
/// endpoint that refuses connections is ejected, as for requests.
pub(super) async fn connect(
    session: &mut StreamSession,
    settings: &StreamSettings,
    worker: &Worker,
) -> Result<(Connection, InFlight), u16> {
    let began = Instant::now();
    let pool = session.route.pool.clone();
    let mut tried: Vec<Arc<Endpoint>> = Vec::new();
    let mut waited_since = None;
    loop {
        let now = Instant::now();
        let endpoint = match pool.pick(&PickRequest { key: None, tried: &tried, now }) {
            Ok(endpoint) => endpoint,
            Err(PickError::NoEndpoints) => return Err(NO_ENDPOINTS),
            Err(PickError::Exhausted) => return Err(UNREACHABLE),
        };
        session.attempts.push(endpoint.address());
        let mut in_flight = endpoint.enter();
        let clients = worker.drain.shared();
        let mut gate = ConnectionGate { in_flight: Some(&mut in_flight), clients, may_wait: true };
        let upstream = Upstream::raw(&endpoint, Some(CONNECT), now);
        let kind = match obtain_new(&upstream, &mut gate, &mut waited_since).await {
            Ok(connection) => {
                endpoint.succeeded(now);
                session.connect = Some(now.elapsed());
                return Ok((connection, in_flight));
            }
            Err(kind) => kind,
        };
        if matches!(kind, FailureKind::Connect | FailureKind::ConnectTimeout) {
            pool.failed(&endpoint, Instant::now());
        }
        tried.push(endpoint);
        let most = match settings.next_upstream_tries as usize {
            0 => MOST_ATTEMPTS,
            tries => tries.min(MOST_ATTEMPTS),
        };
        let is_late = settings.next_upstream_timeout.is_some_and(|limit| began.elapsed() >= limit);
        if !settings.next_upstream || tried.len() >= most || is_late {
            return Err(UNREACHABLE);
        }
        worker.state.telemetry.retried();
    }
}
