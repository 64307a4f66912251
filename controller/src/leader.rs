//! Leader election by a Lease, with the rules of Kubernetes' own controllers.
//!
//! The rules are a state machine without I/O ([`election`]); this module executes it. The crate for
//! our version of kube was rejected: it relies on the clocks of other machines, still assumes
//! leadership while renewals fail, and notices a released Lease only at its expiry.
//!
//! The leader renews with one request, based on the version that it wrote last. The other
//! candidates watch the Lease and send requests only when it is released or expires.

mod election;

use std::pin::pin;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ObjectMeta, PostParams, WatchEvent};
use tokio::sync::{oneshot, watch};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::cluster::Findings;
use crate::cluster::api::{self, Refused};
use crate::problem::Duty;
pub(crate) use election::Election;
use election::Move;

/// Time until the next watch after a refused one. Until then the Lease is polled.
const UNWATCHED: Duration = Duration::from_secs(60);

/// A running candidate.
pub(crate) struct Candidate {
    api: Api<Lease>,
    /// Name of the Lease.
    name: String,
    election: Election,
    /// Whether this candidate is the leader.
    leading: watch::Sender<bool>,
    findings: Findings,
    /// The last version of the Lease that was read or written.
    lease: Option<Lease>,
    /// Number of consecutive failures.
    failures: u32,
    /// Time before which no watch is started.
    unwatched_until: Option<Instant>,
}

impl Candidate {
    pub(crate) fn new(
        api: Api<Lease>,
        name: String,
        election: Election,
        leading: watch::Sender<bool>,
        findings: Findings,
    ) -> Self {
        Self { api, name, election, leading, findings, lease: None, failures: 0, unwatched_until: None }
    }

    /// Runs the election until `stop`, then releases the Lease.
    pub(crate) async fn run(mut self, mut stop: oneshot::Receiver<()>) {
        loop {
            let next = tokio::select! {
                next = self.attempt() => next,
                _ = &mut stop => break,
            };
            tokio::select! {
                () = self.rest(next) => {}
                _ = &mut stop => break,
            }
        }
        self.release().await;
    }

    /// Makes one attempt. Returns the time of the next one.
    async fn attempt(&mut self) -> Instant {
        let time_limit = self.election.attempt_timeout(Instant::now());
        let outcome = match timeout(time_limit, self.read_and_write()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Refused::silent(time_limit)),
        };
        self.announce();
        let wait = match &outcome {
            Ok(()) => {
                self.failures = 0;
                self.findings.clear(Duty::Election);
                self.election.retry()
            }
            Err(refused) => {
                self.failures = self.failures.saturating_add(1);
                let object = format!("leases.coordination.k8s.io {}", self.name);
                let effect = "leader election: no replica writes";
                self.findings.refused(Duty::Election, &object, effect, refused);
                self.election.backoff(self.failures).max(refused.retry_after().unwrap_or_default())
            }
        };
        Instant::now() + wait
    }

    /// Reads the Lease, unless this candidate holds it, and applies the rules.
    async fn read_and_write(&mut self) -> Result<(), Refused> {
        let own = self.lease.take().filter(|_| self.leads());
        let lease = match own {
            Some(lease) => Some(lease),
            None => api::found(self.api.get(&self.name)).await?,
        };
        let spec = lease.as_ref().and_then(|lease| lease.spec.as_ref());
        let Move::Take(new) = self.election.decide(spec, Instant::now(), Timestamp::now()) else {
            self.lease = lease;
            return Ok(());
        };
        // The request may reach the server at once, and other candidates count from then on.
        let begun = Instant::now();
        let how = PostParams { field_manager: Some("sluice".into()), ..PostParams::default() };
        let written = match lease {
            // The write fails if another replica has written since the read.
            Some(old) => {
                let new = Lease { spec: Some(new.clone()), ..old };
                api::execute(self.api.replace(&self.name, &how, &new)).await?
            }
            None => {
                let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
                let new = Lease { metadata, spec: Some(new.clone()) };
                api::execute(self.api.create(&how, &new)).await?
            }
        };
        self.election.taken(&new, begun);
        self.lease = Some(written);
        Ok(())
    }

    /// Waits for the next attempt, or until the Lease is released or expires.
    async fn rest(&mut self, next: Instant) {
        if self.failures == 0 && !self.leads() {
            return self.follow(next).await;
        }
        loop {
            // The term may end before the next attempt.
            let end = self.election.leads_until().filter(|_| *self.leading.borrow());
            sleep_until(end.map_or(next, |end| end.min(next))).await;
            self.announce();
            if Instant::now() >= next {
                return;
            }
        }
    }

    /// Watches the Lease of another replica, so that its renewals cost no request. Falls back to
    /// reading at `next`.
    async fn follow(&mut self, next: Instant) {
        let begun = Instant::now();
        let version = self.lease.as_ref().and_then(|lease| lease.metadata.resource_version.clone());
        if let Some(version) = version
            && self.unwatched_until.is_none_or(|end| begun >= end)
        {
            if self.watch(&version).await {
                return;
            }
            if Instant::now() < next {
                self.unwatched_until = Some(begun + UNWATCHED);
            }
        }
        sleep_until(self.end_of_lease().map_or(next, |end| end.min(next))).await;
    }

    /// Watches the Lease until it is free. Returns false if the watch ends without that.
    async fn watch(&mut self, version: &str) -> bool {
        let fields = format!("metadata.name={}", self.name);
        let Some(end) = self.end_of_lease() else { return true };
        let Ok(Ok(events)) = timeout_at(end, api::watch(&self.api, &fields, version)).await else {
            return false;
        };
        let mut events = pin!(events);
        while let Some(end) = self.end_of_lease() {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(WatchEvent::Added(lease) | WatchEvent::Modified(lease))) => {
                        let spec = lease.spec.unwrap_or_default();
                        self.election.observe(&spec, Instant::now());
                    }
                    Some(Ok(WatchEvent::Deleted(_))) => return true,
                    Some(Ok(WatchEvent::Bookmark(_))) => {}
                    Some(Ok(WatchEvent::Error(_)) | Err(_)) | None => return false,
                },
                () = sleep_until(end) => return true,
            }
        }
        true
    }

    /// Returns the time at which the Lease of another replica may be acquired, with a different
    /// delay per candidate.
    fn end_of_lease(&self) -> Option<Instant> {
        Some(self.election.expires()? + self.election.backoff(1))
    }

    fn leads(&self) -> bool {
        self.election.leads(Instant::now())
    }

    /// Publishes and logs a change of the leadership.
    fn announce(&self) {
        let leads = self.leads();
        let changed = self.leading.send_if_modified(|leading| std::mem::replace(leading, leads) != leads);
        match leads {
            _ if !changed => {}
            true => {
                tracing::info!(lease = self.name, identity = self.election.identity(), "this replica leads")
            }
            false => tracing::warn!(
                lease = self.name,
                "this replica does not lead any more: the Lease could not be renewed"
            ),
        }
    }

    /// Releases the Lease, so that another replica need not wait for its expiry.
    async fn release(mut self) {
        if !self.leads() {
            return;
        }
        // Must precede the release, after which another replica can lead.
        self.leading.send_replace(false);
        let released = async {
            let Some(lease) = api::found(self.api.get(&self.name)).await? else { return Ok(()) };
            let Some(spec) = self.election.released(lease.spec.as_ref(), Timestamp::now()) else {
                return Ok(());
            };
            let lease = Lease { spec: Some(spec), ..lease };
            api::execute(self.api.replace(&self.name, &PostParams::default(), &lease)).await.map(drop)
        };
        let released: Result<(), Refused> = released.await;
        match released {
            Ok(()) => tracing::info!(lease = self.name, "released the Lease"),
            Err(error) => {
                tracing::warn!(lease = self.name, %error, "cannot release the Lease; it expires")
            }
        }
    }
}
