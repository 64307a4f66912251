//! A replica and its documents.

use std::net::SocketAddr;

use serde::de::DeserializeOwned;

use crate::admin_client::{QueryError, query};

/// A running gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Replica {
    /// Namespace and name of its Pod; empty for the one of this machine.
    pub(crate) name: String,
    /// Its admin listener, or a port that is forwarded there; or why it cannot be reached.
    pub(crate) address: Result<SocketAddr, String>,
}

impl Replica {
    /// The replica of this machine.
    pub(crate) fn here(address: SocketAddr) -> Self {
        Self { name: String::new(), address: Ok(address) }
    }

    /// Returns the address.
    ///
    /// # Errors
    /// The replica cannot be reached.
    pub(super) fn reach(&self) -> Result<SocketAddr, QueryError> {
        self.address.clone().map_err(|reason| QueryError::NotForwarded { reason })
    }

    /// Returns the text of a document of the admin listener.
    ///
    /// # Errors
    /// The replica is unreachable, or its response is invalid.
    pub(super) fn text(&self, path: &str) -> Result<String, QueryError> {
        query(self.reach()?, path)
    }

    /// Returns a document of the admin listener.
    ///
    /// # Errors
    /// The replica is unreachable, or its response is invalid.
    pub(super) fn document<T: DeserializeOwned>(&self, path: &str) -> Result<T, QueryError> {
        let address = self.reach()?;
        serde_json::from_str(&query(address, path)?)
            .map_err(|error| QueryError::NotSluice { address, reason: error.to_string() })
    }
}

/// Returns the begin of a message about a replica: its name, or nothing for that of this machine.
pub(super) fn prefix(replica: &str) -> String {
    if replica.is_empty() { String::new() } else { format!("{replica}: ") }
}
