//! Which replica writes to the cluster: the holder of a Lease, by the rules that Kubernetes' own controllers follow.
//!
//! The rules are a state machine without a network ([`election`]); here is what carries them out. There are crates for
//! this. The one that goes with our version of kube believes the clocks of other machines, keeps thinking that it
//! leads while it cannot renew, and notices a released Lease only when it would have expired.

mod election;

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ObjectMeta, PostParams};
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

use crate::duties::api::{self, Refused, hint};
use crate::duties::{Duty, Findings};
pub(crate) use election::Election;
use election::Move;

/// Between two attempts after somebody else was faster.
const CONFLICT: Duration = Duration::from_millis(100);

/// One candidate at work.
pub(crate) struct Candidate {
    pub(crate) api: Api<Lease>,
    /// The name of the Lease.
    pub(crate) name: String,
    pub(crate) election: Election,
    /// Whether we lead.
    pub(crate) leading: watch::Sender<bool>,
    pub(crate) findings: Findings,
}

impl Candidate {
    /// Runs for the Lease until it is stopped, then releases it.
    pub(crate) async fn run(mut self, mut stop: oneshot::Receiver<()>) {
        loop {
            let (wait, version) = tokio::select! {
                waited = self.attempt() => waited,
                _ = &mut stop => break,
            };
            // The end of what we hold comes before the next attempt where those fail.
            let wait = match self.election.leads_until() {
                Some(end) if self.leads() => wait.min(end.saturating_duration_since(Instant::now())),
                _ => wait,
            };
            let (follows, fields) = (!self.leads(), format!("metadata.name={}", self.name));
            tokio::select! {
                () = sleep(wait) => {}
                () = hint(&self.api, &fields, &version), if follows => {}
                _ = &mut stop => break,
            }
            self.tell();
        }
        self.release().await;
    }

    /// Reads the Lease and does what the rules say. Gives the time until the next attempt, and the version that was read.
    async fn attempt(&mut self) -> (Duration, String) {
        let retry = self.election.retry();
        // In the worst case it reaches the server at once, and others count from then on.
        let begun = Instant::now();
        let mut version = String::new();
        let outcome = async {
            let lease = api::found(self.api.get(&self.name)).await?;
            version =
                lease.as_ref().and_then(|lease| lease.metadata.resource_version.clone()).unwrap_or_default();
            let spec = lease.as_ref().and_then(|lease| lease.spec.as_ref());
            let Move::Take(new) = self.election.decide(spec, begun, Timestamp::now()) else {
                return Ok(false);
            };
            let how = PostParams { field_manager: Some("sluice".into()), ..PostParams::default() };
            match lease {
                Some(old) => {
                    // With the version that was read: somebody else who has written since is not overwritten.
                    let new = Lease { spec: Some(new.clone()), ..old };
                    api::ask(self.api.replace(&self.name, &how, &new)).await?;
                }
                None => {
                    let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
                    api::ask(self.api.create(&how, &Lease { metadata, spec: Some(new.clone()) })).await?;
                }
            }
            self.election.taken(&new, begun);
            Ok(true)
        };
        let outcome: Result<bool, Refused> = outcome.await;
        let wait = match &outcome {
            Err(Refused::Conflict) => CONFLICT.min(retry),
            // So that replicas that wait for the same end do not come at the same moment.
            _ => retry.mul_f64(1.0 + fastrand::f64() / 5.0),
        };
        let wait = match self.election.expires() {
            Some(end) if !self.leads() => {
                wait.min(end.saturating_duration_since(Instant::now()).max(CONFLICT))
            }
            _ => wait,
        };
        match &outcome {
            Ok(_) => self.findings.clear(Duty::Election).await,
            Err(refused) => {
                let object = format!("leases.coordination.k8s.io {}", self.name);
                self.findings
                    .refused(Duty::Election, &object, "leader election: nobody of us writes", refused)
                    .await;
            }
        }
        self.tell();
        (wait, version)
    }

    fn leads(&self) -> bool {
        self.election.leads(Instant::now())
    }

    fn tell(&self) {
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

    /// Gives the Lease up, so that another replica need not wait for its end.
    async fn release(mut self) {
        if !self.leads() {
            return;
        }
        // Before anybody else can lead.
        self.leading.send_replace(false);
        let released = async {
            let Some(lease) = api::found(self.api.get(&self.name)).await? else { return Ok(()) };
            let Some(spec) = self.election.released(lease.spec.as_ref(), Timestamp::now()) else {
                return Ok(());
            };
            let lease = Lease { spec: Some(spec), ..lease };
            api::ask(self.api.replace(&self.name, &PostParams::default(), &lease)).await.map(drop)
        };
        let released: Result<(), Refused> = released.await;
        match released {
            Ok(()) => tracing::info!(lease = self.name, "released the Lease"),
            Err(error) => {
                tracing::warn!(lease = self.name, %error, "cannot release the Lease; it ends by itself")
            }
        }
    }
}
