//! Sink for the data plane's reports that no delta requested.

use std::sync::Arc;

use sluice_config::Report;

/// Receives such reports ([`Report::EndpointEjected`], [`Report::Died`]). Called on the request
/// path: must not block.
pub type Reporter = Arc<dyn Fn(Report) + Send + Sync>;
