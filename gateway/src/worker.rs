//! The state that the connections of one worker share. The modules that serve connections use it
//! without the threads that run them.

pub mod engine_choice;

use std::sync::Arc;

use crate::connection::drain::LocalDrain;
use crate::process::descriptors::DescriptorShares;
use crate::state::State;
use crate::tls::CertificateStore;
use crate::worker::engine_choice::EngineChoice;

/// One worker, as its connections see it.
pub(crate) struct Worker {
    pub(crate) state: Arc<State>,
    pub(crate) certificates: Arc<CertificateStore>,
    pub(crate) drain: LocalDrain,
    pub(crate) engine: EngineChoice,
    /// Idle connections to endpoints that there is room for.
    pub(crate) idle: usize,
    /// How many workers there are.
    pub(crate) count: usize,
}

impl Worker {
    /// How many workers serve new connections.
    pub(crate) fn serving(&self) -> usize {
        let published = self.state.published.load();
        published
            .compiled_settings
            .settings
            .workers
            .map_or(self.count, |workers| workers.get().min(self.count))
    }

    /// Client connections that all workers together may have; 0 is no limit.
    pub(crate) fn client_limit(&self) -> usize {
        let configured = self.state.settings().max_connections.saturating_mul(self.serving());
        DescriptorShares::of_process().clients_within(configured)
    }
}
