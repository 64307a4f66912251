//! The lifecycle of one container: start, supervision, restart, end.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::board::{Board, ContainerPlace};
use super::launch::{LaunchError, Running, Sandbox, launch};
use super::pod_state::{ContainerPhase, Ended};
use super::stop::{Stop, overdue, requested};
use super::{NodeContext, health, hook};

/// Run time after which the count of consecutive failures restarts.
const LONG_ENOUGH: Duration = Duration::from_secs(10);
/// Maximum wait before a restart. A real node waits up to five minutes, which is too long for
/// tests.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// When a container is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// However it ended.
    Always,
    /// If it failed.
    OnFailure,
    /// Never.
    Never,
}

/// A container and the inputs of its lifecycle.
pub struct Life {
    /// The node.
    pub node: Arc<NodeContext>,
    /// Resources shared with the Pod's other containers.
    pub sandbox: Arc<Sandbox>,
    /// The container's specification.
    pub container: Container,
    /// The board for its state.
    pub board: Arc<Board>,
    /// Its identity within the Pod.
    pub place: ContainerPlace,
    /// When it is restarted.
    pub restart: Restart,
    /// When it must end.
    pub stop: watch::Receiver<Stop>,
    /// Time limit for its end after a failed probe.
    pub grace: Duration,
}

impl Restart {
    /// Returns the policy for a Pod's `restartPolicy`.
    pub fn of_pod(policy: Option<&str>) -> Self {
        match policy {
            Some("Never") => Self::Never,
            Some("OnFailure") => Self::OnFailure,
            _ => Self::Always,
        }
    }

    fn again(self, code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => code != 0,
            Self::Never => false,
        }
    }
}

impl Life {
    /// Runs the container until the Pod ends or the container has ended finally. Returns whether
    /// its last run succeeded.
    pub async fn live(mut self) -> bool {
        let mut failures = 0;
        let mut run = 0;
        self.board.update_container(self.place, |state| run = state.restarts);
        while *self.stop.borrow() == Stop::No {
            let begun = Instant::now();
            match launch(&self.node, &self.sandbox, &self.container, run).await {
                Err(error) => {
                    self.wait_for(&error);
                    if !self.pause(Duration::from_secs(1)).await {
                        return false;
                    }
                    continue;
                }
                Ok(running) => {
                    let ended = self.attend(running).await;
                    let code = ended.code;
                    info!(container = self.container.name, code, "ended");
                    let last = *self.stop.borrow() != Stop::No || !self.restart.again(code);
                    self.board.update_container(self.place, |state| {
                        (state.ready, state.started) = (false, false);
                        state.phase = ContainerPhase::Ended(ended);
                    });
                    if last {
                        return code == 0;
                    }
                }
            }
            failures = if begun.elapsed() < LONG_ENOUGH { failures + 1 } else { 1 };
            if !self.back_off(failures).await {
                return false;
            }
            run += 1;
            self.board.update_container(self.place, |state| state.restarts = run);
        }
        false
    }

    /// Supervises one run from start to end.
    async fn attend(&mut self, mut running: Running) -> Ended {
        let began = Timestamp::now();
        self.board.update_container(self.place, |state| state.phase = ContainerPhase::Running(began));
        let target = running.target.clone();
        let mut stop = self.stop.clone();
        let outcome = tokio::select! {
            status = running.wait() => Outcome::Ended(status),
            () = requested(&mut stop) => Outcome::Stopped,
            reason = health::watch(&self.container, &target, &self.board, self.place) => Outcome::Unhealthy(reason),
        };
        let status = match outcome {
            Outcome::Ended(status) => status,
            Outcome::Stopped => self.drain(running, &mut stop).await,
            Outcome::Unhealthy(reason) => {
                warn!(container = self.container.name, reason, "is started again");
                let (_keep, mut stop) = watch::channel(Stop::By(Instant::now() + self.grace));
                self.drain(running, &mut stop).await
            }
        };
        let signal = status.signal();
        let code = status.code().unwrap_or_else(|| 128 + signal.unwrap_or(0));
        Ended { code, signal, began, ended: Timestamp::now() }
    }

    /// Ends the program: `preStop`, SIGTERM, and SIGKILL after the grace period. Readiness is
    /// probed until it has ended.
    async fn drain(&self, mut running: Running, stop: &mut watch::Receiver<Stop>) -> ExitStatus {
        let target = running.target.clone();
        let pre_stop = self.container.lifecycle.as_ref().and_then(|hooks| hooks.pre_stop.as_ref());
        let polite = async {
            if let Some(handler) = pre_stop
                && let Err(error) = hook::run(handler, &self.container, &target).await
            {
                warn!(container = self.container.name, error, "preStop failed");
            }
            running.terminate();
            running.wait().await
        };
        let outcome = tokio::select! {
            status = polite => Some(status),
            () = overdue(stop) => None,
            never = health::readiness(&self.container, &target, &self.board, self.place) => match never {},
        };
        match outcome {
            Some(status) => status,
            None => {
                running.kill();
                running.wait().await
            }
        }
    }

    /// Reports why the container cannot be started.
    fn wait_for(&self, error: &LaunchError) {
        let reason = match error {
            LaunchError::Image(_) => "ErrImagePull",
            LaunchError::Configuration(_) => "CreateContainerConfigError",
        };
        let message = error.to_string();
        warn!(container = self.container.name, message, "cannot be started");
        self.board.update_container(self.place, |state| {
            state.phase = ContainerPhase::Waiting(reason, Some(message))
        });
    }

    /// Waits before the container is restarted. Returns false if the Pod ends meanwhile.
    async fn back_off(&mut self, failures: u32) -> bool {
        let wait = back_off(failures);
        self.board.update_container(self.place, |state| {
            if let ContainerPhase::Ended(ended) = &state.phase {
                state.last = Some(ended.clone());
            }
            if wait > Duration::ZERO {
                let message = format!("waiting {} s before the next start", wait.as_secs());
                state.phase = ContainerPhase::Waiting("CrashLoopBackOff", Some(message));
            }
        });
        self.pause(wait).await
    }

    async fn pause(&mut self, time: Duration) -> bool {
        tokio::select! {
            () = sleep(time) => true,
            () = requested(&mut self.stop) => false,
        }
    }
}

enum Outcome {
    Ended(ExitStatus),
    Stopped,
    Unhealthy(String),
}

/// Returns the wait after this number of consecutive failures: none at first, then 1, 2, 4 s and so
/// on.
fn back_off(failures: u32) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        more => Duration::from_secs(1 << (more - 2).min(10)).min(LONGEST_WAIT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_restart_is_at_once_and_the_rest_are_not() {
        let seconds: Vec<u64> = (1..=8).map(|failures| back_off(failures).as_secs()).collect();
        assert_eq!(seconds, [0, 1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(back_off(u32::MAX), LONGEST_WAIT);
    }

    #[test]
    fn the_policy_decides_on_the_exit_code() {
        assert!(Restart::of_pod(None).again(0));
        assert!(!Restart::of_pod(Some("OnFailure")).again(0));
        assert!(Restart::of_pod(Some("OnFailure")).again(1));
        assert!(!Restart::of_pod(Some("Never")).again(1));
    }
}
