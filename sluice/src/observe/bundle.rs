//! `sluice bundle`: one archive for a bug report.
//!
//! It holds the documents of the admin listeners, which contain no secret, and the end of the log
//! with the values of secret parameters hidden.

mod log;

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal, Write};
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
use crate::flags::{ArchiveDestination, Bundle};
use crate::output::{note, print, print_bytes};
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
struct Archive<W: Write> {
    tar: Builder<GzEncoder<W>>,
    /// The folder of all files.
    root: String,
    /// When it was begun.
    began: Timestamp,
}

/// What an archive holds.
struct Content {
    documents: usize,
    /// What could not be read.
    errors: Vec<String>,
}

impl<W: Write> Archive<W> {
    fn new(output: W, root: &str, began: Timestamp) -> Self {
        let tar = Builder::new(GzEncoder::new(output, Compression::default()));
        Self { tar, root: root.to_owned(), began }
    }

    fn add(&mut self, path: &str, content: &[u8]) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(u64::try_from(self.began.as_second()).unwrap_or(0));
        self.tar.append_data(&mut header, format!("{}/{path}", self.root), content)
    }

    /// Adds what can be read of all replicas, and completes the archive.
    ///
    /// # Errors
    /// The output cannot be written, or no replica is reachable: an archive without content would
    /// be mistaken for a good one.
    fn fill(mut self, replicas: &[Replica], log: &dyn LogSource) -> Result<(W, Content)> {
        let mut errors = Vec::new();
        let read = replicas.iter().map(|replica| add_replica(&mut self, replica, log, &mut errors));
        let documents = read.sum::<Result<usize>>()?;
        if documents == 0 {
            bail!("{}", errors.first().map_or("there is no replica", String::as_str));
        }
        self.add("versions.txt", versions(self.began).as_bytes())?;
        if !errors.is_empty() {
            self.add("errors.txt", (errors.join("\n") + "\n").as_bytes())?;
        }
        Ok((self.tar.into_inner()?.finish()?, Content { documents, errors }))
    }
}

/// Writes the archive and prints its name, on standard error if the archive is on standard output.
///
/// # Errors
/// The archive cannot be written, or no replica is reachable.
pub(super) fn run(arguments: &Bundle, replicas: &[Replica], log: &dyn LogSource) -> Result<ExitCode> {
    let began = Timestamp::now();
    let root = format!("sluice-bundle-{}", began.strftime("%Y%m%dT%H%M%SZ"));
    let path = match &arguments.to {
        ArchiveDestination::StandardOutput => {
            if io::stdout().is_terminal() {
                bail!("standard output is a terminal; redirect it, or name a file with -o");
            }
            // In memory first: nothing is written unless it is complete.
            let (archive, content) = Archive::new(Vec::new(), &root, began).fill(replicas, log)?;
            let status = print_bytes(&archive);
            note(format_args!("sluice: {}", content.report()));
            return Ok(status);
        }
        ArchiveDestination::File(path) => path.clone(),
        ArchiveDestination::Named => PathBuf::from(format!("{root}.tar.gz")),
    };
    let mut options = OpenOptions::new();
    // It names hosts and clients, which are not for other users of the machine.
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(&path);
    let file = file.with_context(|| format!("cannot write {}; name another file with -o", path.display()))?;
    let content = match Archive::new(&file, &root, began).fill(replicas, log) {
        Ok((_, content)) => content,
        Err(error) => {
            // Not a device, such as /dev/null.
            if file.metadata().is_ok_and(|metadata| metadata.is_file()) {
                let _ = fs::remove_file(&path);
            }
            return Err(error);
        }
    };
    file.sync_all()?;
    Ok(print(&format!("{}: {}\n", path.display(), content.report())))
}

impl Content {
    /// Prints what could not be read, and returns a line about the archive.
    fn report(&self) -> String {
        for error in &self.errors {
            note(format_args!("sluice: {error}"));
        }
        let Self { documents, .. } = self;
        format!(
            "{documents} documents; it names hosts, Services and client addresses; read it before you pass it on"
        )
    }
}

fn versions(now: Timestamp) -> String {
    format!("written {now}\nby sluice {} on {}\n", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH)
}

/// Adds what can be read of a replica, and returns the number of its documents.
fn add_replica<W: Write>(
    archive: &mut Archive<W>,
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
