//! The replicas of the gateway, which share the limits of clients.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::resource::ResourceKey;

/// All replicas of the gateway (`limit-across-replicas`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Replicas {
    /// Address on which this replica publishes its use of limits (`--replica-address`).
    pub listen: SocketAddr,
    /// Addresses of all replicas, sorted. This replica is among them once it is an endpoint.
    pub addresses: Vec<SocketAddr>,
    /// The name that the certificate of a replica must be valid for.
    pub name: Arc<str>,
    /// Certificate and authorities of all replicas: a resource of kind `EndpointTrust`. Without it,
    /// replicas do not communicate, and each has its share of every limit.
    pub identity: Option<ResourceKey>,
}
