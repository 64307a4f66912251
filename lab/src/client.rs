//! Connections to the lab's API.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// A client for the identity of a kubeconfig. The calling thread must be in the lab's network namespace.
///
/// # Errors
/// When the kubeconfig is missing or does not parse.
pub async fn connect(kubeconfig: &Path) -> Result<Client> {
    let file =
        Kubeconfig::read_from(kubeconfig).with_context(|| format!("cannot read {}", kubeconfig.display()))?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    // The client's own retries wait up to minutes: long after a stopped API server is back.
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(2));
    Ok(Client::try_from(config)?)
}

/// How long a watcher waits before its next attempt: always the same short time, since the only API it meets is on this
/// machine and a test waits for it.
#[derive(Clone, Copy, Debug)]
pub struct Again;

impl Iterator for Again {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(250))
    }
}

impl kube::runtime::utils::Backoff for Again {
    fn reset(&mut self) {}
}
