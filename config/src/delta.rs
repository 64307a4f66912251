//! Deltas: the only input of the data plane.
//!
//! A receiver decodes a delta completely or rejects it, because an unknown field or variant may be
//! the one that closes a route. Code that reads a delta of another version therefore compares the
//! decoded value with the input, as the control plane does with its snapshot file.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::certificate::{Certificate, CertificateId};
use crate::endpoint::{EndpointSet, EndpointSetKey};
use crate::global_settings::GlobalSettings;
use crate::host::{Host, HostKey};
use crate::listener::{GroupId, ListenerGroup};
use crate::pool::{Pool, PoolKey};
use crate::resource::{Resource, ResourceKey};

/// Number of a delta, from 1. The data plane acknowledges each in a [`Report`](crate::Report).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A change of one keyed value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change<K, V> {
    /// Sets the value of this key.
    Put(K, V),
    /// Removes the value of this key.
    Remove(K),
}

impl<K, V> Change<K, V> {
    /// Returns the key of the change.
    pub fn key(&self) -> &K {
        match self {
            Self::Put(key, _) | Self::Remove(key) => key,
        }
    }
}

/// Changes since the previous generation, applied as one. The order is: settings, certificates,
/// resources, endpoint sets, pools, hosts, listener groups, then the removals. References are
/// therefore never dangling.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delta {
    /// Number of this delta.
    pub generation: Generation,
    /// Whether the state after this delta is complete. It is false only until every source has been
    /// read once. The data plane binds its listeners at once and accepts connections from the first
    /// complete state on.
    pub complete: bool,
    /// New global settings.
    pub settings: Option<Arc<GlobalSettings>>,
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
    /// Returns whether the delta changes nothing.
    pub fn is_empty(&self) -> bool {
        self.settings.is_none()
            && self.certificates.is_empty()
            && self.resources.is_empty()
            && self.endpoint_sets.is_empty()
            && self.pools.is_empty()
            && self.hosts.is_empty()
            && self.groups.is_empty()
    }
}
