//! `limit-rps`, `limit-rpm` and `limit-connections`: limits per client.
//!
//! Rates are leaky buckets as in nginx, without delay: a client may be early by a number of
//! requests; earlier requests are refused and not counted. The limit of connections applies to
//! concurrent requests, whatever connections they use.
//!
//! All rules of an Ingress and all workers share the usage of a client, so the limits are exact for
//! the process. Replicas of the gateway can apply them together.

mod fields;
mod outbox;
mod rates;
mod requests;
mod set;
mod sharing;
mod zones;

use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::networks::Networks;
use fields::NamedRate;
use rates::Rates;
use requests::ConcurrentRequests;

pub(crate) use fields::RateFields;
pub(crate) use rates::ClientUse;
pub(crate) use requests::Permit;
pub(crate) use sharing::{LimitShare, LimitSharing, number};
pub use zones::ZoneLimits;

/// The compiled limits of a rule.
#[derive(Debug)]
pub struct Limits {
    usage: Arc<Usage>,
    /// Hash of the zone, which separates its clients from those of other zones.
    zone: u64,
    /// Maximum number of concurrent requests; 0 stands for unlimited.
    connections: u32,
    per_second: Option<Rate>,
    per_minute: Option<Rate>,
    /// Both rates for response fields; empty if responses do not have them.
    stated: Vec<(u8, NamedRate)>,
    exempt: Networks,
}

/// Separates the keys of a client for concurrent requests and for both rates.
const CONNECTIONS: u8 = 0;
const PER_SECOND: u8 = 1;
const PER_MINUTE: u8 = 2;

/// A request rate, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    /// Interval between two requests.
    interval: u64,
    /// How much earlier than its due time a request may come.
    early: u64,
}

/// A request exceeds a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded;

/// What identifies a client. Requests with an equal key belong to the same client.
#[derive(Debug)]
pub(crate) enum ClientKey {
    Address(IpAddr),
    Text(Vec<u8>),
}

impl Hash for ClientKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Address(address) => address.hash(state),
            Self::Text(text) => text.hash(state),
        }
    }
}

/// Usage of all clients in all zones. Its size does not depend on the number of clients.
#[derive(Debug)]
struct Usage {
    began: Instant,
    sharing: Arc<LimitSharing>,
    rates: Rates,
    requests: Arc<ConcurrentRequests>,
}

impl Usage {
    /// Nanoseconds since the tables were created.
    fn time(&self, now: Instant) -> u64 {
        let time = now.saturating_duration_since(self.began).as_nanos();
        u64::try_from(time).unwrap_or(u64::MAX)
    }
}

/// Provides the usage tables to limited rules. They exist only while a rule is limited.
#[derive(Debug, Default)]
pub struct Limiter {
    usage: Mutex<Weak<Usage>>,
    /// What the tables have in common with those of other replicas.
    pub(crate) sharing: Arc<LimitSharing>,
}

impl Limiter {
    /// Returns the usage tables and creates them if needed. Takes a lock, so it is only called when
    /// a rule is compiled.
    fn usage(&self) -> Arc<Usage> {
        let mut usage = self.lock();
        usage.upgrade().unwrap_or_else(|| {
            let new = Arc::new(Usage {
                began: Instant::now(),
                sharing: self.sharing.clone(),
                rates: Rates::default(),
                requests: Arc::default(),
            });
            *usage = Arc::downgrade(&new);
            new
        })
    }

    /// Takes the use that other replicas have not been sent yet.
    pub(crate) fn take_use(&self) -> Vec<ClientUse> {
        let mut all = Vec::new();
        if let Some(usage) = self.current() {
            usage.rates.take_use(|one| all.push(one));
        }
        all
    }

    /// Adds the use of another replica.
    pub(crate) fn add_use(&self, all: impl Iterator<Item = ClientUse>) {
        let Some(usage) = self.current() else { return };
        let (now, share) = (usage.time(Instant::now()), self.sharing.share());
        all.for_each(|one| usage.rates.add_use(one, now, share));
    }

    fn current(&self) -> Option<Arc<Usage>> {
        self.lock().upgrade()
    }

    fn lock(&self) -> MutexGuard<'_, Weak<Usage>> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Limits {
    /// Compiles the limits. Returns `None` if all are 0.
    pub fn compile(limits: &sluice_config::Limits, limiter: &Limiter) -> Option<Self> {
        let sluice_config::Limits { zone, connections, per_second, per_minute, burst, fields, exempt } =
            limits;
        if [connections, per_second, per_minute].into_iter().all(|limit| *limit == 0) {
            return None;
        }
        let usage = limiter.usage();
        let rate =
            |requests: u32, window: u32| Rate::new(requests, Duration::from_secs(window.into()), *burst);
        let named = |kind, name, requests: u32, window| {
            let rate = rate(requests, window).filter(|_| *fields)?;
            Some((kind, NamedRate { name, rate, requests, window }))
        };
        let stated = [named(PER_SECOND, "rps", *per_second, 1), named(PER_MINUTE, "rpm", *per_minute, 60)];
        Some(Self {
            zone: sharing::zone("ingress", &[&zone.namespace, &zone.name]),
            usage,
            connections: *connections,
            per_second: rate(*per_second, 1),
            per_minute: rate(*per_minute, 60),
            stated: stated.into_iter().flatten().collect(),
            exempt: Networks::compile(exempt),
        })
    }

    /// Returns whether `limit-allowlist` exempts the client from the limits.
    pub(crate) fn exempts(&self, client: IpAddr) -> bool {
        self.exempt.contains(client)
    }

    /// Whether there is a rate.
    pub(crate) fn has_rates(&self) -> bool {
        self.per_second.is_some() || self.per_minute.is_some()
    }

    /// Whether concurrent requests are limited.
    pub(crate) fn has_concurrency(&self) -> bool {
        self.connections > 0
    }

    /// Counts a request that arrived at `now` for both rates.
    ///
    /// # Errors
    /// It exceeds a rate, and is counted for neither.
    pub(crate) fn charge(&self, client: &ClientKey, now: Instant) -> Result<(), Exceeded> {
        let share = self.usage.sharing.share();
        let now = self.usage.time(now);
        let rates = &self.usage.rates;
        let charge = match self.per_second {
            Some(rate) => Some(rates.charge(self.key(PER_SECOND, client), now, rate, share).ok_or(Exceeded)?),
            None => None,
        };
        if let Some(rate) = self.per_minute
            && rates.charge(self.key(PER_MINUTE, client), now, rate, share).is_none()
        {
            charge.into_iter().for_each(|charge| rates.refund(charge));
            return Err(Exceeded);
        }
        Ok(())
    }

    /// Counts a concurrent request; `None` without a limit of them. The permit must be held until
    /// the request ends. As in nginx, the rates come first, and a request over its connections has
    /// used them.
    ///
    /// # Errors
    /// It exceeds the limit.
    pub(crate) fn admit(&self, client: &ClientKey) -> Result<Option<Permit>, Exceeded> {
        if !self.has_concurrency() {
            return Ok(None);
        }
        let Usage { sharing, requests, .. } = &*self.usage;
        let most = sharing.share().of_number(self.connections);
        ConcurrentRequests::admit(requests, self.key(CONNECTIONS, client), most).map(Some).ok_or(Exceeded)
    }

    /// Returns the fields for the response to a request that [`charge`](Self::charge) has counted
    /// or refused; `None` if responses do not have them.
    pub(crate) fn fields(&self, client: &ClientKey, now: Instant) -> Option<RateFields> {
        if self.stated.is_empty() {
            return None;
        }
        let Usage { sharing, rates, .. } = &*self.usage;
        let now = self.usage.time(now);
        let ahead = |kind| rates.ahead(self.key(kind, client), now);
        fields::describe(self.stated.iter().map(|(kind, rate)| (*rate, ahead(*kind))), sharing.share())
    }

    fn key(&self, kind: u8, client: &ClientKey) -> u64 {
        self.usage.sharing.hash((self.zone, kind, client))
    }
}

impl Rate {
    /// Returns `None` if there is no limit.
    fn new(requests: u32, per: Duration, burst: u32) -> Option<Self> {
        let per = u64::try_from(per.as_nanos()).unwrap_or(u64::MAX);
        let interval = per.checked_div(requests.into())?;
        // nginx accepts `rate * multiplier` early requests.
        Some(Self::of(interval, u64::from(requests).saturating_mul(burst.into())))
    }

    /// Maximum of both parts: far enough below that of the clock (97 years) that no sum overflows.
    const MOST: u64 = u64::MAX >> 2;

    /// The rate with this interval and so many early requests.
    fn of(interval: u64, burst: u64) -> Self {
        let early = interval.saturating_mul(burst).min(Self::MOST);
        Self { interval: interval.min(Self::MOST), early }
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::NamespacedName;

    use super::*;

    fn limits(change: impl FnOnce(&mut sluice_config::Limits)) -> sluice_config::Limits {
        let mut limits = sluice_config::Limits {
            zone: NamespacedName::new("default", "shop"),
            connections: 0,
            per_second: 0,
            per_minute: 0,
            burst: 5,
            fields: false,
            exempt: [].into(),
        };
        change(&mut limits);
        limits
    }

    fn compile(change: impl FnOnce(&mut sluice_config::Limits)) -> Limits {
        Limits::compile(&limits(change), &Limiter::default()).unwrap()
    }

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn client(last: u8) -> ClientKey {
        ClientKey::Address(address(last))
    }

    #[test]
    fn a_client_may_be_early_by_the_burst_and_then_gets_the_rate() {
        let limits = compile(|limits| (limits.per_second, limits.burst) = (10, 2));
        let start = Instant::now();
        let admitted = |client_, at: u64| {
            (0..100)
                .filter(|_| limits.charge(&client(client_), start + Duration::from_millis(at)).is_ok())
                .count()
        };
        assert_eq!(admitted(1, 0), 21);
        assert_eq!(admitted(2, 0), 21, "each client for itself");
        assert_eq!(admitted(1, 99), 0);
        assert_eq!(admitted(1, 100), 1);
        assert_eq!(admitted(1, 350), 2);
        assert_eq!(admitted(1, 10_000), 21);
    }

    #[test]
    fn a_request_refused_by_one_rate_does_not_count_for_the_other() {
        let limits = compile(|limits| (limits.per_second, limits.per_minute, limits.burst) = (100, 3, 1));
        let start = Instant::now();
        let admit = |at: u64| limits.charge(&client(1), start + Duration::from_secs(at));
        assert_eq!((0..1000).filter(|_| admit(0).is_ok()).count(), 4);
        assert_eq!(admit(0).unwrap_err(), Exceeded);
        assert!(admit(20).is_ok(), "the next of three a minute");
    }

    #[test]
    fn so_many_requests_are_under_way_at_a_time() {
        let limits = compile(|limits| limits.connections = 2);
        let first = limits.admit(&client(1)).unwrap();
        let second = limits.admit(&client(1)).unwrap();
        assert!(first.is_some() && second.is_some());
        assert_eq!(limits.admit(&client(1)).unwrap_err(), Exceeded);
        assert!(limits.admit(&client(2)).is_ok());
        drop(first);
        let third = limits.admit(&client(1)).unwrap();
        assert!(third.is_some() && limits.admit(&client(1)).is_err());
    }

    #[test]
    fn some_clients_are_not_limited() {
        let exempt = sluice_config::Network { address: address(0), prefix: 25 };
        let limits = compile(|limits| {
            (limits.per_minute, limits.burst, limits.exempt) = (1, 0, [exempt].into());
        });
        let now = Instant::now();
        assert!(limits.exempts(address(1)) && !limits.exempts(address(200)));
        assert!(limits.charge(&client(200), now).is_ok() && limits.charge(&client(200), now).is_err());
    }

    #[test]
    fn rules_of_one_zone_share_the_usage_of_a_client() {
        let limiter = Limiter::default();
        let policy = limits(|limits| (limits.per_minute, limits.burst) = (1, 0));
        let other = sluice_config::Limits { zone: NamespacedName::new("default", "other"), ..policy.clone() };
        let [first, second] = [&policy, &policy].map(|policy| Limits::compile(policy, &limiter).unwrap());
        let other = Limits::compile(&other, &limiter).unwrap();
        let now = Instant::now();
        assert!(first.charge(&client(1), now).is_ok());
        assert!(second.charge(&client(1), now).is_err());
        assert!(other.charge(&client(1), now).is_ok());
        assert!(Limits::compile(&limits(|_| ()), &limiter).is_none(), "nothing is limited");
    }

    #[test]
    fn fields_state_what_is_left_also_after_a_refusal() {
        let limits = compile(|limits| {
            (limits.per_second, limits.per_minute, limits.burst, limits.fields) = (100, 2, 1, true);
        });
        let now = Instant::now();
        let state = |last| limits.fields(&client(last), now).unwrap().state;
        assert_eq!(state(1), "\"rps\";r=100;t=0, \"rpm\";r=2;t=0");
        for left in ["r=2;t=0", "r=1;t=30", "r=0;t=60"] {
            assert!(limits.charge(&client(1), now).is_ok());
            assert!(state(1).to_str().unwrap().ends_with(left), "{:?}", state(1));
        }
        assert_eq!(limits.charge(&client(1), now).unwrap_err(), Exceeded);
        assert!(state(1).to_str().unwrap().ends_with("r=0;t=60"), "{:?}", state(1));
        assert!(state(2).to_str().unwrap().ends_with("r=2;t=0"), "each client for itself");
        assert_eq!(compile(|limits| limits.per_minute = 2).fields(&client(1), now), None);
        let connections = compile(|limits| (limits.connections, limits.fields) = (2, true));
        assert_eq!(connections.fields(&client(1), now), None, "no rate");
    }

    #[test]
    fn extreme_rates_do_not_overflow() {
        for (rate, burst) in [(i32::MAX as u32, i32::MAX as u32), (1, u32::MAX), (u32::MAX, 0)] {
            let limits = compile(|limits| (limits.per_second, limits.burst) = (rate, burst));
            let later = Instant::now() + Duration::from_secs(1 << 30);
            assert!((0..9).all(|_| limits.charge(&client(1), later).is_ok()), "{rate} {burst}");
        }
    }
}
