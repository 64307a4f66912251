//! A replica and its documents.

use std::net::SocketAddr;

use serde::de::DeserializeOwned;

use crate::admin_client::{QueryError, query};

/// A running gateway whose admin listener is reachable from this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    /// Namespace and name of its Pod; empty for the one of this machine.
    pub(crate) name: String,
    /// Its admin listener, or a port that is forwarded there.
    pub(crate) address: SocketAddr,
}

impl Replica {
    /// The replica of this machine.
    pub(crate) fn here(address: SocketAddr) -> Self {
        Self { name: String::new(), address }
    }

    /// Returns a document of the admin listener.
    ///
    /// # Errors
    /// The replica is unreachable, or its response is invalid.
    pub(super) fn document<T: DeserializeOwned>(&self, path: &str) -> Result<T, QueryError> {
        let address = self.address;
        serde_json::from_str(&query(address, path)?)
            .map_err(|error| QueryError::NotSluice { address, reason: error.to_string() })
    }
}
