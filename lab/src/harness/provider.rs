//! What cluster tests need of a cluster, and who gives it: a lab, or any cluster that a kubeconfig leads to.
//!
//! A test says by the function that runs it what it needs. [`shared`](super::shared) runs in every cluster; what is written
//! with [`in_lab`](super::in_lab) or [`own`](super::own) gets the lab itself for its faults, and is skipped with a message
//! in another cluster.

use std::env;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::lab::Lab;
use crate::network;
use crate::programs;

/// The kubeconfig of the cluster that tests run in instead of a lab. It has to be an administrator's.
const KUBECONFIG: &str = "SLUICE_TEST_KUBECONFIG";

/// What stands before the names of the tests' images in such a cluster: `registry.example/tests/` makes `echo` the image
/// `registry.example/tests/echo`.
const IMAGES: &str = "SLUICE_TEST_IMAGES";

/// A cluster that tests can run in.
pub trait Provider: Debug + Send + Sync {
    /// The administrator's kubeconfig.
    fn kubeconfig(&self) -> PathBuf;

    /// Moves the calling thread, and all that it starts from now on, to where the addresses of the API server, of Pods and of
    /// Services are reached.
    ///
    /// # Errors
    /// When there is no way there.
    fn enter(&self) -> Result<()>;

    /// A command that runs there, with `KUBECONFIG` set and kubectl on its path.
    fn command(&self, program: &Path) -> Command;

    /// The image that a manifest of a test means by a bare name such as `echo`.
    fn image(&self, name: &str) -> String;

    /// What the cluster is and how it is, for the output of a failed test.
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

/// A cluster that a kubeconfig leads to. Tests run as they are, so this machine has to reach the addresses of its Pods and
/// Services: a node does, and so does the host of a cluster in local containers.
#[derive(Clone, Debug)]
pub struct Foreign {
    kubeconfig: PathBuf,
    images: String,
}

impl Foreign {
    /// The cluster that the environment names, if it names one.
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
