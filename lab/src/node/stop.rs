//! The time at which a Pod's containers must end.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::Desired;

/// Whether and when a Pod ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The Pod runs.
    No,
    /// The Pod drains until this time at the latest.
    By(Instant),
    /// The Pod is killed.
    Now,
}

impl Stop {
    /// Returns the stop for the desired state. The deletion timestamp in the API is the end of the
    /// grace period; here the grace period starts when the deletion is received instead, because
    /// clocks may differ by more than a second.
    pub fn of(desired: &Desired, earlier: Self) -> Self {
        if desired.gone {
            return Self::Now;
        }
        let Some(grace) = grace(&desired.pod) else { return earlier };
        let end = Instant::now() + grace;
        match earlier {
            Self::No => Self::By(end),
            Self::By(earlier) => Self::By(earlier.min(end)),
            Self::Now => Self::Now,
        }
    }
}

/// Returns the grace period of a Pod's deletion. `None` while it is not being deleted.
fn grace(pod: &Pod) -> Option<Duration> {
    pod.metadata.deletion_timestamp.as_ref()?;
    let seconds = pod.metadata.deletion_grace_period_seconds.unwrap_or(30);
    Some(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// Waits until the Pod must end, gracefully or not.
pub async fn requested(stop: &mut watch::Receiver<Stop>) {
    // An error means that the sender is gone; the Pod then runs as long as this task.
    if stop.wait_for(|stop| *stop != Stop::No).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Waits until the grace period has ended. A later request may shorten it but never extend it.
pub async fn overdue(stop: &mut watch::Receiver<Stop>) {
    loop {
        let now = *stop.borrow_and_update();
        let changed = match now {
            Stop::Now => return,
            Stop::No => stop.changed().await,
            Stop::By(end) => tokio::select! {
                () = sleep_until(end) => return,
                changed = stop.changed() => changed,
            },
        };
        if changed.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn deleted(seconds: i64) -> Desired {
        let pod = serde_json::from_value(serde_json::json!({"metadata": {
            "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": seconds,
        }}));
        Desired { pod: Arc::new(pod.unwrap()), gone: false }
    }

    #[tokio::test(start_paused = true)]
    async fn grace_is_shortened_and_never_prolonged() {
        let running = Desired { pod: Arc::new(Pod::default()), gone: false };
        assert_eq!(Stop::of(&running, Stop::No), Stop::No);
        let first = Stop::of(&deleted(30), Stop::No);
        assert_eq!(first, Stop::By(Instant::now() + Duration::from_secs(30)));
        assert_eq!(Stop::of(&deleted(60), first), first);
        assert_eq!(Stop::of(&deleted(1), first), Stop::By(Instant::now() + Duration::from_secs(1)));
        assert_eq!(Stop::of(&Desired { gone: true, ..running }, first), Stop::Now);
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_deletion_takes_effect_during_the_first() {
        let (sender, mut stop) = watch::channel(Stop::By(Instant::now() + Duration::from_secs(3600)));
        let begun = Instant::now();
        let waiting = tokio::spawn(async move { overdue(&mut stop).await });
        tokio::time::sleep(Duration::from_secs(5)).await;
        sender.send_replace(Stop::Now);
        waiting.await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
    }
}
