//! One address of a Service port and what is known about its health.
//!
//! Passive health: an endpoint that does not take connections is ejected for about a second, and twice as long each
//! time it happens again, up to half a minute. What a single request can provoke does not count
//! ([`Exchange::failed`](crate::pipeline::Exchange::failed)). Failures of requests that were already
//! on their way when the endpoint was ejected say nothing new and do not count; nor does the success of such a request end
//! the ejection, since a Pod that is ending finishes old requests while it refuses
//! new ones. An endpoint whose time is over is on trial until it has answered: one request a second goes there,
//! because each that is sent to a dead machine waits for its connect timeout, and all of them would if the ejection
//! simply ended. All of it is one atomic word, because every request looks at it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use super::latency::Latency;
use crate::descriptors::Shares;

/// How long the first failure ejects an endpoint, before jitter.
const FIRST_EJECTION: Duration = Duration::from_secs(1);

/// The longest ejection, jitter included.
const LONGEST_EJECTION: Duration = Duration::from_secs(30);

/// How long a request on trial has the endpoint to itself.
const TRIAL: Duration = Duration::from_secs(1);

/// Requests that wait for room at one endpoint.
const MOST_WAITING: u32 = 16;

/// The part of its share that an endpoint has at once where it starts slowly: without any request it would never be warm.
const FIRST_SHARE: f64 = 0.1;

/// How long after it ended an ejection is remembered for an endpoint that has left its set, and after it left, what checks
/// have found.
pub(super) const MEMORY: Duration = Duration::from_secs(300);

/// What the clock of the health words counts from.
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// An endpoint. Exists once per address of a Service port, however many pools use it.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    zone: Option<Arc<str>>,
    /// A packed [`Record`].
    record: AtomicU64,
    /// The active checks that it fails, a bit for each ([`Slots`](super::slots::Slots)).
    failing: AtomicU32,
    /// Requests that have room.
    in_flight: AtomicU32,
    /// Requests that wait for it. They are not counted as in flight: else they would keep each other waiting.
    waiting: AtomicU32,
    /// How soon it answers, where a pool is balanced by that.
    latency: Latency,
    /// When it came, or was well again, in milliseconds since [`EPOCH`]; 0 for one that has been there from the start.
    since: AtomicU64,
    /// The number of its present membership of its set; 0 while it is not a member.
    membership: AtomicU64,
}

/// The number of the last membership that began, of any endpoint.
static MEMBERSHIPS: AtomicU64 = AtomicU64::new(0);

/// Whether an endpoint has room for a request that needs a connection to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// There is room, and the request has it.
    Given,
    /// There may be soon.
    Waits,
    /// As many wait as may.
    Refused,
}

/// Passive health. Nothing but zeros while there is nothing to remember.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Record {
    /// Milliseconds since [`EPOCH`] from which on the endpoint is ejected; 40 bits are 34 years.
    since: u64,
    /// Milliseconds that it is; 16 bits.
    duration: u64,
    /// Whether it is ejected; else one request is there on trial. 1 bit.
    ejected: bool,
    /// Ejections since the last success; 7 bits.
    streak: u64,
}

/// The most that a streak counts to.
const LONGEST_STREAK: u64 = 0x7f;

impl Record {
    fn unpack(word: u64) -> Self {
        Self {
            since: word >> 24,
            duration: (word >> 8) & 0xffff,
            ejected: word & 0x80 != 0,
            streak: word & LONGEST_STREAK,
        }
    }

    fn pack(self) -> u64 {
        self.since << 24 | self.duration << 8 | u64::from(self.ejected) << 7 | self.streak
    }

    /// The first millisecond at which the endpoint is in again.
    fn until(self) -> u64 {
        self.since + self.duration
    }
}

impl Endpoint {
    pub(crate) fn new(address: SocketAddr, zone: Option<Arc<str>>) -> Self {
        Self {
            address,
            zone,
            record: AtomicU64::new(0),
            failing: AtomicU32::new(0),
            in_flight: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            latency: Latency::default(),
            since: AtomicU64::new(0),
            membership: AtomicU64::new(0),
        }
    }

    /// Begins a membership, unless the endpoint is a member.
    pub(crate) fn join(&self) {
        if self.membership() == 0 {
            let number = MEMBERSHIPS.fetch_add(1, Ordering::Relaxed) + 1;
            self.membership.store(number, Ordering::Relaxed);
        }
    }

    /// Ends its membership, and with it the use of the connections that were opened during it.
    pub(crate) fn leave(&self) {
        self.membership.store(0, Ordering::Relaxed);
    }

    /// The number of its present membership of its set, which no other membership of any endpoint
    /// has; 0 while it is not a member. A connection serves only requests of the membership that it
    /// was opened in: afterwards the address may belong to another Pod.
    pub fn membership(&self) -> u64 {
        self.membership.load(Ordering::Relaxed)
    }

    /// It has come to others that are there, or is well again: from now on its share grows, in pools that start endpoints
    /// slowly.
    pub(super) fn begin_slowly(&self, now: Instant) {
        self.since.store(millis(now).max(1), Ordering::Relaxed);
    }

    /// Whether it takes its turn. One that came less than `window` ago does with a chance that grows with its age.
    pub(super) fn takes_its_turn(&self, window: Duration, now: Instant) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        if since == 0 {
            return true;
        }
        let age = millis(now).saturating_sub(since) as f64 / (window.as_millis() as f64).max(1.0);
        age >= 1.0 || fastrand::f64() < age.max(FIRST_SHARE)
    }

    /// How soon it answers.
    pub(super) fn latency(&self) -> &Latency {
        &self.latency
    }

    /// Pod address and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The zone it is in.
    pub fn zone(&self) -> Option<&Arc<str>> {
        self.zone.as_ref()
    }

    /// Whether a request may go there now. On trial it may go there alone: true is given to one caller.
    pub(super) fn admits(&self, now: Instant) -> bool {
        let word = self.record.load(Ordering::Relaxed);
        if word == 0 {
            return true;
        }
        let (record, now) = (Record::unpack(word), millis(now));
        if now < record.until() {
            return false;
        }
        // One earlier than now, so that an answer in this very millisecond counts.
        let since = now.saturating_sub(1);
        let trial = Record { since, duration: TRIAL.as_millis() as u64, ejected: false, ..record };
        self.record.compare_exchange(word, trial.pack(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Whether it is not ejected, and not on trial.
    pub fn is_usable(&self, now: Instant) -> bool {
        self.ejected_for(now).is_none()
    }

    /// How much longer it is ejected.
    pub fn ejected_for(&self, now: Instant) -> Option<Duration> {
        // The clock is looked at only where there was a failure.
        let word = self.record.load(Ordering::Relaxed);
        let left = if word == 0 { 0 } else { Record::unpack(word).until().saturating_sub(millis(now)) };
        (left > 0).then(|| Duration::from_millis(left))
    }

    /// Ejections since the last success.
    pub fn failures(&self) -> u8 {
        Record::unpack(self.record.load(Ordering::Relaxed)).streak as u8
    }

    /// Whether it passes all of these active checks.
    pub fn passes(&self, checks: u32) -> bool {
        self.failing.load(Ordering::Relaxed) & checks == 0
    }

    /// Requests on their way, those that wait for room included.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed) + self.waiting.load(Ordering::Relaxed)
    }

    /// Whether there is room for one more request.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight() < Shares::of_process().endpoint
    }

    /// Counts a request as on its way for as long as the guard lives.
    pub fn enter(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight { endpoint: self.clone(), waits: false }
    }

    /// Leaves no room.
    #[cfg(test)]
    pub(super) fn fill(&self) {
        self.in_flight.store(Shares::of_process().endpoint, Ordering::Relaxed);
    }

    /// An attempt that began at `began` got a response: the endpoint is well, unless it failed since then.
    pub fn succeeded(&self, began: Instant) {
        let mut word = self.record.load(Ordering::Relaxed);
        while word != 0 && millis(began) > Record::unpack(word).since {
            match self.record.compare_exchange_weak(word, 0, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return self.begin_slowly(began),
                Err(other) => word = other,
            }
        }
    }

    /// The endpoint does not take connections. Returns for how long the endpoint is now ejected; `None` if
    /// it was ejected already. Requests go through [`EndpointSet::failed`](super::EndpointSet::failed), which
    /// also reports it.
    pub(super) fn failed(&self, now: Instant) -> Option<Duration> {
        let at = millis(now);
        let mut word = self.record.load(Ordering::Relaxed);
        loop {
            let record = Record::unpack(word);
            if record.ejected && at < record.until() {
                return None;
            }
            let duration = ejection(record.streak);
            let streak = (record.streak + 1).min(LONGEST_STREAK);
            let next =
                Record { since: at, duration: duration.as_millis() as u64, ejected: true, streak }.pack();
            match self.record.compare_exchange_weak(word, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(duration),
                Err(other) => word = other,
            }
        }
    }

    /// Says whether it passes the check of this slot.
    pub(super) fn set_passes(&self, slot: u8, passes: bool) {
        let bit = 1 << slot;
        match passes {
            true => self.failing.fetch_and(!bit, Ordering::Relaxed),
            false => self.failing.fetch_or(bit, Ordering::Relaxed),
        };
    }

    /// Whether there is something about it worth keeping while it is in no generation.
    pub(super) fn is_memorable(&self, now: Instant) -> bool {
        let word = self.record.load(Ordering::Relaxed);
        let forgotten_at = Record::unpack(word).until() + MEMORY.as_millis() as u64;
        (word != 0 && millis(now) < forgotten_at) || self.in_flight() > 0
    }
}

/// A request on its way to an endpoint.
#[derive(Debug)]
pub struct InFlight {
    endpoint: Arc<Endpoint>,
    waits: bool,
}

impl InFlight {
    /// Where it is on its way to.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Asks for room for a connection, again where it waits.
    pub fn ask(&mut self) -> Admission {
        self.ask_within(Shares::of_process().endpoint)
    }

    fn ask_within(&mut self, share: u32) -> Admission {
        let Endpoint { in_flight, waiting, .. } = &*self.endpoint;
        if !self.waits {
            // It is counted itself.
            if in_flight.load(Ordering::Relaxed) <= share {
                return Admission::Given;
            }
            let seat = |waiting: u32| (waiting < MOST_WAITING).then_some(waiting + 1);
            if waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, seat).is_err() {
                return Admission::Refused;
            }
            in_flight.fetch_sub(1, Ordering::Relaxed);
            self.waits = true;
        }
        let room = |in_flight: u32| (in_flight < share).then_some(in_flight + 1);
        if in_flight.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_err() {
            return Admission::Waits;
        }
        waiting.fetch_sub(1, Ordering::Relaxed);
        self.waits = false;
        Admission::Given
    }

    /// It needs no room any more: it has got a connection that was open already.
    pub fn go(&mut self) {
        if std::mem::take(&mut self.waits) {
            self.endpoint.in_flight.fetch_add(1, Ordering::Relaxed);
            self.endpoint.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let count = if self.waits { &self.endpoint.waiting } else { &self.endpoint.in_flight };
        count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Doubles with each ejection in a row; a fifth more or less, so that endpoints which failed together are not
/// tried again together.
fn ejection(streak: u64) -> Duration {
    let doublings = streak.min(5) as u32;
    let planned = (FIRST_EJECTION * (1 << doublings)).min(LONGEST_EJECTION);
    planned.mul_f64(0.8 + 0.4 * fastrand::f64()).min(LONGEST_EJECTION)
}

/// Milliseconds on the clock of endpoints.
pub(super) fn millis(at: Instant) -> u64 {
    at.saturating_duration_since(*EPOCH).as_millis() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: u32 = 4;

    fn full() -> (Arc<Endpoint>, Vec<InFlight>) {
        let endpoint = Arc::new(Endpoint::new(([10, 0, 0, 1], 80).into(), None));
        let mut inside: Vec<_> = (0..SHARE).map(|_| endpoint.enter()).collect();
        assert!(inside.iter_mut().all(|request| request.ask_within(SHARE) == Admission::Given));
        (endpoint, inside)
    }

    /// Those that waited counted as in flight, so that as many had to end as waited before one of them got in.
    #[test]
    fn those_that_wait_kept_each_other_waiting() {
        let (endpoint, mut inside) = full();
        let mut waiting: Vec<_> = (0..3).map(|_| endpoint.enter()).collect();
        let ask = |waiting: &mut Vec<InFlight>| {
            waiting
                .iter_mut()
                .filter_map(|request| (request.ask_within(SHARE) == Admission::Given).then_some(()))
                .count()
        };
        assert_eq!(ask(&mut waiting), 0);
        assert_eq!(endpoint.in_flight(), SHARE + 3);
        inside.pop();
        assert_eq!(ask(&mut waiting), 1, "one ends, one gets in");
        drop(waiting);
        drop(inside);
        assert_eq!(endpoint.in_flight(), 0);
    }

    #[test]
    fn a_crowded_endpoint_has_seats_of_its_own() {
        let (endpoint, _inside) = full();
        let mut waiting = Vec::new();
        for _ in 0..MOST_WAITING {
            let mut request = endpoint.enter();
            assert_eq!(request.ask_within(SHARE), Admission::Waits);
            waiting.push(request);
        }
        assert_eq!(endpoint.enter().ask_within(SHARE), Admission::Refused);
        waiting.pop();
        assert_eq!(endpoint.enter().ask_within(SHARE), Admission::Waits);
    }

    #[test]
    fn an_idle_connection_ends_the_wait() {
        let (endpoint, inside) = full();
        let mut request = endpoint.enter();
        assert_eq!(request.ask_within(SHARE), Admission::Waits);
        request.go();
        assert_eq!(endpoint.waiting.load(Ordering::Relaxed), 0);
        drop(inside);
        assert_eq!(endpoint.in_flight(), 1);
    }
}
