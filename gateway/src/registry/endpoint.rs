//! One address of a Service port and its health.
//!
//! Passive health: an endpoint that does not accept connections is ejected for about one second,
//! and twice as long each consecutive time, up to 30 seconds. Failures that a single request can
//! provoke do not count (`Call::failed`). Neither do
//! failures of requests that were already in flight when the endpoint was ejected. The success of
//! such a request does not end the ejection: a terminating Pod completes old requests while it
//! refuses new ones.
//!
//! After the ejection the endpoint is on trial until it responds: it gets one request per second.
//! Each request to a dead machine waits for its connect timeout, and all of them would wait if the
//! ejection simply ended. The state is a single atomic word, because every request reads it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::clock::millis;
use super::latency::Latency;
use crate::process::descriptors::DescriptorShares;

/// Duration of the first ejection, before jitter.
const FIRST_EJECTION: Duration = Duration::from_secs(1);

/// Maximum duration of an ejection, including jitter.
const LONGEST_EJECTION: Duration = Duration::from_secs(30);

/// Minimum time between trial requests.
const TRIAL: Duration = Duration::from_secs(1);

/// Maximum number of requests that wait for capacity of one endpoint.
const MOST_WAITING: u32 = 16;

/// Initial share of an endpoint with slow start. It must not be 0, or the endpoint would never warm
/// up.
const FIRST_SHARE: f64 = 0.1;

/// Time for which an endpoint that left its set is remembered: after the end of its ejection, and
/// after it left if it fails checks.
pub(super) const MEMORY: Duration = Duration::from_secs(300);

/// An endpoint. One per address of a Service port, however many pools use it.
#[derive(Debug)]
pub struct Endpoint {
    address: SocketAddr,
    zone: Option<Arc<str>>,
    /// A packed [`Record`].
    record: AtomicU64,
    /// The active checks that it fails, one bit each ([`Slots`](super::slots::Slots)).
    failing: AtomicU32,
    /// Requests that have capacity.
    in_flight: AtomicU32,
    /// Requests that wait for capacity. Not counted in `in_flight`, or they would block each other.
    waiting: AtomicU32,
    /// Its response time, measured for pools that balance by it.
    latency: Latency,
    /// When it was added or recovered, in milliseconds ([`millis`]). 0 if it was there from the
    /// start.
    since: AtomicU64,
    /// The number of its current membership in its set; 0 if it is not a member.
    membership: AtomicU64,
}

/// The last membership number assigned to any endpoint.
static MEMBERSHIPS: AtomicU64 = AtomicU64::new(0);

/// Whether an endpoint has capacity for a request that needs a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointAdmission {
    /// The request has capacity.
    Given,
    /// The request waits for capacity.
    Waits,
    /// The maximum number of requests already waits.
    Refused,
}

/// Passive health. All zeros if there is nothing to remember.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Record {
    /// Start of the ejection or trial in milliseconds ([`millis`]). 40 bits, or 34 years.
    since: u64,
    /// Duration in milliseconds. 16 bits.
    duration: u64,
    /// Ejected if true, otherwise a trial request is in flight. 1 bit.
    ejected: bool,
    /// Ejections since the last success; 7 bits.
    streak: u64,
}

/// Maximum value of a streak.
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

    /// Returns the first millisecond at which the endpoint is admitted again.
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

    /// Starts a membership, unless the endpoint is a member.
    pub(crate) fn join(&self) {
        if self.membership() == 0 {
            let number = MEMBERSHIPS.fetch_add(1, Ordering::Relaxed) + 1;
            self.membership.store(number, Ordering::Relaxed);
        }
    }

    /// Ends its membership, and with it the use of connections opened during it.
    pub(crate) fn leave(&self) {
        self.membership.store(0, Ordering::Relaxed);
    }

    /// Returns the number of its current membership in its set, unique among all endpoints; 0 if it
    /// is not a member. A connection serves only requests of the membership in which it was opened:
    /// afterwards the address may belong to another Pod.
    pub fn membership(&self) -> u64 {
        self.membership.load(Ordering::Relaxed)
    }

    /// Starts the slow start of an endpoint that was added to others or has recovered.
    pub(super) fn begin_slowly(&self, now: Instant) {
        self.since.store(millis(now).max(1), Ordering::Relaxed);
    }

    /// Returns whether it takes its turn. Within `window` after its start, the probability grows
    /// with its age.
    pub(super) fn takes_its_turn(&self, window: Duration, now: Instant) -> bool {
        let since = self.since.load(Ordering::Relaxed);
        if since == 0 {
            return true;
        }
        let age = millis(now).saturating_sub(since) as f64 / (window.as_millis() as f64).max(1.0);
        age >= 1.0 || fastrand::f64() < age.max(FIRST_SHARE)
    }

    /// Returns its response time.
    pub(super) fn latency(&self) -> &Latency {
        &self.latency
    }

    /// Pod address and port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its zone.
    pub fn zone(&self) -> Option<&Arc<str>> {
        self.zone.as_ref()
    }

    /// Returns whether a request may be sent now. On trial, only one caller gets true.
    pub(super) fn admits(&self, now: Instant) -> bool {
        let word = self.record.load(Ordering::Relaxed);
        if word == 0 {
            return true;
        }
        let (record, now) = (Record::unpack(word), millis(now));
        if now < record.until() {
            return false;
        }
        // One millisecond earlier, so that a response within this millisecond counts.
        let since = now.saturating_sub(1);
        let trial = Record { since, duration: TRIAL.as_millis() as u64, ejected: false, ..record };
        self.record.compare_exchange(word, trial.pack(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Returns whether it is neither ejected nor on trial.
    pub fn is_usable(&self, now: Instant) -> bool {
        self.ejected_for(now).is_none()
    }

    /// Returns the rest of its ejection.
    pub fn ejected_for(&self, now: Instant) -> Option<Duration> {
        // The clock is read only after a failure.
        let word = self.record.load(Ordering::Relaxed);
        let left = if word == 0 { 0 } else { Record::unpack(word).until().saturating_sub(millis(now)) };
        (left > 0).then(|| Duration::from_millis(left))
    }

    /// Returns the number of ejections since the last success.
    pub fn failures(&self) -> u8 {
        Record::unpack(self.record.load(Ordering::Relaxed)).streak as u8
    }

    /// Returns whether it passes all of these active checks.
    pub fn passes(&self, checks: u32) -> bool {
        self.failing.load(Ordering::Relaxed) & checks == 0
    }

    /// Returns its open requests, including those that wait for capacity.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed) + self.waiting.load(Ordering::Relaxed)
    }

    /// Returns whether there is capacity for one more request.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight() < DescriptorShares::of_process().endpoint
    }

    /// Counts a request as open until the guard is dropped.
    pub fn enter(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight { endpoint: self.clone(), waits: false }
    }

    /// Uses up the capacity.
    #[cfg(test)]
    pub(super) fn fill(&self) {
        self.in_flight.store(DescriptorShares::of_process().endpoint, Ordering::Relaxed);
    }

    /// Records a response to an attempt that began at `began`: the endpoint is healthy unless it
    /// failed since.
    pub fn succeeded(&self, began: Instant) {
        let mut word = self.record.load(Ordering::Relaxed);
        while word != 0 && millis(began) > Record::unpack(word).since {
            match self.record.compare_exchange_weak(word, 0, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return self.begin_slowly(began),
                Err(other) => word = other,
            }
        }
    }

    /// Records that the endpoint does not accept connections. Returns the duration of the ejection,
    /// or `None` if it was already ejected. Requests use
    /// [`EndpointSet::failed`](super::EndpointSet::failed), which also reports it.
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

    /// Records whether it passes the check of this slot.
    pub(super) fn set_passes(&self, slot: u8, passes: bool) {
        let bit = 1 << slot;
        match passes {
            true => self.failing.fetch_and(!bit, Ordering::Relaxed),
            false => self.failing.fetch_or(bit, Ordering::Relaxed),
        };
    }

    /// Returns whether its state must be kept while it is in no generation.
    pub(super) fn must_be_kept(&self, now: Instant) -> bool {
        let word = self.record.load(Ordering::Relaxed);
        let forgotten_at = Record::unpack(word).until() + MEMORY.as_millis() as u64;
        (word != 0 && millis(now) < forgotten_at) || self.in_flight() > 0
    }
}

/// An open request to an endpoint.
#[derive(Debug)]
pub struct InFlight {
    endpoint: Arc<Endpoint>,
    waits: bool,
}

impl InFlight {
    /// Returns the endpoint.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Requests capacity for a connection, or polls again while waiting.
    pub fn admit(&mut self) -> EndpointAdmission {
        self.admit_within(DescriptorShares::of_process().endpoint)
    }

    fn admit_within(&mut self, share: u32) -> EndpointAdmission {
        let Endpoint { in_flight, waiting, .. } = &*self.endpoint;
        if !self.waits {
            // The request itself is included in the count.
            if in_flight.load(Ordering::Relaxed) <= share {
                return EndpointAdmission::Given;
            }
            let seat = |waiting: u32| (waiting < MOST_WAITING).then_some(waiting + 1);
            if waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, seat).is_err() {
                return EndpointAdmission::Refused;
            }
            in_flight.fetch_sub(1, Ordering::Relaxed);
            self.waits = true;
        }
        let room = |in_flight: u32| (in_flight < share).then_some(in_flight + 1);
        if in_flight.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_err() {
            return EndpointAdmission::Waits;
        }
        waiting.fetch_sub(1, Ordering::Relaxed);
        self.waits = false;
        EndpointAdmission::Given
    }

    /// Stops waiting: the request uses a connection that is already open.
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

/// Returns the duration of an ejection. It doubles with each consecutive one, with 20 % jitter so
/// that endpoints that failed together are not retried together.
fn ejection(streak: u64) -> Duration {
    let doublings = streak.min(5) as u32;
    let planned = (FIRST_EJECTION * (1 << doublings)).min(LONGEST_EJECTION);
    planned.mul_f64(0.8 + 0.4 * fastrand::f64()).min(LONGEST_EJECTION)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: u32 = 4;

    fn full() -> (Arc<Endpoint>, Vec<InFlight>) {
        let endpoint = Arc::new(Endpoint::new(([10, 0, 0, 1], 80).into(), None));
        let mut inside: Vec<_> = (0..SHARE).map(|_| endpoint.enter()).collect();
        assert!(inside.iter_mut().all(|request| request.admit_within(SHARE) == EndpointAdmission::Given));
        (endpoint, inside)
    }

    /// Waiting requests were counted as in flight, so as many had to end as were waiting before one
    /// of them was admitted.
    #[test]
    fn those_that_wait_kept_each_other_waiting() {
        let (endpoint, mut inside) = full();
        let mut waiting: Vec<_> = (0..3).map(|_| endpoint.enter()).collect();
        let ask = |waiting: &mut Vec<InFlight>| {
            waiting
                .iter_mut()
                .filter_map(|request| (request.admit_within(SHARE) == EndpointAdmission::Given).then_some(()))
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
            assert_eq!(request.admit_within(SHARE), EndpointAdmission::Waits);
            waiting.push(request);
        }
        assert_eq!(endpoint.enter().admit_within(SHARE), EndpointAdmission::Refused);
        waiting.pop();
        assert_eq!(endpoint.enter().admit_within(SHARE), EndpointAdmission::Waits);
    }

    #[test]
    fn an_idle_connection_ends_the_wait() {
        let (endpoint, inside) = full();
        let mut request = endpoint.enter();
        assert_eq!(request.admit_within(SHARE), EndpointAdmission::Waits);
        request.go();
        assert_eq!(endpoint.waiting.load(Ordering::Relaxed), 0);
        drop(inside);
        assert_eq!(endpoint.in_flight(), 1);
    }
}
