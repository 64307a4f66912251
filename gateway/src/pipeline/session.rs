//! Which endpoint a session belongs to, and how a new session begins.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use sluice_config::AffinityMode;
use smallvec::SmallVec;

use crate::policy::Affinity;
use crate::policy::affinity::{Session, balanced_key};
use crate::registry::{Endpoint, PickError, PickKey, PickRequest, Pool};
use crate::route::Sticky;

/// How often a key is thrown for an endpoint that has not failed, as ingress-nginx does.
const ATTEMPTS: u32 = 20;

/// The key of the request's session cookie, kept for retries.
#[derive(Clone, Debug)]
pub(super) struct BoundSession {
    key: SmallVec<[u8; 40]>,
}

/// The endpoint for a try of a request with affinity.
pub(super) struct Choice {
    pub(super) endpoint: Arc<Endpoint>,
    /// The key of a session that begins with this try.
    pub(super) new_key: Option<String>,
}

impl BoundSession {
    pub(super) fn new(session: Session<'_>) -> Self {
        Self { key: session.key.into() }
    }

    /// The endpoint that the session belongs to, whatever its health.
    fn endpoint(&self, affinity: &Affinity, pool: &Pool, sticky: &Sticky) -> Option<Arc<Endpoint>> {
        match affinity.mode {
            AffinityMode::Balanced => pool.owner(&self.key),
            AffinityMode::Persistent => {
                sticky.sessions.as_ref()?.endpoint(std::str::from_utf8(&self.key).ok()?)
            }
        }
    }
}

/// Follows the session, or begins one. A session stays with its endpoint through failures unless
/// `change_on_failure` says otherwise: then its client sees the failure, but keeps its state. An
/// endpoint that fails the checks that somebody asked for is not followed while another one passes
/// them.
pub(super) fn choose(
    affinity: &Affinity,
    pool: &Pool,
    sticky: &Sticky,
    session: Option<&BoundSession>,
    failed: &[Arc<Endpoint>],
    now: Instant,
) -> Result<Choice, PickError> {
    let moves = !failed.is_empty() && affinity.change_on_failure;
    let bound = session.filter(|_| !moves);
    let own = bound.and_then(|session| session.endpoint(affinity, pool, sticky));
    if let Some(endpoint) = own.as_ref().filter(|endpoint| pool.passes_check(endpoint)) {
        return Ok(Choice { endpoint: endpoint.clone(), new_key: None });
    }
    if let Some(session) = bound.filter(|_| affinity.mode == AffinityMode::Balanced) {
        // Its place on the ring leads to the next endpoint meanwhile, or the ring is not built yet.
        // Any key has a place on it, so the cookie stays good.
        let key = PickKey { bytes: &session.key, subset: None };
        let endpoint = super::call::pick(pool, Some(key), failed, now)?;
        return Ok(Choice { endpoint, new_key: None });
    }
    match affinity.mode {
        AffinityMode::Balanced => begin_balanced(pool, failed),
        AffinityMode::Persistent => {
            let endpoint = super::call::pick(pool, None, failed, now)?;
            if let Some(own) = own.filter(|_| !pool.passes_check(&endpoint)) {
                // No other one is better.
                return Ok(Choice { endpoint: own, new_key: None });
            }
            let new_key = sticky.sessions.as_ref().map(|sessions| sessions.hash(&endpoint));
            Ok(Choice { endpoint, new_key })
        }
    }
}

/// Throws keys until one falls on an endpoint that is well, or at least has not failed this
/// request.
fn begin_balanced(pool: &Pool, failed: &[Arc<Endpoint>]) -> Result<Choice, PickError> {
    let (time, now) = (SystemTime::now(), Instant::now());
    let mut second_best = None;
    for attempt in 1..=ATTEMPTS {
        let key = balanced_key(time, attempt);
        let Some(endpoint) = pool.owner(key.as_bytes()) else { break };
        if failed.iter().any(|failed| failed.address() == endpoint.address()) {
            continue;
        }
        let usable = pool.is_usable(&endpoint, now);
        let choice = Choice { endpoint, new_key: Some(key) };
        if usable {
            return Ok(choice);
        }
        second_best.get_or_insert(choice);
    }
    // Without a ring, or with none of the keys on a new endpoint: no session begins with this
    // request.
    let request = PickRequest { key: None, tried: failed, now };
    match second_best {
        Some(choice) => Ok(choice),
        None => pool.pick(&request).map(|endpoint| Choice { endpoint, new_key: None }),
    }
}
