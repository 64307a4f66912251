//! Calls of kubectl for the selected cluster.

use std::io::Write;
use std::process::{Command, ExitCode, Output, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::arguments::GatewaySelection;

/// The kubectl command.
pub(super) struct Kubectl {
    program: &'static str,
    /// Arguments at the start of each call.
    first: Vec<String>,
}

/// A temporary file, removed on drop.
pub(super) struct Kubeconfig(tempfile::NamedTempFile);

impl Kubeconfig {
    /// Returns its path.
    pub(super) fn path(&self) -> &std::path::Path {
        self.0.path()
    }
}

impl Kubectl {
    /// Uses the kubectl on the path, with the flags that select the cluster.
    pub(super) fn new(target: &GatewaySelection) -> Self {
        Self::by("kubectl", Vec::new(), target)
    }

    /// Uses another program with initial arguments.
    pub(super) fn by(program: &'static str, mut first: Vec<String>, target: &GatewaySelection) -> Self {
        for (flag, value) in [("--kubeconfig", &target.kubeconfig), ("--context", &target.context)] {
            first.extend(value.iter().flat_map(|value| [flag.to_owned(), value.clone()]));
        }
        Self { program, first }
    }

    /// Returns objects as JSON.
    ///
    /// # Errors
    /// kubectl fails; the error is its message.
    pub(super) fn json(&self, arguments: &[&str]) -> Result<Value> {
        let mut command = self.command();
        command.args(arguments).args(["--output", "json"]);
        Ok(serde_json::from_slice(&said(command.output().context(MISSING)?)?)?)
    }

    /// Returns its output as text.
    ///
    /// # Errors
    /// kubectl fails; the error is its message.
    pub(super) fn text(&self, arguments: &[&str]) -> Result<String> {
        let output = self.command().args(arguments).output().context(MISSING)?;
        Ok(String::from_utf8_lossy(&said(output)?).into_owned())
    }

    /// Runs kubectl on this terminal and returns its exit status.
    ///
    /// # Errors
    /// kubectl cannot be run.
    pub(super) fn run(&self, arguments: &[String]) -> Result<ExitCode> {
        let status = self.command().args(arguments).status().context(MISSING)?;
        Ok(match status.code() {
            Some(0) => ExitCode::SUCCESS,
            Some(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
            None => ExitCode::FAILURE,
        })
    }

    /// Returns a kubeconfig that contains only this cluster, with its context as the current one.
    /// Other users cannot read the file.
    ///
    /// # Errors
    /// kubectl has no configuration, or the file cannot be written.
    pub(super) fn kubeconfig(&self) -> Result<Kubeconfig> {
        let mut command = self.command();
        command.args(["config", "view", "--raw", "--minify", "--flatten", "--output", "json"]);
        let config = said(command.output().context(MISSING)?)?;
        let mut file = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
        file.write_all(&config).context("cannot write a temporary file")?;
        Ok(Kubeconfig(file))
    }

    /// Returns the command without further arguments.
    pub(super) fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.args(&self.first).stdin(Stdio::inherit());
        command
    }
}

/// The error for a kubectl that cannot be run.
pub(super) const MISSING: &str = "cannot run kubectl; is it on the path?";

fn said(output: Output) -> Result<Vec<u8>> {
    if output.status.success() {
        return Ok(output.stdout);
    }
    // The lines before the last one describe its attempts.
    let said = String::from_utf8_lossy(&output.stderr);
    bail!("kubectl: {}", said.trim().lines().last().unwrap_or("it failed and said nothing"))
}
