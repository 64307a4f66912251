//! Hooks that run before a container is ended (`preStop`).

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler};

use super::probe::{ProbeAction, ProbeTarget};

/// Runs a hook without a time limit; the caller sets one.
///
/// # Errors
/// Returns an error if the hook fails, which is only logged.
pub async fn run(
    handler: &LifecycleHandler,
    container: &Container,
    target: &ProbeTarget,
) -> Result<(), String> {
    const UNLIMITED: Duration = Duration::from_secs(24 * 3600);
    if let Some(exec) = &handler.exec {
        let command = exec.command.as_deref().unwrap_or_default();
        ProbeAction::Exec(command).run(container, target, UNLIMITED).await
    } else if let Some(action) = &handler.http_get {
        ProbeAction::Http(action).run(container, target, UNLIMITED).await
    } else if let Some(sleep) = &handler.sleep {
        tokio::time::sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0))).await;
        Ok(())
    } else {
        Err("the lab supports exec, httpGet and sleep hooks, and this is none of them".into())
    }
}
