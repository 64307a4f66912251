//! Connections to the lab's API.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Returns a client with the identity of a kubeconfig. The calling thread must be in the lab's
/// network namespace.
///
/// # Errors
/// Returns an error if the kubeconfig is missing or does not parse.
pub async fn connect(kubeconfig: &Path) -> Result<Client> {
    let file =
        Kubeconfig::read_from(kubeconfig).with_context(|| format!("cannot read {}", kubeconfig.display()))?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    // The client's own retries wait up to minutes, long after a restarted API server is back.
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(2));
    Ok(Client::try_from(config)?)
}

/// The interval between attempts of a watcher. Constant and short, because the only API is on this
/// machine and tests wait for it.
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
