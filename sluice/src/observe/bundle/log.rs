//! The end of the log.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;
use sluice_config::redaction;

use crate::observe::Replica;

/// Maximum number of bytes of a log file.
const MOST: u64 = 1024 * 1024;

/// The keys that set the path of the access log.
const LOG_KEYS: [&str; 2] = ["http-access-log-path", "access-log-path"];
/// The path that stands for standard output, as in the image of ingress-nginx.
const STANDARD_OUTPUT: &str = "/var/log/nginx/access.log";

/// Where the log of a replica is read.
pub(crate) trait LogSource {
    /// Returns the end of the log; `None` if it is not kept.
    ///
    /// # Errors
    /// It is kept, but cannot be read.
    fn tail(&self, replica: &Replica) -> Result<Option<String>>;
}

/// The file of the access log of the gateway on this machine (`access-log-path`).
#[derive(Debug)]
pub(in crate::observe) struct LogFile;

impl LogSource for LogFile {
    fn tail(&self, replica: &Replica) -> Result<Option<String>> {
        let settings: Value = replica.document("settings")?;
        let path = log_path(&settings);
        match path.is_file() {
            true => end_of(&path).map(Some),
            false => Ok(None),
        }
    }
}

/// Returns the path of the access log; empty if it is a standard stream.
fn log_path(settings: &Value) -> PathBuf {
    let given = |name: &str| {
        let mut settings = settings.as_array().into_iter().flatten();
        let setting = settings.find(|setting| setting["name"] == name && setting["origin"] != "default")?;
        setting["value"].as_str().filter(|path| !path.is_empty())
    };
    // The second key applies without the first.
    let path = LOG_KEYS.iter().find_map(|key| given(key)).filter(|path| *path != STANDARD_OUTPUT);
    path.map(PathBuf::from).unwrap_or_default()
}

/// Returns the last lines of a file.
fn end_of(path: &Path) -> Result<String> {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MOST)))?;
        let mut bytes = Vec::new();
        file.take(MOST).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>((bytes, length > MOST))
    };
    let (bytes, is_cut) = read().with_context(|| format!("cannot read {}", path.display()))?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(match text.split_once('\n') {
        Some((_, lines)) if is_cut => lines.to_owned(),
        _ => text,
    })
}

/// Returns a log without the values of secret parameters and the users of URLs.
pub(super) fn redacted(log: &str) -> String {
    let is_end = |letter: char| letter.is_whitespace() || matches!(letter, '"' | '\'' | '<' | '>');
    let word = |word: &str| redaction::target(&redaction::without_user(word)).into_owned();
    let mut text = String::with_capacity(log.len());
    for part in log.split_inclusive(is_end) {
        // The last character of a part is its separator, except in the last part.
        let at = part
            .char_indices()
            .next_back()
            .filter(|(_, last)| is_end(*last))
            .map_or(part.len(), |(at, _)| at);
        let (target, separator) = part.split_at(at);
        text += &word(target);
        text += separator;
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn secrets_in_targets_are_hidden() {
        let log =
            "192.0.2.7 - ann \"GET /cb?code=x&page=1 HTTP/1.1\" 200 \"https://u:p@a/b?token=x\"\nnext\n";
        let expected = "192.0.2.7 - ann \"GET /cb?code=(hidden)&page=1 HTTP/1.1\" 200 \
                        \"https://(hidden)@a/b?token=(hidden)\"\nnext\n";
        assert_eq!(redacted(log), expected);
        assert_eq!(redacted("/?token=x"), "/?token=(hidden)");
    }

    #[test]
    fn the_path_of_the_log_is_the_one_that_is_in_force() {
        let setting = |name: &str, value: &str, origin: &str| serde_json::json!({"name": name, "value": value, "origin": origin});
        let path = |settings: &[Value]| log_path(&Value::from(settings.to_vec())).display().to_string();
        let [usual, own] = ["default", "ConfigMap"];
        assert_eq!(path(&[setting("access-log-path", STANDARD_OUTPUT, usual)]), "");
        assert_eq!(path(&[setting("access-log-path", STANDARD_OUTPUT, own)]), "");
        assert_eq!(path(&[setting("access-log-path", "/a", own)]), "/a");
        let both = [setting("access-log-path", "/a", own), setting("http-access-log-path", "/b", own)];
        assert_eq!(path(&both), "/b");
    }

    #[test]
    fn a_long_file_begins_with_a_whole_line() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let line = "x".repeat(99) + "\n";
        for _ in 0..=MOST / 100 {
            file.write_all(line.as_bytes()).unwrap();
        }
        let text = end_of(file.path()).unwrap();
        assert!(text.starts_with(&line) && text.ends_with(&line) && text.len() as u64 <= MOST);
    }
}
