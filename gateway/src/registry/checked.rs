//! Active checks and their results, for metrics.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use sluice_config::{EndpointSetKey, HealthCheck};

use super::check::{self, CheckError};
use super::prober::ProbePolicy;

/// The results of active checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthCheckResults {
    /// One per endpoint and check.
    pub endpoints: Vec<CheckedEndpoint>,
    /// Number of checks passed since the start.
    pub passed: u64,
    /// Number of checks failed since the start.
    pub failed: u64,
}

/// An endpoint and one of its checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedEndpoint {
    /// The Service port.
    pub set: EndpointSetKey,
    /// The address of the endpoint.
    pub address: SocketAddr,
    /// The check in words.
    pub check: String,
    /// Whether the endpoint is healthy, after the required number of consecutive results.
    pub is_healthy: bool,
}

/// Checks in use. Equal ones share a policy.
#[derive(Default)]
pub(super) struct Checks(HashMap<(Arc<HealthCheck>, bool), Weak<ProbePolicy>>);

impl Checks {
    /// Returns the policy of this check, with or without TLS.
    ///
    /// # Errors
    /// The check cannot be created.
    pub(super) fn make(
        &mut self,
        check: &Arc<HealthCheck>,
        tls: bool,
    ) -> Result<Arc<ProbePolicy>, CheckError> {
        let key = (check.clone(), tls);
        if let Some(made) = self.0.get(&key).and_then(Weak::upgrade) {
            return Ok(made);
        }
        let made = check::make(check, tls)?;
        self.0.retain(|_, policy| policy.strong_count() > 0);
        self.0.insert(key, Arc::downgrade(&made));
        Ok(made)
    }
}
