//! Arguments common to all load programs, and their start and end.

use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::report::Report;

/// Arguments of every load program.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// The gateway to start; by default the `sluice` next to this program.
    #[arg(long, value_name = "PATH")]
    sluice: Option<PathBuf>,
    /// Print JSON in place of a table.
    #[arg(long)]
    json: bool,
}

impl Common {
    /// Returns the path of the gateway's program.
    ///
    /// # Errors
    /// The file does not exist.
    pub fn gateway(&self) -> anyhow::Result<PathBuf> {
        let path = match &self.sluice {
            Some(path) => path.clone(),
            None => std::env::current_exe()?.with_file_name("sluice"),
        };
        anyhow::ensure!(path.is_file(), "{} is not there; build it or name it with --sluice", path.display());
        Ok(path)
    }

    /// Returns whether standard output is reserved for the JSON report.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Runs a program, prints its report, and converts it into an exit status.
    pub fn run(&self, program: impl Future<Output = anyhow::Result<Report>>) -> ExitCode {
        let report = prepare().and_then(|runtime| runtime.block_on(program));
        match report {
            Ok(report) => {
                if self.json {
                    println!("{}", report.to_json());
                } else {
                    print!("{}", report.to_table());
                }
                if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
            }
            Err(error) => {
                eprintln!("{error:#}");
                ExitCode::FAILURE
            }
        }
    }
}

fn prepare() -> anyhow::Result<tokio::runtime::Runtime> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .context("cannot raise the limit of open files")?;
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start a runtime")
}
