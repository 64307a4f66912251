//! promtool, Prometheus' own parser and evaluator of rules.

use std::path::{Path, PathBuf};
use std::process::Command;

use sluice_lab::programs::{Unit, find};

/// Runs promtool on a file and fails if promtool does. Without promtool, which
/// `make test` and `make alerts-test` build, reports that and passes.
pub(crate) fn promtool(command: &[&str], file: &Path) {
    let program = find(Unit::Prometheus, "promtool").unwrap_or_else(|_| PathBuf::from("promtool"));
    let output = match Command::new(program).args(command).arg(file).output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("promtool is missing (make alerts-test builds it): {} was NOT tested", file.display());
            return;
        }
        Err(error) => panic!("promtool: {error}"),
    };
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}
