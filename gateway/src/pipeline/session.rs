//! Finds the endpoint of a session, and begins new sessions.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use sluice_config::AffinityMode;
use smallvec::SmallVec;

use crate::policy::Affinity;
use crate::policy::affinity::{SessionCookie, balanced_key};
use crate::registry::{Endpoint, PickError, PickKey, PickRequest, Pool};
use crate::route::Sticky;

/// Maximum number of random keys tried for an endpoint that has not failed, as in ingress-nginx.
const ATTEMPTS: u32 = 20;

/// The key of the request's session cookie, kept for retries.
#[derive(Clone, Debug)]
pub(super) struct BoundSession {
    key: SmallVec<[u8; 40]>,
}

/// The endpoint for an attempt of a request with affinity.
pub(super) struct AffinityChoice {
    pub(super) endpoint: Arc<Endpoint>,
    /// The key of a session that begins with this attempt.
    pub(super) new_key: Option<String>,
}

impl BoundSession {
    pub(super) fn new(session: SessionCookie<'_>) -> Self {
        Self { key: session.key.into() }
    }

    /// Returns the endpoint that the session belongs to, whatever its health.
    fn endpoint(&self, affinity: &Affinity, pool: &Pool, sticky: &Sticky) -> Option<Arc<Endpoint>> {
        match affinity.mode {
            AffinityMode::Balanced => pool.owner(&self.key),
            AffinityMode::Persistent => {
                sticky.sessions.as_ref()?.endpoint(std::str::from_utf8(&self.key).ok()?)
            }
        }
    }
}

/// Returns the session's endpoint, or begins a session. A session stays with its endpoint through
/// failures, so that its client keeps its state, unless `change_on_failure` is set. An endpoint
/// that fails its active health check is skipped while another one passes.
pub(super) fn choose(
    affinity: &Affinity,
    pool: &Pool,
    sticky: &Sticky,
    session: Option<&BoundSession>,
    failed: &[Arc<Endpoint>],
    now: Instant,
) -> Result<AffinityChoice, PickError> {
    let moves = !failed.is_empty() && affinity.change_on_failure;
    let bound = session.filter(|_| !moves);
    let own = bound.and_then(|session| session.endpoint(affinity, pool, sticky));
    if let Some(endpoint) = own.as_ref().filter(|endpoint| pool.passes_check(endpoint)) {
        return Ok(AffinityChoice { endpoint: endpoint.clone(), new_key: None });
    }
    if let Some(session) = bound.filter(|_| affinity.mode == AffinityMode::Balanced) {
        // The next endpoint on the ring takes over, or the ring is not built yet. Every key maps to
        // the ring, so the cookie stays valid.
        let key = PickKey { bytes: &session.key, subset: None };
        let endpoint = super::call::pick(pool, Some(key), failed, now)?;
        return Ok(AffinityChoice { endpoint, new_key: None });
    }
    match affinity.mode {
        AffinityMode::Balanced => begin_balanced(pool, failed),
        AffinityMode::Persistent => {
            let endpoint = super::call::pick(pool, None, failed, now)?;
            if let Some(own) = own.filter(|_| !pool.passes_check(&endpoint)) {
                // No other endpoint is better.
                return Ok(AffinityChoice { endpoint: own, new_key: None });
            }
            let new_key = sticky.sessions.as_ref().map(|sessions| sessions.hash(&endpoint));
            Ok(AffinityChoice { endpoint, new_key })
        }
    }
}

/// Tries random keys until one maps to an endpoint that takes the request, or at least to one that
/// has not failed it.
fn begin_balanced(pool: &Pool, failed: &[Arc<Endpoint>]) -> Result<AffinityChoice, PickError> {
    let (time, now) = (SystemTime::now(), Instant::now());
    let mut second_best = None;
    for attempt in 1..=ATTEMPTS {
        let key = balanced_key(time, attempt);
        let Some(endpoint) = pool.owner(key.as_bytes()) else { break };
        if failed.iter().any(|failed| failed.address() == endpoint.address()) {
            continue;
        }
        let admitted = pool.admits(&endpoint, now);
        let choice = AffinityChoice { endpoint, new_key: Some(key) };
        if admitted {
            return Ok(choice);
        }
        second_best.get_or_insert(choice);
    }
    // Without a ring, or if no key maps to a new endpoint, no session begins.
    let request = PickRequest { key: None, tried: failed, now };
    match second_best {
        Some(choice) => Ok(choice),
        None => pool.pick(&request).map(|endpoint| AffinityChoice { endpoint, new_key: None }),
    }
}
