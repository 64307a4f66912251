//! `sluice bundle`: one archive for a bug report.
//!
//! It holds the documents of the admin listeners, which contain no secret, and the end of the log
//! with the values of secret parameters hidden.

mod log;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use tar::{Builder, Header};

use super::Replica;
use crate::admin_client::QueryError;
use crate::flags::Bundle;
use crate::output::{note, print};
pub(super) use log::LogFile;
pub(crate) use log::LogSource;

/// The documents of a replica: path on the admin listener, and name in the archive.
const DOCUMENTS: [(&str, &str); 9] = [
    ("generation", "generation.json"),
    ("settings", "settings.json"),
    ("problems", "problems.json"),
    ("routes", "routes.json"),
    ("backends", "backends.json"),
    ("certs", "certificates.json"),
    ("changes", "changes.json"),
    ("traffic?rules", "traffic.json"),
    ("metrics", "metrics.txt"),
];

/// An archive that is written.
struct Archive {
    tar: Builder<GzEncoder<File>>,
    /// The folder of all files.
    root: String,
    /// When it was begun, in Unix seconds.
    time: u64,
}

impl Archive {
    fn add(&mut self, path: &str, content: &[u8]) -> std::io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(self.time);
        self.tar.append_data(&mut header, format!("{}/{path}", self.root), content)
    }
}

/// Writes the archive and prints its name.
///
/// # Errors
/// The file cannot be written, or no replica is reachable.
pub(super) fn run(arguments: &Bundle, replicas: &[Replica], log: &dyn LogSource) -> Result<ExitCode> {
    let now = Timestamp::now();
    let root = format!("sluice-bundle-{}", now.strftime("%Y%m%dT%H%M%SZ"));
    let path = arguments.file.clone().unwrap_or_else(|| PathBuf::from(format!("{root}.tar.gz")));
    let mut options = OpenOptions::new();
    // It names hosts and clients, which are not for other users of the machine.
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(&path);
    let file = file.with_context(|| format!("cannot write {}; name another file with -o", path.display()))?;
    let tar = Builder::new(GzEncoder::new(file, Compression::default()));
    let time = u64::try_from(now.as_second()).unwrap_or(0);
    let mut archive = Archive { tar, root, time };
    let mut errors = Vec::new();
    let read = replicas.iter().map(|replica| add_replica(&mut archive, replica, log, &mut errors));
    let documents: usize = read.sum::<Result<usize>>()?;
    if documents == 0 {
        // An archive without content would be mistaken for a good one.
        let _ = std::fs::remove_file(&path);
        bail!("{}", errors.first().map_or("there is no replica", String::as_str));
    }
    archive.add("versions.txt", versions(now).as_bytes())?;
    if !errors.is_empty() {
        archive.add("errors.txt", (errors.join("\n") + "\n").as_bytes())?;
    }
    archive.tar.into_inner()?.finish()?.sync_all()?;
    for error in &errors {
        note(format_args!("sluice: {error}"));
    }
    let note = "it names hosts, Services and client addresses; read it before you pass it on";
    Ok(print(&format!("{}: {documents} documents; {note}\n", path.display())))
}

fn versions(now: Timestamp) -> String {
    format!("written {now}\nby sluice {} on {}\n", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH)
}

/// Adds what can be read of a replica, and returns the number of its documents.
fn add_replica(
    archive: &mut Archive,
    replica: &Replica,
    log: &dyn LogSource,
    errors: &mut Vec<String>,
) -> Result<usize> {
    let folder = match &*replica.name {
        "" => "gateway".to_owned(),
        name => name.replace('/', "_"),
    };
    let mut documents = 0;
    for (page, name) in DOCUMENTS {
        match replica.text(page) {
            Ok(text) => {
                documents += 1;
                archive.add(&format!("{folder}/{name}"), text.as_bytes())?;
            }
            Err(error) => {
                errors.push(format!("{folder}/{name}: {error}"));
                // Each other document would take as long to fail.
                if matches!(error, QueryError::Unreachable { .. } | QueryError::NotForwarded { .. }) {
                    break;
                }
            }
        }
    }
    match log.tail(replica) {
        Ok(Some(text)) => archive.add(&format!("{folder}/log.txt"), log::redacted(&text).as_bytes())?,
        Ok(None) => {}
        Err(error) => errors.push(format!("{folder}/log.txt: {error:#}")),
    }
    Ok(documents)
}
