//! k6 as a child process, and its results.

use std::fs::{self, File};
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context;
use clap::ValueEnum;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::report::{Bound, Report};

/// Exit status of k6 when a threshold was crossed.
const CROSSED: i32 = 99;

/// A script of `loadtest/k6/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Script {
    /// Checks that the target responds at all.
    Smoke,
    /// A constant rate of requests.
    Steady,
    /// An increasing rate of requests.
    Ramp,
    /// A sudden tenfold load.
    Spike,
    /// A long run.
    Soak,
    /// Sessions that must stay on their Pod.
    Sticky,
    /// WebSockets that stay open.
    Websocket,
    /// A TLS handshake per request.
    Tls,
    /// A mix as in production.
    Mixed,
}

/// The program, and the folder of the scripts.
#[derive(Clone, Debug)]
pub struct K6 {
    program: PathBuf,
    scripts: PathBuf,
}

/// The result of one script.
#[derive(Debug)]
pub struct K6Run {
    script: Script,
    code: Option<i32>,
    summary: Value,
    /// The output of k6, if it was captured.
    output: String,
}

impl Script {
    /// Returns its name, which is also that of its file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Steady => "steady",
            Self::Ramp => "ramp",
            Self::Spike => "spike",
            Self::Soak => "soak",
            Self::Sticky => "sticky",
            Self::Websocket => "websocket",
            Self::Tls => "tls",
            Self::Mixed => "mixed",
        }
    }
}

impl K6 {
    /// Uses the scripts in the source tree from which this program was built.
    pub fn new(program: PathBuf) -> Self {
        Self { program, scripts: Path::new(env!("CARGO_MANIFEST_DIR")).join("k6") }
    }

    /// Runs a script to its end. Settings are environment variables of the script or of k6 itself.
    ///
    /// # Errors
    /// k6 cannot be started.
    pub async fn run(
        &self,
        script: Script,
        settings: &[(String, String)],
        quiet: bool,
    ) -> anyhow::Result<K6Run> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let (summary, log) = (folder.path().join("summary.json"), folder.path().join("log"));
        let mut command = Command::new(&self.program);
        // No usage report, and no control port, so that several runs are possible at once.
        command.args(["run", "--no-usage-report", "--address", "", "--summary-export"]).arg(&summary);
        for (name, value) in settings {
            // Scripts can read k6's environment, and k6 reads settings such as SSL_CERT_FILE from
            // it.
            command.env(name, value);
        }
        if quiet {
            let output = File::create(&log).context("cannot make a log file")?;
            command.stdout(output.try_clone()?).stderr(output);
        }
        if quiet || !std::io::stdout().is_terminal() {
            // No progress bars without a terminal.
            command.arg("--quiet");
        }
        let status = command
            .arg(self.scripts.join(script.name()).with_extension("js"))
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .status()
            .await
            .with_context(|| self.missing())?;
        // A script that k6 cannot run leaves no summary. The exit status shows it.
        let summary = fs::read(&summary).ok().and_then(|text| serde_json::from_slice(&text).ok());
        Ok(K6Run {
            script,
            code: status.code(),
            summary: summary.unwrap_or_default(),
            output: read_lossy(&log),
        })
    }

    fn missing(&self) -> String {
        format!(
            "cannot start {}: build k6 with `cargo run -p sluice-lab -- build k6`, which prints its folder, and name \
             the program with --k6",
            self.program.display()
        )
    }
}

fn read_lossy(path: &Path) -> String {
    let mut bytes = Vec::new();
    match File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)) {
        Ok(_) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    }
}

impl K6Run {
    /// Adds the figures to a report, with k6's output if the script failed.
    pub fn report(&self, report: &mut Report) {
        let name = self.script.name();
        let mut figure = |metric: &str, field: &str, label: &str, unit, bound: Bound| {
            let value = self.summary["metrics"][metric][field].as_f64();
            // k6 lists metrics that a script does not use with the value 0.
            if let Some(value) = value.filter(|value| *value != 0.0 || !matches!(bound, Bound::None)) {
                report.add(name, label, value, unit, bound);
            }
        };
        figure("http_reqs", "count", "requests", "", Bound::None);
        figure("http_req_failed", "passes", "requests failed", "", Bound::Exactly(0.0));
        figure("checks", "fails", "checks failed", "", Bound::Exactly(0.0));
        figure("dropped_iterations", "count", "requests that k6 could not start in time", "", Bound::None);
        figure("http_req_duration", "p(99)", "p99", "ms", Bound::None);
        figure("http_req_tls_handshaking", "p(99)", "p99 of TLS handshakes", "ms", Bound::None);
        figure("messages_returned", "count", "WebSocket messages returned", "", Bound::None);
        figure("message_round_trip", "p(99)", "p99 of WebSocket messages", "ms", Bound::None);
        figure("sessions_kept", "count", "requests that found their session's Pod", "", Bound::None);
        figure("sessions_moved", "count", "sessions whose Pod went away", "", Bound::None);
        let code = f64::from(self.code.unwrap_or(-1));
        report.add(name, "exit status of k6", code, "", Bound::Exactly(0.0));
        match self.code {
            Some(0) => return,
            Some(CROSSED) => report.remark(format!("{name}: thresholds were crossed: {}", self.crossed())),
            Some(_) | None => report.remark(format!("{name}: k6 could not run it to its end")),
        }
        if !self.output.is_empty() {
            report.remark(format!("{name}: k6 said:\n{}", self.output.trim_end()));
        }
    }

    /// Returns the thresholds that were crossed.
    fn crossed(&self) -> String {
        let metrics = self.summary["metrics"].as_object();
        let thresholds = metrics.into_iter().flatten().filter_map(|(metric, values)| {
            let broken = values["thresholds"].as_object()?.iter().filter(|(_, crossed)| **crossed == true);
            Some(broken.map(move |(threshold, _)| format!("{metric} {threshold}")))
        });
        thresholds.flatten().collect::<Vec<_>>().join(", ")
    }
}

/// Parses a setting from the command line, `NAME=VALUE`.
///
/// # Errors
/// There is no `=`.
pub fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE, such as RATE=500".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_crossed_threshold_fails_and_is_named() {
        let summary = json!({"metrics": {
            "http_reqs": {"count": 10},
            "http_req_failed": {"passes": 0, "fails": 10, "value": 0},
            "http_req_duration": {"p(99)": 70.5, "thresholds": {"p(99)<50": true, "p(99)>=0": false}},
        }});
        let mut report = Report::default();
        let run = K6Run { script: Script::Steady, code: Some(CROSSED), summary, output: String::new() };
        run.report(&mut report);
        assert!(!report.passed());
        let table = report.to_table();
        assert!(table.contains("crossed: http_req_duration p(99)<50\n"), "{table}");
    }

    #[test]
    fn every_script_exists_and_documents_its_assertions() {
        for script in Script::value_variants() {
            let path = K6::new("k6".into()).scripts.join(script.name()).with_extension("js");
            let text =
                fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(text.contains("Asserts: "), "{}", path.display());
        }
    }
}
