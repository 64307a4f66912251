//! How the descriptors that the process may have are shared out.
//!
//! One request needs one for its client, or a share of one where a client of HTTP/2 sends many requests over its
//! connection, and one for its endpoint. Without a bound of their own, connections to endpoints would take what clients
//! leave, and an endpoint that does not answer would take everything with a few clients of HTTP/2: no client would be
//! accepted, no probe answered, and connections to healthy endpoints would fail.
//!
//! | for | at most |
//! |---|---|
//! | listeners, probes, scrapes, logs, files | 128 and 8 for each worker, or a quarter, always kept for them |
//! | clients | three quarters of all, and what connections to endpoints leave of the rest |
//! | connections to endpoints | half of what is not kept |
//! | requests to one endpoint | three quarters of that, so that one that does not answer leaves some for the others |
//! | idle connections of all workers | half of it: what one worker keeps, another cannot have |
//!
//! Probes, scrapes and introspection have up to 112 connections; every worker has a runtime and a
//! copy of each listening socket. Clients may have three quarters and not half because most of many
//! clients are idle. A client above that share is admitted in place of an idle one, as with
//! `max-worker-connections`. A request for which there is no connection to an endpoint waits for
//! [`PATIENCE`] in case something ends meanwhile, and then gets 503.

use std::io;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use tokio::time::{Instant, sleep};

/// Descriptors that are kept for everything but clients, endpoints and workers.
const RESERVE: u64 = 128;
/// What is kept for each worker beside that.
const PER_WORKER: u64 = 8;

/// How long a request waits for room.
const PATIENCE: Duration = Duration::from_secs(1);

/// Between two looks for room.
const PAUSE: Duration = Duration::from_millis(20);

/// Requests that wait for a descriptor at once. Those that wait for room at one endpoint are counted there.
const MOST_WAITING: usize = 64;

/// Connections to endpoints that are open or being opened, idle ones included.
static OPEN: AtomicUsize = AtomicUsize::new(0);

static WAITING: AtomicUsize = AtomicUsize::new(0);

/// How many workers there are, or are to be.
static WORKERS: AtomicUsize = AtomicUsize::new(1);

static SHARES: LazyLock<Shares> =
    LazyLock::new(|| Shares::of(getrlimit(Resource::Nofile).current, WORKERS.load(Relaxed)));

/// How many descriptors each party may have. `usize::MAX` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// Clients and endpoints together.
    pub(crate) both: usize,
    /// Clients.
    pub(crate) clients: usize,
    /// Connections to endpoints.
    pub(crate) endpoints: usize,
    /// Requests on their way to one endpoint.
    pub(crate) endpoint: u32,
}

/// A place for a connection to an endpoint, for as long as it lives.
#[derive(Debug)]
pub(crate) struct DescriptorPermit(());

/// A seat of those that wait for a descriptor.
struct Waiting(());

/// The wait of a request for room, look by look.
pub(crate) struct Wait<'a> {
    since: &'a mut Option<Instant>,
    seat: Option<Waiting>,
}

impl Shares {
    /// By the limit that was in force when the first one asked.
    pub(crate) fn of_process() -> &'static Self {
        &SHARES
    }

    /// The same, for so many workers. To be called before they start.
    pub(crate) fn for_workers(workers: usize) -> &'static Self {
        WORKERS.store(workers, Relaxed);
        &SHARES
    }

    /// `None` is no limit.
    fn of(descriptors: Option<u64>, workers: usize) -> Self {
        let Some(all) = descriptors else {
            let none = usize::MAX;
            return Self { both: none, clients: none, endpoints: none, endpoint: u32::MAX };
        };
        let size = |share: u64| usize::try_from(share.max(1)).unwrap_or(usize::MAX);
        let for_workers = PER_WORKER.saturating_mul(workers as u64);
        let both = all - RESERVE.saturating_add(for_workers).min(all / 4);
        // Where the limit is low, many workers leave something to clients all the same.
        let for_clients = all.saturating_sub(RESERVE).saturating_sub(for_workers.min(all / 8));
        let endpoint = (both / 8 * 3).max(1);
        Self {
            both: size(both),
            clients: size((all / 4 * 3).min(for_clients)),
            endpoints: size(both / 2),
            endpoint: u32::try_from(endpoint).unwrap_or(u32::MAX),
        }
    }

    /// The number of client connections to admit where `configured` are allowed; 0 is no limit in both. What connections
    /// to endpoints have taken of the clients' share is not there to be given.
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

    /// Idle connections to endpoints that each of so many workers may keep.
    pub(crate) fn idle(&self, workers: usize) -> usize {
        (self.endpoints / 2 / workers.max(1)).max(1)
    }
}

impl DescriptorPermit {
    /// A place, if there is one beside so many client connections.
    pub(crate) fn take(clients: usize) -> Option<Self> {
        let shares = Shares::of_process();
        let most = shares.endpoints.min(shares.both.saturating_sub(clients)).max(1);
        let next = |open: usize| (open < most).then_some(open + 1);
        OPEN.fetch_update(Relaxed, Relaxed, next).is_ok().then(|| Self(()))
    }

    /// A place for a connection that is open already.
    #[cfg(test)]
    pub(crate) fn for_open() -> Self {
        opened();
        Self(())
    }
}

/// Counts a connection that keeps no [`DescriptorPermit`] itself.
pub(crate) fn opened() {
    OPEN.fetch_add(1, Relaxed);
}

/// Such a connection has ended.
pub(crate) fn closed() {
    OPEN.fetch_sub(1, Relaxed);
}

impl Drop for DescriptorPermit {
    fn drop(&mut self) {
        closed();
    }
}

impl<'a> Wait<'a> {
    /// `since` is when the request first had to wait, in any attempt.
    pub(crate) fn new(since: &'a mut Option<Instant>) -> Self {
        Self { since, seat: None }
    }

    /// Waits until it is time to look for a descriptor again. False when the request has waited for too long, or when
    /// too many do.
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

    /// The same for room at the endpoint, which counts by itself how many requests wait there: this one gives back the seat of
    /// a request that waits for a descriptor.
    pub(crate) async fn for_endpoint(&mut self) -> bool {
        if self.is_over() {
            return false;
        }
        self.seat = None;
        sleep(PAUSE).await;
        true
    }

    fn is_over(&mut self) -> bool {
        self.since.get_or_insert_with(Instant::now).elapsed() >= PATIENCE
    }
}

impl Waiting {
    /// Lets a request wait, unless too many do: those are shed at once.
    fn begin() -> Option<Self> {
        let next = |waiting: usize| (waiting < MOST_WAITING).then_some(waiting + 1);
        WAITING.fetch_update(Relaxed, Relaxed, next).is_ok().then(|| Self(()))
    }
}

/// Whether requests wait for a descriptor.
pub(crate) fn is_short() -> bool {
    WAITING.load(Relaxed) > 0
}

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Relaxed);
    }
}

/// Why no connection could be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// Of descriptors or memory. May pass soon, when something else ends.
    Passing,
    /// Of ports of our own towards this endpoint. Lasts for a minute or so.
    Ports,
}

impl Shortage {
    /// What the error code says we lack; `None` where it is the endpoint or the network that fails.
    pub(crate) fn of(error: &io::Error) -> Option<Self> {
        let says = |errno: Errno| error.raw_os_error() == Some(errno.raw_os_error());
        if [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].into_iter().any(says) {
            return Some(Self::Passing);
        }
        // `EAGAIN` of `connect` (2): no routing cache entry or no port.
        (says(Errno::ADDRNOTAVAIL) || says(Errno::AGAIN)).then_some(Self::Ports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_share_and_the_reserve_is_kept() {
        let shares = Shares::of(Some(1024), 2);
        assert_eq!(shares, Shares { both: 880, clients: 768, endpoints: 440, endpoint: 330 });
        assert_eq!(Shares::of(Some(256), 2), Shares { both: 192, clients: 112, endpoints: 96, endpoint: 72 });
        assert_eq!(shares.idle(2), 110);
        assert_eq!(Shares::of(None, 2).endpoints, usize::MAX);
        for all in [0, 1, 20, 64, 1 << 20, u64::MAX] {
            let shares = Shares::of(Some(all), 64);
            assert!(
                shares.clients >= 1 && shares.endpoints >= 1 && shares.endpoint >= 1,
                "{all}: {shares:?}"
            );
            assert!(shares.idle(64) >= 1 && shares.clients_within(0) >= 1, "{all}: {shares:?}");
        }
    }

    #[test]
    fn many_workers_have_what_they_need_and_leave_something() {
        // Probes and scrapes, and for each of 64 workers a runtime and four listening sockets.
        assert!(4096 - Shares::of(Some(4096), 64).both >= 112 + 64 * 8);
        let few = Shares::of(Some(256), 64);
        assert_eq!(few, Shares { both: 192, clients: 96, endpoints: 96, endpoint: 72 });
        assert!(Shares::of(Some(1024), usize::MAX).both >= 768);
    }

    #[test]
    fn the_smaller_of_both_limits_holds() {
        let within = |descriptors, configured| Shares::of(descriptors, 2).clients_beside(0, configured);
        assert_eq!(within(Some(1024), 16384), 768);
        assert_eq!(within(Some(1024), 0), 768);
        assert_eq!(within(Some(256), 0), 112, "the reserve is kept");
        assert_eq!(within(Some(1024), 100), 100);
        assert_eq!(within(None, 0), 0, "no limit at all");
        assert_eq!(within(None, 16384), 16384);
    }

    #[test]
    fn a_limit_below_the_reserve_still_serves_somebody() {
        assert_eq!(Shares::of(Some(20), 2).clients_beside(0, 0), 1);
    }

    #[test]
    fn a_lack_of_our_own_is_told_from_a_failing_endpoint() {
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM] {
            assert_eq!(Shortage::of(&errno.into()), Some(Shortage::Passing), "{errno}");
        }
        assert_eq!(Shortage::of(&Errno::ADDRNOTAVAIL.into()), Some(Shortage::Ports));
        for errno in [Errno::CONNREFUSED, Errno::CONNRESET, Errno::HOSTUNREACH, Errno::NETUNREACH] {
            assert_eq!(Shortage::of(&errno.into()), None, "{errno}");
        }
    }

    #[test]
    fn no_more_wait_than_there_is_patience_for() {
        let all: Vec<_> = std::iter::from_fn(Waiting::begin).collect();
        assert!(all.len() <= MOST_WAITING && Waiting::begin().is_none());
        drop(all);
        assert!(Waiting::begin().is_some());
    }
}
