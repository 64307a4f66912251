//! Probes of a running container: whether it has started, is ready, or must be restarted.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use tokio::time::sleep;

use super::board::{Board, ContainerPlace};
use super::probe::{ProbeAction, ProbeTarget};

/// Maximum interval between readiness probes until the first success, because tests wait for it.
const IMPATIENT: Duration = Duration::from_millis(250);

/// Compares consecutive successes and failures with a probe's thresholds.
#[derive(Clone, Copy, Debug)]
struct ProbeResults {
    successes_needed: u32,
    failures_allowed: u32,
    successes: u32,
    failures: u32,
}

impl ProbeResults {
    fn new(probe: &Probe) -> Self {
        Self {
            successes_needed: positive(probe.success_threshold, 1),
            failures_allowed: positive(probe.failure_threshold, 3),
            successes: 0,
            failures: 0,
        }
    }

    /// Records a result. Returns the new state if a threshold is reached.
    fn after(&mut self, success: bool) -> Option<bool> {
        if success {
            (self.successes, self.failures) = (self.successes.saturating_add(1), 0);
            (self.successes >= self.successes_needed).then_some(true)
        } else {
            (self.successes, self.failures) = (0, self.failures.saturating_add(1));
            (self.failures >= self.failures_allowed).then_some(false)
        }
    }
}

/// Probes a container until it must be restarted, and returns the reason. Never returns for a
/// healthy container.
pub async fn watch(
    container: &Container,
    target: &ProbeTarget,
    board: &Board,
    place: ContainerPlace,
) -> String {
    if let Some(probe) = &container.startup_probe {
        let mut last = String::new();
        if !decide(probe, container, target, &mut last).await {
            return format!("the startup probe failed: {last}");
        }
    }
    board.update_container(place, |state| {
        state.started = true;
        state.ready = container.readiness_probe.is_none();
    });
    tokio::select! {
        never = readiness(container, target, board, place) => match never {},
        reason = liveness(container, target) => reason,
    }
}

/// Keeps a container's readiness up to date. Continues while the container drains, as on a real
/// node.
pub async fn readiness(
    container: &Container,
    target: &ProbeTarget,
    board: &Board,
    place: ContainerPlace,
) -> std::convert::Infallible {
    let Some(probe) = &container.readiness_probe else { return std::future::pending().await };
    let mut results = ProbeResults::new(probe);
    let mut ready_once = false;
    sleep(seconds(probe.initial_delay_seconds, 0)).await;
    loop {
        let outcome = attempt(probe, container, target).await;
        if let Some(ready) = results.after(outcome.is_ok()) {
            ready_once |= ready;
            board.update_container(place, |state| state.ready = ready);
        }
        let period = seconds(probe.period_seconds, 10);
        sleep(if ready_once { period } else { period.min(IMPATIENT) }).await;
    }
}

async fn liveness(container: &Container, target: &ProbeTarget) -> String {
    let Some(probe) = &container.liveness_probe else { return std::future::pending().await };
    let mut results = ProbeResults::new(probe);
    sleep(seconds(probe.initial_delay_seconds, 0)).await;
    loop {
        let outcome = attempt(probe, container, target).await;
        if results.after(outcome.is_ok()) == Some(false) {
            return format!("the liveness probe failed: {}", outcome.err().unwrap_or_default());
        }
        sleep(seconds(probe.period_seconds, 10)).await;
    }
}

/// Probes until a threshold is reached.
async fn decide(probe: &Probe, container: &Container, target: &ProbeTarget, last: &mut String) -> bool {
    let mut results = ProbeResults::new(probe);
    sleep(seconds(probe.initial_delay_seconds, 0)).await;
    loop {
        let outcome = attempt(probe, container, target).await;
        if let Some(decision) = results.after(outcome.is_ok()) {
            *last = outcome.err().unwrap_or_default();
            return decision;
        }
        sleep(seconds(probe.period_seconds, 10)).await;
    }
}

async fn attempt(probe: &Probe, container: &Container, target: &ProbeTarget) -> Result<(), String> {
    let limit = seconds(probe.timeout_seconds, 1).max(Duration::from_secs(1));
    let attempt = if let Some(action) = &probe.http_get {
        ProbeAction::Http(action)
    } else if let Some(action) = &probe.tcp_socket {
        ProbeAction::Tcp(action.host.as_ref(), &action.port)
    } else if let Some(action) = &probe.grpc {
        ProbeAction::Grpc(action)
    } else if let Some(action) = &probe.exec {
        ProbeAction::Exec(action.command.as_deref().unwrap_or_default())
    } else {
        return Err(
            "the lab supports httpGet, tcpSocket, grpc and exec probes, and this is none of them".into()
        );
    };
    attempt.run(container, target, limit).await
}

fn positive(given: Option<i32>, default: u32) -> u32 {
    given.and_then(|given| u32::try_from(given).ok()).filter(|given| *given > 0).unwrap_or(default)
}

fn seconds(given: Option<i32>, default: u32) -> Duration {
    Duration::from_secs(u64::from(positive(given, default)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_count_in_a_row() {
        let probe = Probe { success_threshold: Some(2), failure_threshold: Some(3), ..Probe::default() };
        let mut results = ProbeResults::new(&probe);
        let outcomes = [true, false, true, true, false, false, true, false, false, false, true, true];
        let decided: Vec<Option<bool>> = outcomes.into_iter().map(|outcome| results.after(outcome)).collect();
        let expected =
            [None, None, None, Some(true), None, None, None, None, None, Some(false), None, Some(true)];
        assert_eq!(decided, expected);
    }

    #[test]
    fn unset_values_have_kubernetes_defaults() {
        let results = ProbeResults::new(&Probe::default());
        assert_eq!((results.successes_needed, results.failures_allowed), (1, 3));
        assert_eq!(seconds(None, 10), Duration::from_secs(10));
        assert_eq!(seconds(Some(0), 10), Duration::from_secs(10));
        assert_eq!(seconds(Some(2), 10), Duration::from_secs(2));
    }
}
