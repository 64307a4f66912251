//! The driver on Pingora's `ProxyHttp`: it turns Pingora's phases into the pipeline's steps and back.
//!
//! It serves every pair of protocols. It decides nothing: what a request gets is the pipeline's business, and
//! what is here is translation between types.

mod answer;
mod fields;
mod peer;
mod phases;
mod trouble;
mod trust;

use std::sync::Arc;

use crate::drain::Drain;
use crate::pipeline::{Answer, Exchange, Upstream};
use crate::state::State;

pub(crate) use trust::TrustAnchor;

/// What Pingora calls.
pub(crate) struct Service {
    state: Arc<State>,
    drain: Drain,
}

/// What a request keeps between phases.
#[derive(Default)]
pub(crate) struct Context {
    /// There from the first phase on, unless the connection carries no facts.
    exchange: Option<Box<Exchange>>,
    /// To be sent in place of a response.
    answer: Option<Answer>,
    /// The endpoint of the next try, where it is known already.
    upstream: Option<Upstream>,
    /// The response of this try is dropped for another try's.
    passed_over: bool,
    /// Octets of the response body that came from the endpoint.
    upstream_received: u64,
}

impl Service {
    /// A driver for one worker.
    pub(crate) fn new(state: Arc<State>, drain: Drain) -> Self {
        Self { state, drain }
    }
}
