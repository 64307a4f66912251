//! Reports: the only output of the data plane.

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

/// An event that the data plane reports to the control plane.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Report {
    /// A delta is in force. It applies to every request that arrives from now on.
    Applied {
        /// Generation of the delta.
        generation: Generation,
        /// Time that applying it took.
        took: Duration,
        /// Parts that were refused. The last good value of each, if any, stays in force. All other
        /// parts of the delta are applied.
        refused: Vec<Refusal>,
        /// Parts that an earlier delta failed to apply and that are in use from now on.
        accepted: Vec<Subject>,
    },
    /// The current sockets of a listener group.
    Binds {
        /// Listener group.
        group: GroupId,
        /// One entry per socket.
        results: Vec<BindResult>,
    },
    /// An endpoint was ejected because connections to it failed.
    EndpointEjected {
        /// Endpoint set of the endpoint.
        set: EndpointSetKey,
        /// Address of the endpoint.
        address: SocketAddr,
        /// Duration of the ejection.
        duration: Duration,
    },
    /// A part that must run as long as the process has ended. Its work is no longer done, so the
    /// process should be restarted.
    Died {
        /// Name of the part, such as `worker-0`.
        part: String,
    },
}

/// A part of a delta that the data plane refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// The refused part.
    pub subject: Subject,
    /// The rule in question, if the problem concerns one rule.
    pub origin: Option<Box<Origin>>,
    /// Problem code.
    pub code: Code,
    /// Reason, as text for an operator.
    pub reason: String,
}

/// A part of the configuration that can be refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Subject {
    /// Global settings.
    GlobalSettings,
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
            Self::GlobalSettings => f.write_str("global settings"),
            Self::Certificate(id) => write!(f, "certificate {id}"),
            Self::EndpointSet(key) => write!(f, "endpoints {key}"),
            Self::Resource(key) => write!(f, "resource {key}"),
            Self::Pool(key) => write!(f, "pool {key}"),
            Self::Host(key) => write!(f, "host {}", key.pattern),
            Self::Group(id) => write!(f, "listeners {id}"),
        }
    }
}

/// The state of one socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindResult {
    /// Requested address. If port 0 was requested and bound, it has the actual port.
    pub address: SocketAddr,
    /// Bind error, if the socket is not bound. The data plane retries.
    pub error: Option<BindError>,
}

/// An error of a bind attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindError {
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub remedy: String,
    /// Whether the address does not belong to this machine at present. That can change, because
    /// addresses move between machines.
    pub foreign: bool,
    /// Previous addresses that stay open until the bind succeeds.
    pub instead: Vec<SocketAddr>,
}

impl BindError {
    /// Describes the error and the addresses that are served until it is fixed.
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
