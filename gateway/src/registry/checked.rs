//! Checks that are made, and what they have found, for metrics.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use sluice_config::{EndpointSetKey, HealthCheck};

use super::check::{self, CheckError};
use super::prober::ProbePolicy;

/// What active checks have found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Endpoints that are checked, once for each check.
    pub endpoints: Vec<CheckedEndpoint>,
    /// Checks that have been passed since the start.
    pub passed: u64,
    /// Checks that have failed.
    pub failed: u64,
}

/// An endpoint and one of its checks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedEndpoint {
    /// Its Service port.
    pub set: EndpointSetKey,
    /// Its address.
    pub address: SocketAddr,
    /// The check, in words.
    pub check: String,
    /// Whether it passes, as far as enough checks in a row say.
    pub is_healthy: bool,
}

/// Checks in use: equal ones share what carries them out.
#[derive(Default)]
pub(super) struct Checks(HashMap<(Arc<HealthCheck>, bool), Weak<ProbePolicy>>);

impl Checks {
    /// What carries this check out, over TLS or without.
    ///
    /// # Errors
    /// It cannot be made.
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
