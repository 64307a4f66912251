//! Who is kept out, and how much a client may ask for.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::name::NamespacedName;

/// A network: an address and how many of its leading bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Network {
    /// The address. Bits that do not count mean nothing.
    pub address: IpAddr,
    /// At most 32 for version 4, 128 for version 6.
    pub prefix: u8,
}

/// Which clients a rule serves, by address. Each is the Tuning's where it is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sources {
    /// Nobody else gets in (`allowlist-source-range`).
    pub allow: Option<Arc<[Network]>>,
    /// These do not, whatever else says so (`denylist-source-range`).
    pub deny: Option<Arc<[Network]>>,
}

/// Which of the checks of who gets in count: address lists, passwords, and the word of another service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Satisfy {
    /// All that a rule has.
    #[default]
    All,
    /// Any one of them lets a request in. A rule that has none lets every request in.
    Any,
}

/// Who gets 403 everywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks {
    /// Clients from here (`block-cidrs`).
    pub networks: Arc<[Network]>,
    /// Requests with such a `User-Agent` (`block-user-agents`).
    pub user_agents: Arc<[Blocked]>,
    /// Requests with such a `Referer` (`block-referers`).
    pub referers: Arc<[Blocked]>,
}

/// The value of a field that is blocked.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Blocked {
    /// This, without regard to case.
    Text(Arc<str>),
    /// One in which this linear-time regular expression is found.
    Regex(Arc<str>),
}

/// How much one client, by its address, may ask for of all rules in a zone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limits {
    /// What is counted together: the rules of one Ingress.
    pub zone: NamespacedName,
    /// Requests at a time; 0 is any number (`limit-connections`).
    pub connections: u32,
    /// Requests a second; 0 is any number (`limit-rps`).
    pub per_second: u32,
    /// Requests a minute; 0 is any number (`limit-rpm`).
    pub per_minute: u32,
    /// How many requests may come early, as a multiple of the rate (`limit-burst-multiplier`).
    pub burst: u32,
    /// Clients from here are not limited (`limit-allowlist`).
    pub exempt: Arc<[Network]>,
}
