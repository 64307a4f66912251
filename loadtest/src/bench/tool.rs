//! External programs that the benchmark runs.

use std::path::PathBuf;
use std::process::Command;

/// Returns the path of a program. Also searches folders for administrators.
///
/// # Errors
/// The program is missing; the message states how to install it.
pub fn find(program: &str, package: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin"), PathBuf::from("/sbin")]);
    let found = folders.map(|folder| folder.join(program)).find(|file| file.is_file());
    found.ok_or_else(|| anyhow::anyhow!("{program} is missing; install it with: apt-get install {package}"))
}

/// Returns the output of a program without the final line break. `None` if it cannot be run or
/// fails.
pub fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    if !output.status.success() {
        return None;
    }
    let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    Some(String::from_utf8_lossy(&text).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_messages_of_a_failed_program_are_not_output() {
        assert_eq!(output("sh", &["-c", "echo good"]).as_deref(), Some("good"));
        assert_eq!(output("sh", &["-c", "echo bad >&2; exit 1"]), None);
    }
}
