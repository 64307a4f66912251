//! The agent of Sluice's web application firewall (`waf-agent/`), beside the gateway on the core of
//! the proxy: its CPU time and memory count as those of the gateway.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use super::setup::Setup;

/// A running agent. Killed when dropped.
#[derive(Debug)]
pub struct Agent {
    child: Child,
}

impl Agent {
    /// Returns the program: `target/waf-agent`, in the folder above that of this program.
    ///
    /// # Errors
    /// It is missing; the message states how to build it.
    pub fn program() -> anyhow::Result<PathBuf> {
        let own = std::env::current_exe()?;
        let target = own.parent().and_then(Path::parent).context("this program is not in a target folder")?;
        let program = target.join("waf-agent");
        anyhow::ensure!(program.is_file(), "{} is missing; build it with: make waf-agent", program.display());
        Ok(program)
    }

    /// Starts it on a core. The gateway answers 503 until the agent serves.
    ///
    /// # Errors
    /// It is missing or cannot be started.
    pub fn start(setup: &Setup, core: usize) -> anyhow::Result<Self> {
        let child = Command::new("taskset")
            .args(["-c", &core.to_string()])
            .arg(Self::program()?)
            .args(["--listen", &setup.agent.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(setup.file("agent.log"))?)
            .spawn()
            .context("cannot start taskset")?;
        Ok(Self { child })
    }

    /// Returns its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // An error means that it has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
