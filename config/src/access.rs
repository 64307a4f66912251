//! Access control: address lists, blocked clients, and limits per client.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::expression::ExtendedRegex;
use crate::name::NamespacedName;

/// A network: an address and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Network {
    /// The address. Bits beyond the prefix are ignored.
    pub address: IpAddr,
    /// Prefix length in bits: at most 32 for IPv4, 128 for IPv6.
    pub prefix: u8,
}

/// The text is no network and no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidNetwork;

/// Reads an address with or without a prefix length, like Go's `net.ParseCIDR`.
impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let (address, prefix) =
            text.split_once('/').map_or((text, None), |(address, digits)| (address, Some(digits)));
        let address: IpAddr = address.parse().map_err(|_| InvalidNetwork)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            None => most,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| InvalidNetwork)?
            }
            Some(_) => return Err(InvalidNetwork),
        };
        if prefix <= most { Ok(Self { address, prefix }) } else { Err(InvalidNetwork) }
    }
}

/// Address lists of a rule. A list that is `None` inherits the GlobalSettings's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sources {
    /// Serves only clients in these networks (`allowlist-source-range`).
    pub allow: Option<Arc<[Network]>>,
    /// Refuses clients in these networks, even if `allow` lists them (`denylist-source-range`).
    pub deny: Option<Arc<[Network]>>,
}

/// Whether all access checks must pass, or any one: address lists, passwords, external
/// authorisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Satisfy {
    /// Every check of the rule must pass.
    #[default]
    All,
    /// One passed check is sufficient. A rule without checks accepts every request.
    Any,
}

/// Clients that get 403 on every host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Blocks {
    /// Clients in these networks (`block-cidrs`).
    pub networks: Arc<[Network]>,
    /// Requests with a matching `User-Agent` (`block-user-agents`).
    pub user_agents: Arc<[Blocked]>,
    /// Requests with a matching `Referer` (`block-referers`).
    pub referers: Arc<[Blocked]>,
}

/// A pattern for a blocked header value.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Blocked {
    /// The whole value, compared without regard to case.
    Text(Arc<str>),
    /// A linear-time regular expression that matches anywhere in the value.
    Regex(Arc<str>),
    /// The same with extended syntax.
    Extended(Arc<ExtendedRegex>),
}

/// Limits per client address, over all rules of a zone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limits {
    /// The Ingress whose rules share the counters.
    pub zone: NamespacedName,
    /// Concurrent requests; 0 is no limit (`limit-connections`).
    pub connections: u32,
    /// Requests per second; 0 is no limit (`limit-rps`).
    pub per_second: u32,
    /// Requests per minute; 0 is no limit (`limit-rpm`).
    pub per_minute: u32,
    /// Size of the burst, as a multiple of the rate (`limit-burst-multiplier`).
    pub burst: u32,
    /// Whether responses describe the limits of rates (`sluice.dev/rate-limit-fields`).
    pub fields: bool,
    /// Networks whose clients are not limited (`limit-allowlist`).
    pub exempt: Arc<[Network]>,
}
