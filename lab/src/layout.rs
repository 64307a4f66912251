//! Paths of a lab. All files of one lab are under one folder, so taking it down means to remove
//! that folder after the processes and namespaces recorded in it are gone.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::addresses::NodeIndex;
use crate::name::LabName;

/// The paths and namespace names of one lab.
#[derive(Clone, Debug)]
pub struct Layout {
    name: LabName,
    dir: PathBuf,
}

/// Settings of `up`, stored for processes that join the lab later.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LabSettings {
    /// Number of nodes, each in a zone of its own.
    pub nodes: u8,
    /// Whether Pods and Services also have IPv6 addresses.
    pub dual_stack: bool,
    /// Programs of image names, in addition to the built-in table and with precedence over it.
    pub images: Vec<(String, PathBuf)>,
}

impl Layout {
    /// Returns the layout of the lab called `name`, under `$SLUICE_LAB_STATE` or `/run/sluice-lab`.
    pub fn new(name: LabName) -> Self {
        let dir = Self::base().join(name.as_str());
        Self { name, dir }
    }

    /// Returns the folder that contains the folders of all labs.
    pub fn base() -> PathBuf {
        env::var_os("SLUICE_LAB_STATE").map_or_else(|| PathBuf::from("/run/sluice-lab"), PathBuf::from)
    }

    /// Returns the names of all labs with remains on this machine, running or crashed.
    pub fn known() -> Vec<LabName> {
        let Ok(entries) = fs::read_dir(Self::base()) else { return Vec::new() };
        let mut names: Vec<LabName> =
            entries.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        names
    }

    /// Returns the lab's name.
    pub fn name(&self) -> &LabName {
        &self.name
    }

    /// Returns the folder of this lab.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the lab's own network namespace.
    pub fn netns(&self) -> String {
        format!("sluice.{}", self.name)
    }

    /// Returns the network namespace of Service addresses.
    pub fn services_netns(&self) -> String {
        format!("{}.services", self.netns())
    }

    /// Returns the network namespace of the Pod with this `tag` (its address in hexadecimal).
    pub fn pod_netns(&self, tag: &str) -> String {
        format!("sluice.{}.{tag}", self.name)
    }

    /// Returns whether a network namespace belongs to this lab or one of its Pods.
    pub fn owns_netns(&self, netns: &str) -> bool {
        let own = self.netns();
        netns == own || netns.strip_prefix(&own).is_some_and(|rest| rest.starts_with('.'))
    }

    /// Returns the path of a certificate or key.
    pub fn pki(&self, file: &str) -> PathBuf {
        self.dir.join("pki").join(file)
    }

    /// Returns the kubeconfig of an identity: `admin`, `scheduler` or a node's name.
    pub fn kubeconfig(&self, who: &str) -> PathBuf {
        self.dir.join("kubeconfig").join(who)
    }

    /// Returns the log of the program in a role.
    pub fn log(&self, role: &str) -> PathBuf {
        self.dir.join("logs").join(format!("{role}.log"))
    }

    /// Returns the record of the process in a role.
    pub fn record(&self, role: &str) -> PathBuf {
        self.dir.join("processes").join(role)
    }

    /// Returns the folder of etcd's data.
    pub fn etcd(&self) -> PathBuf {
        self.dir.join("etcd")
    }

    /// Returns the folder of a node's Pods. Each has a folder named after its UID.
    pub fn pods(&self, node: NodeIndex) -> PathBuf {
        self.dir.join("pods").join(node.name())
    }

    /// Creates the folders, readable by root only.
    pub fn create(&self) -> Result<()> {
        use std::os::unix::fs::PermissionsExt;
        for part in ["pki", "kubeconfig", "logs", "processes", "etcd", "pods"] {
            let dir = self.dir.join(part);
            fs::create_dir_all(&dir).with_context(|| format!("cannot make the folder {}", dir.display()))?;
        }
        fs::set_permissions(&self.dir, fs::Permissions::from_mode(0o700))?;
        fs::set_permissions(self.etcd(), fs::Permissions::from_mode(0o700))?;
        Ok(())
    }

    /// Writes the settings.
    pub fn save(&self, settings: &LabSettings) -> Result<()> {
        Ok(fs::write(self.dir.join("settings.json"), serde_json::to_vec_pretty(settings)?)?)
    }

    /// Reads the settings.
    ///
    /// # Errors
    /// Returns an error if there is no lab of this name.
    pub fn settings(&self) -> Result<LabSettings> {
        let file = self.dir.join("settings.json");
        let text = fs::read(&file).with_context(|| {
            format!(
                "there is no lab called {}: start it with `sluice-lab up --name {}`",
                self.name, self.name
            )
        })?;
        serde_json::from_slice(&text).with_context(|| format!("{} does not parse", file.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lab_owns_its_own_namespaces_only() {
        let layout = Layout::new("a".parse().unwrap());
        assert!(layout.owns_netns("sluice.a"));
        assert!(layout.owns_netns(&layout.pod_netns("0af40102")));
        assert!(!layout.owns_netns("sluice.a-b"));
        assert!(!layout.owns_netns("sluice.a-b.0af40102"));
        assert!(!layout.owns_netns("a"));
    }
}
