//! kubectl, with the cluster that was named.

use std::io::Write;
use std::process::{Command, ExitCode, Output, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::arguments::Target;

/// How kubectl is called.
pub(super) struct Kubectl {
    program: &'static str,
    /// What every call begins with.
    first: Vec<String>,
}

/// A file that is gone when this is dropped.
pub(super) struct Kubeconfig(tempfile::NamedTempFile);

impl Kubeconfig {
    /// Where it is.
    pub(super) fn path(&self) -> &std::path::Path {
        self.0.path()
    }
}

impl Kubectl {
    /// The one on the path, with the flags that say which cluster.
    pub(super) fn new(target: &Target) -> Self {
        Self::by("kubectl", Vec::new(), target)
    }

    /// Another program in its place, with words that come first.
    pub(super) fn by(program: &'static str, mut first: Vec<String>, target: &Target) -> Self {
        for (flag, value) in [("--kubeconfig", &target.kubeconfig), ("--context", &target.context)] {
            first.extend(value.iter().flat_map(|value| [flag.to_owned(), value.clone()]));
        }
        Self { program, first }
    }

    /// Objects as JSON.
    ///
    /// # Errors
    /// What kubectl says when it fails.
    pub(super) fn json(&self, arguments: &[&str]) -> Result<Value> {
        let mut command = self.command();
        command.args(arguments).args(["--output", "json"]);
        Ok(serde_json::from_slice(&said(command.output().context(MISSING)?)?)?)
    }

    /// Has kubectl do something that the terminal sees, and gives its status.
    ///
    /// # Errors
    /// There is no kubectl.
    pub(super) fn run(&self, arguments: &[String]) -> Result<ExitCode> {
        let status = self.command().args(arguments).status().context(MISSING)?;
        Ok(match status.code() {
            Some(0) => ExitCode::SUCCESS,
            Some(code) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
            None => ExitCode::FAILURE,
        })
    }

    /// The kubeconfig of this cluster alone, with its context as the current one. Nobody else can read the file.
    ///
    /// # Errors
    /// kubectl has none, or the file cannot be written.
    pub(super) fn kubeconfig(&self) -> Result<Kubeconfig> {
        let mut command = self.command();
        command.args(["config", "view", "--raw", "--minify", "--flatten", "--output", "json"]);
        let config = said(command.output().context(MISSING)?)?;
        let mut file = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
        file.write_all(&config).context("cannot write a temporary file")?;
        Ok(Kubeconfig(file))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        command.args(&self.first).stdin(Stdio::inherit());
        command
    }
}

const MISSING: &str = "cannot run kubectl; is it on the path?";

fn said(output: Output) -> Result<Vec<u8>> {
    if output.status.success() {
        return Ok(output.stdout);
    }
    // What comes before the last line are its attempts.
    let said = String::from_utf8_lossy(&output.stderr);
    bail!("kubectl: {}", said.trim().lines().last().unwrap_or("it failed and said nothing"))
}
