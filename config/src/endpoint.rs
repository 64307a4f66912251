//! Endpoints: the addresses behind a Service port.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::by_key::Keyed;

/// Identity of an endpoint set: one Service port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EndpointSetKey {
    /// Namespace of the Service.
    pub namespace: Arc<str>,
    /// Name of the Service.
    pub service: Arc<str>,
    /// Name of the Service port, as in EndpointSlices; empty for a single, unnamed port.
    pub port: Arc<str>,
}

impl fmt::Display for EndpointSetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.namespace, self.service, self.port)
    }
}

/// The usable endpoints of a Service port, sorted by address, without duplicates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointSet {
    /// Identity.
    pub key: EndpointSetKey,
    /// Endpoints.
    pub endpoints: Vec<Endpoint>,
}

impl Keyed for EndpointSet {
    type Key = EndpointSetKey;

    fn key(&self) -> &EndpointSetKey {
        &self.key
    }
}

/// One endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Endpoint {
    /// Pod address and target port.
    pub address: SocketAddr,
    /// Zone of the endpoint, for introspection and topology-aware routing.
    pub zone: Option<Arc<str>>,
}
