//! The only way out of the data plane.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::certificate::CertificateId;
use crate::delta::Generation;
use crate::endpoint::EndpointSetKey;
use crate::host::HostKey;
use crate::listener::GroupId;
use crate::name::Origin;
use crate::pool::PoolKey;
use crate::problem::Code;
use crate::resource::ResourceKey;

/// A fact that the data plane tells the control plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// A delta is in force: every request that arrives from now on is served by it.
    Applied {
        /// Which one.
        generation: Generation,
        /// How long applying took.
        took: Duration,
        /// Parts that could not be used. Their last good value, if any, stays in force; everything else of
        /// the delta is applied.
        refused: Vec<Refusal>,
        /// Parts that were refused with an earlier delta and are in use from now on.
        accepted: Vec<Subject>,
    },
    /// The sockets of a group as they are now.
    Binds {
        /// Which group.
        group: GroupId,
        /// One entry per socket.
        results: Vec<BindResult>,
    },
    /// An endpoint was taken out because connections to it failed.
    EndpointEjected {
        /// The set it is in.
        set: EndpointSetKey,
        /// The endpoint.
        address: SocketAddr,
        /// For how long.
        duration: Duration,
    },
    /// A part of the data plane has ended that should run for as long as the process does. What it did is not done any
    /// more: the process should be started anew.
    Died {
        /// Which one, as `worker-0`.
        part: String,
    },
}

/// A part of a delta that the data plane could not use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Which part.
    pub subject: Subject,
    /// The rule that it is about, where it is about one.
    pub origin: Option<Box<Origin>>,
    /// Why, for programs.
    pub code: Code,
    /// Why, in words for an operator.
    pub reason: String,
}

/// A part of the configuration that can be refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Subject {
    /// Global settings.
    Tuning,
    /// A certificate.
    Certificate(CertificateId),
    /// The endpoints of a Service port.
    EndpointSet(EndpointSetKey),
    /// A resource.
    Resource(ResourceKey),
    /// A pool.
    Pool(PoolKey),
    /// A host.
    Host(HostKey),
    /// A listener group.
    Group(GroupId),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tuning => f.write_str("global settings"),
            Self::Certificate(id) => write!(f, "certificate {id}"),
            Self::EndpointSet(key) => write!(f, "endpoints {key}"),
            Self::Resource(key) => write!(f, "resource {key}"),
            Self::Pool(key) => write!(f, "pool {key}"),
            Self::Host(key) => write!(f, "host {}", key.pattern),
            Self::Group(id) => write!(f, "listeners {id}"),
        }
    }
}

/// What became of one socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindResult {
    /// The address that was asked for; with the real port when port 0 was asked for and bound.
    pub address: SocketAddr,
    /// Why it is not bound, if so. The data plane goes on trying.
    pub error: Option<BindError>,
}

/// Why a socket is not bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindError {
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub remedy: String,
    /// The address is not one of this machine now. It may become one: addresses move between machines.
    pub foreign: bool,
    /// Earlier addresses that stay open in the meantime.
    pub instead: Vec<SocketAddr>,
}

impl BindError {
    /// What is wrong, and what is served in the meantime.
    pub fn cause(&self) -> String {
        let Self { message, instead, .. } = self;
        if instead.is_empty() {
            return message.clone();
        }
        let instead: Vec<String> = instead.iter().map(SocketAddr::to_string).collect();
        format!("still serving on {} because {message}", instead.join(", "))
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.cause(), self.remedy)
    }
}
