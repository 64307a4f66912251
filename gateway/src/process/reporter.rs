//! Where parts of the data plane tell the control plane what no delta has asked for.

use std::sync::Arc;

use sluice_config::Report;

/// Takes such reports ([`Report::EndpointEjected`], [`Report::Died`]). Called on the request path: it must not block.
pub type Reporter = Arc<dyn Fn(Report) + Send + Sync>;
