//! How the file descriptors of the process are divided.
//!
//! A request needs a descriptor for its client, which the streams of an HTTP/2 connection share,
//! and one for its endpoint. Without a bound, connections to endpoints would take all that clients
//! leave. A few HTTP/2 clients and one endpoint that does not answer could then exhaust the limit:
//! no client would be accepted, no probe answered, and connections to healthy endpoints would fail.
//!
//! | for | maximum |
//! |---|---|
//! | listeners, probes, scrapes, logs, files | reserved: 128 plus 8 per worker, at most a quarter |
//! | clients | three quarters of all, less what connections to endpoints take of the rest |
//! | connections to endpoints | half of what is not reserved |
//! | requests to one endpoint | three quarters of that, so that other endpoints stay reachable |
//! | idle connections of all workers | half of it: a worker cannot use those of another |
//!
//! Probes, scrapes and introspection have up to 116 connections; every worker has a runtime and
//! handles of the listening sockets. Clients get three quarters and not half, because most of many
//! clients are idle. A client above that share is admitted in place of an idle one, as with
//! `max-worker-connections`. A request without a descriptor for its endpoint waits for
//! [`TIMEOUT`], and then gets 503.

use std::io;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use tokio::time::{Instant, sleep};

/// Descriptors reserved for everything but clients, endpoints and workers.
const RESERVE: u64 = 128;
/// Additional reserved descriptors per worker.
const PER_WORKER: u64 = 8;

/// Time that a request waits for a descriptor or an endpoint.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Interval of attempts during that time.
const PAUSE: Duration = Duration::from_millis(20);

/// Maximum of requests that wait for a descriptor. Those that wait for an endpoint are counted
/// there.
const MOST_WAITING: usize = 64;

/// Connections to endpoints that are open or being opened, idle ones included.
static OPEN: AtomicUsize = AtomicUsize::new(0);

static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Number of workers.
static WORKERS: AtomicUsize = AtomicUsize::new(1);

static SHARES: LazyLock<DescriptorShares> =
    LazyLock::new(|| DescriptorShares::of(getrlimit(Resource::Nofile).current, WORKERS.load(Relaxed)));

/// The maximum number of descriptors per use. `usize::MAX` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DescriptorShares {
    /// Client connections and connections to endpoints together.
    pub(crate) both: usize,
    /// Client connections.
    pub(crate) clients: usize,
    /// Connections to endpoints.
    pub(crate) endpoints: usize,
    /// Concurrent requests to one endpoint.
    pub(crate) endpoint: u32,
}

/// Permission for a connection to an endpoint, held while it is open.
#[derive(Debug)]
pub(crate) struct DescriptorPermit(());

/// A position among the requests that wait for a descriptor.
struct Waiting(());

/// The wait of a request for a descriptor or an endpoint.
pub(crate) struct CapacityWait<'a> {
    since: &'a mut Option<Instant>,
    seat: Option<Waiting>,
}

impl DescriptorShares {
    /// Returns the shares by the descriptor limit at the time of the first call.
    pub(crate) fn of_process() -> &'static Self {
        &SHARES
    }

    /// Sets the number of workers and returns the shares. Must be called before workers start.
    pub(crate) fn for_workers(workers: usize) -> &'static Self {
        WORKERS.store(workers, Relaxed);
        &SHARES
    }

    /// Computes the shares of `descriptors`; `None` is no limit.
    fn of(descriptors: Option<u64>, workers: usize) -> Self {
        let Some(all) = descriptors else {
            let none = usize::MAX;
            return Self { both: none, clients: none, endpoints: none, endpoint: u32::MAX };
        };
        let size = |share: u64| usize::try_from(share.max(1)).unwrap_or(usize::MAX);
        let for_workers = PER_WORKER.saturating_mul(workers as u64);
        let both = all - RESERVE.saturating_add(for_workers).min(all / 4);
        // With a low limit, the reserve of many workers must leave some to clients.
        let for_clients = all.saturating_sub(RESERVE).saturating_sub(for_workers.min(all / 8));
        let endpoint = (both / 8 * 3).max(1);
        Self {
            both: size(both),
            clients: size((all / 4 * 3).min(for_clients)),
            endpoints: size(both / 2),
            endpoint: u32::try_from(endpoint).unwrap_or(u32::MAX),
        }
    }

    /// Returns how many client connections to admit if `configured` are allowed; 0 is no limit in
    /// both. Descriptors in use by connections to endpoints are subtracted.
    pub(crate) fn clients_within(&self, configured: usize) -> usize {
        self.clients_beside(OPEN.load(Relaxed), configured)
    }

    fn clients_beside(&self, open: usize, configured: usize) -> usize {
        if self.clients == usize::MAX {
            return configured;
        }
        let most = self.clients.min(self.both.saturating_sub(open)).max(1);
        if configured == 0 { most } else { most.min(configured) }
    }

    /// Returns how many idle connections to endpoints each of `workers` may keep.
    pub(crate) fn idle(&self, workers: usize) -> usize {
        (self.endpoints / 2 / workers.max(1)).max(1)
    }
}

impl DescriptorPermit {
    /// Returns a permit, if one is left with `clients` open client connections.
    pub(crate) fn take(clients: usize) -> Option<Self> {
        let shares = DescriptorShares::of_process();
        let most = shares.endpoints.min(shares.both.saturating_sub(clients)).max(1);
        let next = |open: usize| (open < most).then_some(open + 1);
        OPEN.fetch_update(Relaxed, Relaxed, next).is_ok().then(|| Self(()))
    }

    /// Returns a permit for a connection that is already open.
    #[cfg(test)]
    pub(crate) fn for_open() -> Self {
        opened();
        Self(())
    }
}

/// Counts a connection that has no [`DescriptorPermit`].
pub(crate) fn opened() {
    OPEN.fetch_add(1, Relaxed);
}

/// Ends the count of a connection that has no [`DescriptorPermit`].
pub(crate) fn closed() {
    OPEN.fetch_sub(1, Relaxed);
}

impl Drop for DescriptorPermit {
    fn drop(&mut self) {
        closed();
    }
}

impl<'a> CapacityWait<'a> {
    /// Creates the wait. `since` is when the request first had to wait, in any attempt.
    pub(crate) fn new(since: &'a mut Option<Instant>) -> Self {
        Self { since, seat: None }
    }

    /// Waits before the next attempt to take a descriptor. Returns false if the request has waited
    /// too long, or too many requests wait.
    pub(crate) async fn for_descriptor(&mut self) -> bool {
        if self.is_over() {
            return false;
        }
        if self.seat.is_none() {
            self.seat = Waiting::begin();
            if self.seat.is_none() {
                return false;
            }
        }
        sleep(PAUSE).await;
        true
    }

    /// Waits before the next attempt to be admitted by the endpoint, which counts its own waiting
    /// requests: releases a position in the queue for descriptors.
    pub(crate) async fn for_endpoint(&mut self) -> bool {
        if self.is_over() {
            return false;
        }
        self.seat = None;
        sleep(PAUSE).await;
        true
    }

    fn is_over(&mut self) -> bool {
        self.since.get_or_insert_with(Instant::now).elapsed() >= TIMEOUT
    }
}

impl Waiting {
    /// Returns a position, unless too many requests wait: the excess is refused at once.
    fn begin() -> Option<Self> {
        let next = |waiting: usize| (waiting < MOST_WAITING).then_some(waiting + 1);
        WAITING.fetch_update(Relaxed, Relaxed, next).is_ok().then(|| Self(()))
    }
}

/// Returns whether requests wait for a descriptor.
pub(crate) fn is_short() -> bool {
    WAITING.load(Relaxed) > 0
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Relaxed);
    }
}

/// The local cause of a failed connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// Descriptors or memory. May pass soon, when something else ends.
    Passing,
    /// Local ports towards this endpoint. Lasts for about a minute.
    Ports,
}

impl Shortage {
    /// Returns the shortage that an error code reports; `None` if the endpoint or the network
    /// failed.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        let says = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
        if [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].into_iter().any(says) {
            return Some(Self::Passing);
        }
        // `connect(2)` returns `EAGAIN` without a routing cache entry or a local port.
        (says(Errno::ADDRNOTAVAIL) || says(Errno::AGAIN)).then_some(Self::Ports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_use_has_a_share_and_the_reserve_is_kept() {
        let shares = DescriptorShares::of(Some(1024), 2);
        assert_eq!(shares, DescriptorShares { both: 880, clients: 768, endpoints: 440, endpoint: 330 });
        assert_eq!(
            DescriptorShares::of(Some(256), 2),
            DescriptorShares { both: 192, clients: 112, endpoints: 96, endpoint: 72 }
        );
        assert_eq!(shares.idle(2), 110);
        assert_eq!(DescriptorShares::of(None, 2).endpoints, usize::MAX);
        for all in [0, 1, 20, 64, 1 << 20, u64::MAX] {
            let shares = DescriptorShares::of(Some(all), 64);
            assert!(
                shares.clients >= 1 && shares.endpoints >= 1 && shares.endpoint >= 1,
                "{all}: {shares:?}"
            );
            assert!(shares.idle(64) >= 1 && shares.clients_within(0) >= 1, "{all}: {shares:?}");
        }
    }

    #[test]
    fn the_reserve_of_many_workers_leaves_some_to_clients() {
        // Probes and scrapes, and for each of 64 workers a runtime and four listening sockets.
        assert!(4096 - DescriptorShares::of(Some(4096), 64).both >= 116 + 64 * 8);
        let few = DescriptorShares::of(Some(256), 64);
        assert_eq!(few, DescriptorShares { both: 192, clients: 96, endpoints: 96, endpoint: 72 });
        assert!(DescriptorShares::of(Some(1024), usize::MAX).both >= 768);
    }

    #[test]
    fn the_smaller_of_both_limits_holds() {
        let within =
            |descriptors, configured| DescriptorShares::of(descriptors, 2).clients_beside(0, configured);
        assert_eq!(within(Some(1024), 16384), 768);
        assert_eq!(within(Some(1024), 0), 768);
        assert_eq!(within(Some(256), 0), 112, "the reserve is kept");
        assert_eq!(within(Some(1024), 100), 100);
        assert_eq!(within(None, 0), 0, "no limit at all");
        assert_eq!(within(None, 16384), 16384);
    }

    #[test]
    fn a_limit_below_the_reserve_still_serves_clients() {
        assert_eq!(DescriptorShares::of(Some(20), 2).clients_beside(0, 0), 1);
    }

    #[test]
    fn a_local_shortage_differs_from_a_failing_endpoint() {
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM] {
            assert_eq!(Shortage::of(&errno.into()), Some(Shortage::Passing), "{errno}");
        }
        assert_eq!(Shortage::of(&Errno::ADDRNOTAVAIL.into()), Some(Shortage::Ports));
        for errno in [Errno::CONNREFUSED, Errno::CONNRESET, Errno::HOSTUNREACH, Errno::NETUNREACH] {
            assert_eq!(Shortage::of(&errno.into()), None, "{errno}");
        }
    }

    #[test]
    fn the_number_of_waiting_requests_is_bounded() {
        let all: Vec<_> = std::iter::from_fn(Waiting::begin).collect();
        assert!(all.len() <= MOST_WAITING && Waiting::begin().is_none());
        drop(all);
        assert!(Waiting::begin().is_some());
    }
}
