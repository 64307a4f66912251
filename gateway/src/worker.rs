//! What the connections of one worker share.
//!
//! The rooms that serve connections use this and need not know the threads that run them.

use std::sync::Arc;

use crate::descriptors::Shares;
use crate::drain::LocalDrain;
use crate::driver::Driver;
use crate::state::State;
use crate::tls::CertificateStore;

/// One worker, as its connections see it.
pub(crate) struct Worker {
    pub(crate) state: Arc<State>,
    pub(crate) certificates: Arc<CertificateStore>,
    pub(crate) drain: LocalDrain,
    pub(crate) driver: Driver,
    /// Idle connections to endpoints that there is room for.
    pub(crate) idle: usize,
    /// How many workers there are.
    pub(crate) count: usize,
}

impl Worker {
    /// Client connections that all workers together may have; 0 is no limit.
    pub(crate) fn client_limit(&self) -> usize {
        let configured = self.state.settings().max_connections.saturating_mul(self.count);
        Shares::of_process().clients_within(configured)
    }
}
