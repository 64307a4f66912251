//! The rules of the election, without I/O and without a clock of its own.
//!
//! A Lease belongs to the holder that it names until it was seen unchanged for its whole duration.
//! Each replica measures that duration on its own clock, so clock differences do no harm. The
//! holder stops leading earlier: when it could not renew for half of the duration.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use tokio::time::Instant;

use crate::backoff::Backoff;

/// Minimum duration of a Lease.
const SHORTEST: Duration = Duration::from_secs(1);
/// Minimum time limit for one attempt of the holder.
const SHORTEST_ATTEMPT: Duration = Duration::from_secs(2);

/// A candidate.
#[derive(Debug)]
pub(crate) struct Election {
    identity: String,
    ttl: Duration,
    seen: Option<Seen>,
    /// Time at which this candidate last wrote the Lease as its holder.
    renewed: Option<Instant>,
}

/// A version of the Lease, and the time at which it was first read.
#[derive(Debug)]
struct Seen {
    spec: LeaseSpec,
    at: Instant,
}

/// The next step of a candidate.
#[derive(Debug, PartialEq)]
pub(super) enum Move {
    /// Another candidate holds the Lease.
    Wait,
    /// Writes this Lease.
    Take(LeaseSpec),
}

impl Election {
    /// Creates a candidate. `ttl` is the duration of the Lease, at least one second.
    pub(crate) fn new(identity: String, ttl: Duration) -> Self {
        Self { identity, ttl: ttl.max(SHORTEST), seen: None, renewed: None }
    }

    pub(super) fn identity(&self) -> &str {
        &self.identity
    }

    /// Returns the time between two attempts, with jitter as in client-go, so that replicas do not
    /// write at the same time.
    pub(super) fn retry(&self) -> Duration {
        (self.ttl / 4).mul_f64(1.0 + fastrand::f64() / 5.0)
    }

    /// Returns the wait after `failures` consecutive failures. A holder has several attempts before
    /// its term ends.
    pub(super) fn backoff(&self, failures: u32) -> Duration {
        Backoff::new(self.ttl / 32, self.ttl).wait(failures)
    }

    /// Returns the time limit for one attempt. A holder's attempt ends with its term at the latest
    /// and leaves time for another one. Other attempts end before the written Lease would be too
    /// old to lead with.
    pub(super) fn attempt_timeout(&self, now: Instant) -> Duration {
        match self.leads_until().filter(|end| *end > now) {
            Some(end) => (self.ttl / 8).max(SHORTEST_ATTEMPT).min(end - now),
            None => self.ttl / 2,
        }
    }

    /// Records the Lease that was read.
    pub(super) fn observe(&mut self, lease: &LeaseSpec, now: Instant) {
        if self.seen.as_ref().is_none_or(|seen| seen.spec != *lease) {
            self.seen = Some(Seen { spec: lease.clone(), at: now });
        }
    }

    /// Decides the next step for the current Lease.
    pub(super) fn decide(&mut self, lease: Option<&LeaseSpec>, now: Instant, clock: Timestamp) -> Move {
        let old = lease.cloned().unwrap_or_default();
        self.observe(&old, now);
        let holder = old.holder_identity.as_deref().unwrap_or_default();
        let is_own = holder == self.identity;
        if !is_own {
            // Overrides any earlier state.
            self.renewed = None;
        }
        if !is_own && !holder.is_empty() && self.expires().is_some_and(|end| now < end) {
            return Move::Wait;
        }
        let seconds = self.ttl.as_secs_f64().ceil();
        let is_first = holder.is_empty() && old.acquire_time.is_none();
        let mut new = old;
        if !is_own {
            new.lease_transitions = Some(match is_first {
                true => 0,
                false => new.lease_transitions.unwrap_or(0).saturating_add(1),
            });
            new.acquire_time = Some(MicroTime(clock));
        }
        new.holder_identity = Some(self.identity.clone());
        new.lease_duration_seconds = Some(seconds as i32);
        new.renew_time = Some(MicroTime(clock));
        Move::Take(new)
    }

    /// Records that the Lease of [`Election::decide`] was written. `begun` is the time before the
    /// request.
    pub(super) fn taken(&mut self, spec: &LeaseSpec, begun: Instant) {
        self.seen = Some(Seen { spec: spec.clone(), at: begun });
        self.renewed = Some(begun);
    }

    /// Returns the time at which the Lease that was read expires.
    pub(super) fn expires(&self) -> Option<Instant> {
        let seen = self.seen.as_ref()?;
        seen.spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())?;
        let seconds = seen.spec.lease_duration_seconds.unwrap_or(0);
        Some(seen.at + Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
    }

    /// Returns the time at which this candidate stops leading unless it renews.
    pub(super) fn leads_until(&self) -> Option<Instant> {
        self.renewed.map(|at| at + self.ttl / 2)
    }

    /// Returns whether this candidate leads.
    pub(super) fn leads(&self, now: Instant) -> bool {
        self.leads_until().is_some_and(|end| now < end)
    }

    /// Returns the Lease without a holder, if this candidate holds it, and stops leading.
    pub(super) fn released(&mut self, lease: Option<&LeaseSpec>, clock: Timestamp) -> Option<LeaseSpec> {
        self.renewed = None;
        let old = lease.filter(|old| old.holder_identity.as_deref() == Some(&self.identity))?;
        Some(LeaseSpec {
            holder_identity: Some(String::new()),
            lease_duration_seconds: Some(1),
            renew_time: Some(MicroTime(clock)),
            ..old.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(30);

    fn candidate(name: &str) -> Election {
        Election::new(name.into(), TTL)
    }

    /// Executes a step as a server without conflicts would.
    fn attempt(election: &mut Election, lease: &mut Option<LeaseSpec>, now: Instant) -> bool {
        match election.decide(lease.as_ref(), now, Timestamp::UNIX_EPOCH) {
            Move::Wait => false,
            Move::Take(new) => {
                election.taken(&new, now);
                *lease = Some(new);
                true
            }
        }
    }

    #[test]
    fn the_first_takes_it_and_the_second_waits() {
        let (mut a, mut b, mut lease, now) = (candidate("a"), candidate("b"), None, Instant::now());
        assert!(attempt(&mut a, &mut lease, now));
        assert!(!attempt(&mut b, &mut lease, now));
        assert!(a.leads(now) && !b.leads(now));
        let lease = lease.unwrap();
        assert_eq!((lease.lease_transitions, lease.lease_duration_seconds), (Some(0), Some(30)));
    }

    #[test]
    fn a_holder_is_succeeded_only_after_it_has_stopped() {
        let (mut a, mut b, mut lease, mut now) = (candidate("a"), candidate("b"), None, Instant::now());
        attempt(&mut a, &mut lease, now);
        for step in 1..20_i64 {
            now += TTL / 4;
            let clock = Timestamp::from_second(step).unwrap();
            let Move::Take(new) = a.decide(lease.as_ref(), now, clock) else { panic!("it holds the Lease") };
            a.taken(&new, now);
            lease = Some(new);
            assert!(a.leads(now) && !attempt(&mut b, &mut lease, now), "step {step}");
        }
        let died = now;
        while !attempt(&mut b, &mut lease, now) {
            now += Duration::from_millis(500);
        }
        assert!(now - died >= TTL && now - died <= TTL + Duration::from_secs(1), "{:?}", now - died);
        assert!(!a.leads(died + TTL / 2) && b.leads(now));
        assert_eq!(lease.as_ref().unwrap().lease_transitions, Some(1));
        assert_eq!(a.decide(lease.as_ref(), now, Timestamp::UNIX_EPOCH), Move::Wait);
        assert!(!a.leads(now));
    }

    #[test]
    fn the_clock_of_another_machine_does_not_matter() {
        let (mut a, now) = (candidate("a"), Instant::now());
        let old = LeaseSpec {
            holder_identity: Some("b".into()),
            lease_duration_seconds: Some(30),
            renew_time: Some(MicroTime(Timestamp::UNIX_EPOCH)),
            ..LeaseSpec::default()
        };
        let mut lease = Some(old);
        assert!(!attempt(&mut a, &mut lease, now), "it was seen for the first time just now");
        assert!(attempt(&mut a, &mut lease, now + TTL));
    }

    #[test]
    fn a_released_lease_is_taken_at_once() {
        let (mut a, mut b, mut lease, now) = (candidate("a"), candidate("b"), None, Instant::now());
        attempt(&mut a, &mut lease, now);
        lease = a.released(lease.as_ref(), Timestamp::UNIX_EPOCH);
        assert!(!a.leads(now) && attempt(&mut b, &mut lease, now) && b.leads(now));
        assert_eq!(lease.as_ref().unwrap().lease_transitions, Some(1));
        assert_eq!(a.released(lease.as_ref(), Timestamp::UNIX_EPOCH), None, "it is another's");
    }

    #[test]
    fn a_replica_that_starts_again_under_its_name_goes_on() {
        let (mut a, mut lease, now) = (candidate("a"), None, Instant::now());
        attempt(&mut a, &mut lease, now);
        let mut again = candidate("a");
        assert!(attempt(&mut again, &mut lease, now) && again.leads(now));
        assert_eq!(lease.unwrap().lease_transitions, Some(0));
    }
}
