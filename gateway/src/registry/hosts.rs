//! Pools of hosts that requests determine, such as that of `auth-url: https://$host/oauth2/auth` on
//! a wildcard host.
//!
//! Clients choose these hosts, so everything about them is bounded: the hosts that are remembered
//! (the least recently used one is forgotten), concurrent look-ups, and the time that a request
//! waits. One look-up serves all requests for its host, and a failure holds for a short time. As
//! for configured names, addresses stay in use for an hour after look-ups start to fail.

use std::fmt;
use std::future::Future;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use lru::LruCache;
use sluice_config::dns_name::is_dns_name;
use sluice_config::{Balance, EndpointSetKey, PoolKey, UpstreamProtocol};
use tokio::sync::Semaphore;
use tokio::time::timeout_at;

use super::balance::DefaultBalance;
use super::endpoint_set::{EndpointSet, Members};
use super::pool::Pool;

/// Maximum number of hosts that are remembered.
const MOST: NonZeroUsize = NonZeroUsize::new(1024).unwrap();
/// Maximum number of concurrent look-ups.
const MOST_LOOK_UPS: usize = 64;
/// Time for which a failed look-up is not repeated.
const FAILURE_HOLDS: Duration = Duration::from_secs(2);
/// Time for which an address that is its own host is not converted again.
const ADDRESS_HOLDS: Duration = Duration::from_secs(300);
/// Time for which addresses stay in use after look-ups start to fail.
const STALE: Duration = Duration::from_secs(3600);
/// Time limit of a request that has no time limit for connections.
const LONGEST: Duration = Duration::from_secs(30);

/// The addresses of a host.
#[derive(Clone, Debug)]
pub struct HostAddresses {
    /// The addresses.
    pub addresses: Vec<IpAddr>,
    /// Time to live.
    pub holds: Duration,
}

/// Looks up the addresses of a host; `None` if there are none. Dropping the future ends the
/// look-up.
pub type HostLookUp =
    Box<dyn Fn(Arc<str>) -> Pin<Box<dyn Future<Output = Option<HostAddresses>> + Send>> + Send + Sync>;

/// A host that a request has determined, with the port and protocol of its URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestHost {
    /// A name in lower case without a final dot, or an address without brackets.
    name: Arc<str>,
    address: Option<IpAddr>,
    port: u16,
    protocol: UpstreamProtocol,
}

/// Remembered hosts.
pub(super) struct RequestHosts {
    look_up: OnceLock<HostLookUp>,
    known: Mutex<LruCache<RequestHost, Arc<HostEntry>>>,
    look_ups: Semaphore,
}

#[derive(Default)]
struct HostEntry {
    current: ArcSwapOption<KnownHost>,
    /// Held during a look-up.
    writer: tokio::sync::Mutex<HostWriter>,
}

/// The result of the last look-up.
struct KnownHost {
    /// `None` if the host has no addresses.
    pool: Option<Arc<Pool>>,
    until: Instant,
}

#[derive(Default)]
struct HostWriter {
    /// The addresses of the last successful look-up.
    found: Option<FoundHost>,
}

struct FoundHost {
    members: Members,
    pool: Arc<Pool>,
    at: Instant,
}

impl RequestHost {
    /// Returns the host; `None` if the text is neither a name (RFC 1123 §2.1, with underscores) nor
    /// an address.
    pub fn new(text: &[u8], port: u16, protocol: UpstreamProtocol) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let of_address = |address: IpAddr| Self {
            name: address.to_string().into(),
            address: Some(address),
            port,
            protocol,
        };
        if let Some(literal) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            return literal.parse::<Ipv6Addr>().ok().map(|address| of_address(address.into()));
        }
        if let Ok(address) = text.parse::<std::net::Ipv4Addr>() {
            return Some(of_address(address.into()));
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        is_dns_name(name).then(|| Self {
            name: name.to_ascii_lowercase().into(),
            address: None,
            port,
            protocol,
        })
    }

    /// Returns the server name for TLS: none without TLS and for an address.
    pub fn server_name(&self) -> Option<Arc<str>> {
        (self.protocol.has_tls() && self.address.is_none()).then(|| self.name.clone())
    }

    fn pool_key(&self) -> PoolKey {
        PoolKey {
            // An empty namespace marks a target that is not a Service.
            endpoints: EndpointSetKey {
                namespace: "".into(),
                service: self.name.clone(),
                port: self.port.to_string().into(),
            },
            policy: "request".into(),
        }
    }
}

impl RequestHosts {
    pub(super) fn new() -> Self {
        Self {
            look_up: OnceLock::new(),
            known: Mutex::new(LruCache::new(MOST)),
            look_ups: Semaphore::new(MOST_LOOK_UPS),
        }
    }

    /// Sets the resolver. Without one, only addresses are hosts.
    pub(super) fn set_look_up(&self, look_up: HostLookUp) {
        // It is set once.
        let _ = self.look_up.set(look_up);
    }

    /// Forgets all hosts.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// Returns the pool of a host, looked up within this time limit; `None` if there are no
    /// addresses. `is_allowed` is called for each new address.
    pub(super) async fn pool(
        &self,
        host: &RequestHost,
        limit: Option<Duration>,
        balance: &Arc<DefaultBalance>,
        is_allowed: impl Fn(&EndpointSetKey, SocketAddr) -> bool,
    ) -> Option<Arc<Pool>> {
        let deadline = tokio::time::Instant::now() + limit.unwrap_or(LONGEST).min(LONGEST);
        let entry = self.lock().get_or_insert(host.clone(), Arc::default).clone();
        if let Some(known) = entry.known() {
            return known.pool.clone();
        }
        let mut writer = timeout_at(deadline, entry.writer.lock()).await.ok()?;
        // Another request may have looked it up meanwhile.
        if let Some(known) = entry.known() {
            return known.pool.clone();
        }
        let found = match host.address {
            Some(address) => Some(HostAddresses { addresses: vec![address], holds: ADDRESS_HOLDS }),
            None => {
                let _permit = timeout_at(deadline, self.look_ups.acquire()).await.ok()?;
                let look_up = self.look_up.get()?;
                timeout_at(deadline, look_up(host.name.clone())).await.ok().flatten()
            }
        };
        let now = Instant::now();
        let known = writer.update(host, found, now, balance, is_allowed);
        let pool = known.pool.clone();
        entry.current.store(Some(Arc::new(known)));
        pool
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, LruCache<RequestHost, Arc<HostEntry>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RequestHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHosts").field("known", &self.lock().len()).finish_non_exhaustive()
    }
}

impl HostEntry {
    /// Returns the result of the last look-up while it holds.
    fn known(&self) -> Option<Arc<KnownHost>> {
        self.current.load_full().filter(|known| Instant::now() < known.until)
    }
}

impl HostWriter {
    /// Publishes the result of a look-up.
    fn update(
        &mut self,
        host: &RequestHost,
        found: Option<HostAddresses>,
        now: Instant,
        balance: &Arc<DefaultBalance>,
        is_allowed: impl Fn(&EndpointSetKey, SocketAddr) -> bool,
    ) -> KnownHost {
        let key = host.pool_key();
        let allowed = |found: HostAddresses| {
            let addresses = found.addresses.into_iter().map(|ip| SocketAddr::new(ip, host.port));
            let addresses: Vec<_> =
                addresses.filter(|address| is_allowed(&key.endpoints, *address)).collect();
            (!addresses.is_empty()).then_some((addresses, found.holds))
        };
        let Some((addresses, holds)) = found.and_then(allowed) else {
            self.found.take_if(|found| now.saturating_duration_since(found.at) >= STALE);
            let pool = self.found.as_ref().map(|found| found.pool.clone());
            return KnownHost { pool, until: now + FAILURE_HOLDS };
        };
        let found = self.found.get_or_insert_with(|| {
            // No object of the cluster has this host, so nothing is reported about its endpoints.
            let members = Members::new(EndpointSet::new(key.endpoints.clone(), Arc::new(|_| {})));
            let config = Arc::new(sluice_config::Pool {
                key: key.clone(),
                protocol: host.protocol,
                balance: Balance::Inherit,
                slow_start: None,
                health_check: None,
            });
            let pool = Arc::new(Pool::new(config, members.set().clone(), balance.clone(), None));
            FoundHost { members, pool, at: now }
        });
        let endpoint = |address| sluice_config::Endpoint { address, zone: None };
        let endpoints: Vec<_> = addresses.into_iter().map(endpoint).collect();
        found.members.replace(&endpoints, now);
        found.at = now;
        KnownHost { pool: Some(found.pool.clone()), until: now + holds }
    }
}

#[cfg(test)]
mod tests;
