//! The only way into the data plane.
//!
//! A receiver understands all of a delta or refuses it: a field or variant that it does not know may be the one that
//! closes a route. So whoever reads one that another version may have written holds what it understood against what
//! came, as the control plane does with its snapshot file.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::certificate::{Certificate, CertificateId};
use crate::endpoint::{EndpointSet, EndpointSetKey};
use crate::host::{Host, HostKey};
use crate::listener::{GroupId, ListenerGroup};
use crate::pool::{Pool, PoolKey};
use crate::resource::{Resource, ResourceKey};
use crate::tuning::Tuning;

/// Counts deltas, from 1. The data plane acknowledges each in a [`Report`](crate::Report).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A new value, or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change<K, V> {
    /// The value under this key is new or another.
    Put(K, V),
    /// There is no value under this key any more.
    Remove(K),
}

impl<K, V> Change<K, V> {
    /// The key that changes.
    pub fn key(&self) -> &K {
        match self {
            Self::Put(key, _) | Self::Remove(key) => key,
        }
    }
}

/// What is different from the generation before. Applied as one: tuning, certificates, resources, endpoint
/// sets, pools, hosts and listener groups, and only then the removals, so that nothing is referred to before it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// Number of this delta.
    pub generation: Generation,
    /// Whether the state after this delta is a complete one. False only before every source has been read
    /// once; the data plane binds its listeners at once and starts to accept with the first complete state.
    pub complete: bool,
    /// New global settings.
    pub tuning: Option<Arc<Tuning>>,
    /// Certificates.
    pub certificates: Vec<Change<CertificateId, Arc<Certificate>>>,
    /// Resources.
    pub resources: Vec<Change<ResourceKey, Arc<Resource>>>,
    /// Endpoints.
    pub endpoint_sets: Vec<Change<EndpointSetKey, Arc<EndpointSet>>>,
    /// Pools.
    pub pools: Vec<Change<PoolKey, Arc<Pool>>>,
    /// Hosts.
    pub hosts: Vec<Change<HostKey, Arc<Host>>>,
    /// Listener groups.
    pub groups: Vec<Change<GroupId, Arc<ListenerGroup>>>,
}

impl Delta {
    /// Whether applying it would change nothing.
    pub fn is_empty(&self) -> bool {
        self.tuning.is_none()
            && self.certificates.is_empty()
            && self.resources.is_empty()
            && self.endpoint_sets.is_empty()
            && self.pools.is_empty()
            && self.hosts.is_empty()
            && self.groups.is_empty()
    }
}
