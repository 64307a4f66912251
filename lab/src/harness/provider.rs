//! The cluster of tests: a lab, or any cluster given by a kubeconfig.
//!
//! The function that runs a test states its requirements. [`shared`](super::shared) runs in every
//! cluster; tests with [`in_lab`](super::in_lab) or [`own`](super::own) get the lab itself for
//! fault injection, and are skipped with a message in other clusters.

use std::env;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::lab::Lab;
use crate::network;
use crate::programs;

/// Environment variable with the kubeconfig of a cluster to use instead of a lab. It must be an
/// administrator's.
const KUBECONFIG: &str = "SLUICE_TEST_KUBECONFIG";

/// Environment variable with the prefix of the tests' images in such a cluster: with
/// `registry.example/tests/`, `echo` becomes `registry.example/tests/echo`.
const IMAGES: &str = "SLUICE_TEST_IMAGES";

/// A cluster in which tests can run.
pub trait Provider: Debug + Send + Sync {
    /// Returns the administrator's kubeconfig.
    fn kubeconfig(&self) -> PathBuf;

    /// Moves the calling thread, and everything that it starts later, to where the addresses of the
    /// API server, Pods and Services are reachable.
    ///
    /// # Errors
    /// Returns an error if there is no way there.
    fn enter(&self) -> Result<()>;

    /// Returns a command that runs there, with `KUBECONFIG` set and kubectl in its `PATH`.
    fn command(&self, program: &Path) -> Command;

    /// Returns the image for a bare name such as `echo` in a test's manifest.
    fn image(&self, name: &str) -> String;

    /// Describes the cluster and its state, for the output of a failed test.
    fn describe(&self) -> String;
}

impl Provider for Lab {
    fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig()
    }

    fn enter(&self) -> Result<()> {
        network::enter(&self.layout().netns())
    }

    fn command(&self, program: &Path) -> Command {
        self.command(program)
    }

    fn image(&self, name: &str) -> String {
        name.to_owned()
    }

    fn describe(&self) -> String {
        let mut text = format!("the lab {}\n", self.layout().name());
        for (role, process) in self.roles() {
            let log = std::fs::read_to_string(self.layout().log(&role)).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            let state = if process.is_some() { "runs" } else { "has ended" };
            text += &format!("-- {role} {state}\n{}\n", lines[lines.len().saturating_sub(10)..].join("\n"));
        }
        text
    }
}

/// A cluster given by a kubeconfig. Tests run unchanged, so this machine must reach the addresses
/// of Pods and Services, as a node does, or the host of a cluster in local containers.
#[derive(Clone, Debug)]
pub struct Foreign {
    kubeconfig: PathBuf,
    images: String,
}

impl Foreign {
    /// Returns the cluster that the environment names, if any.
    pub fn from_environment() -> Option<Self> {
        let kubeconfig = env::var_os(KUBECONFIG).filter(|path| !path.is_empty())?;
        Some(Self { kubeconfig: kubeconfig.into(), images: env::var(IMAGES).unwrap_or_default() })
    }
}

impl Provider for Foreign {
    fn kubeconfig(&self) -> PathBuf {
        self.kubeconfig.clone()
    }

    fn enter(&self) -> Result<()> {
        self.kubeconfig
            .metadata()
            .map(drop)
            .with_context(|| format!("{KUBECONFIG} names {}", self.kubeconfig.display()))
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("KUBECONFIG", &self.kubeconfig).env("PATH", programs::search_path());
        command
    }

    fn image(&self, name: &str) -> String {
        format!("{}{name}", self.images)
    }

    fn describe(&self) -> String {
        format!("the cluster of {}\n", self.kubeconfig.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_another_cluster_are_in_its_registry() {
        let foreign = Foreign { kubeconfig: "/k".into(), images: "registry.example/tests/".into() };
        assert_eq!(foreign.image("echo"), "registry.example/tests/echo");
    }
}
