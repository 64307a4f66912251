//! The program log: `tracing` to standard error, or to the file that the ConfigMap configures.
//! Standard output is reserved for the access log.
//!
//! A thread writes the lines from a bounded queue, like those of the access log. A standard error
//! that is full, closed or not read therefore delays nothing and ends nothing: lines that cannot be
//! written in time are dropped and counted.
//!
//! The level and the file can change at run time. The file is reopened on SIGUSR1, as in nginx.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sluice_config::text::one_line;
use sluice_config::{ErrorLog, LogLevel, LogOutput};
use sluice_gateway::telemetry::{AccessLog, LogFault};
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::{FormatFields, MakeWriter};
use tracing_subscriber::reload;

/// Environment variable with filters per module, which overrides the level of `--v`.
const FILTER: &str = "RUST_LOG";

/// Modules that are never logged: they log API responses that they cannot parse, which may contain
/// Secrets. Sluice itself logs errors of the API.
const SILENT: [&str; 2] = ["kube_client=off", "kube_runtime=off"];

/// Handle to change the log of the process.
#[derive(Clone)]
pub(crate) struct ProgramLog {
    filter: Arc<dyn Fn(EnvFilter) + Send + Sync>,
    verbosity: i64,
    /// Whether the level comes from the environment and cannot change.
    is_fixed: bool,
    output: LogFile,
    lines: AccessLog,
}

/// Sends each line to the queue of the log.
struct LineSender(AccessLog);

/// The output of the log.
#[derive(Clone, Default)]
struct LogFile(Arc<Mutex<Opened>>);

#[derive(Default)]
struct Opened {
    /// The configured file.
    path: Option<Arc<str>>,
    /// `None` is standard error, which is also used while the file cannot be opened.
    file: Option<Arc<File>>,
}

/// Installs the log of the process.
///
/// # Errors
/// `RUST_LOG` is invalid, a log is already installed, or its thread cannot be started.
pub(crate) fn start(verbosity: i64) -> anyhow::Result<ProgramLog> {
    let own = std::env::var(FILTER).ok().filter(|text| !text.is_empty());
    let filter = match &own {
        Some(text) => EnvFilter::try_new(text).map_err(|error| {
            anyhow::anyhow!("{FILTER}={text:?}: {error}; write it like info,sluice=debug")
        })?,
        None => EnvFilter::try_new(directives(verbosity))?,
    };
    let output = LogFile::default();
    let lines =
        AccessLog::to(output.clone()).map_err(|error| anyhow::anyhow!("cannot start its thread: {error}"))?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(discreet(filter)?)
        .fmt_fields(fields())
        .with_writer(LineSender(lines.clone()))
        // Such an error would be printed to the output that has failed, which panics.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal())
        .with_filter_reloading();
    let filter = reloads(builder.reload_handle());
    builder.try_init().map_err(|error| anyhow::anyhow!("cannot install the program log: {error}"))?;
    Ok(ProgramLog { filter, verbosity, is_fixed: own.is_some(), output, lines })
}

/// Returns a function that replaces the current filter.
fn reloads<S: Subscriber + 'static>(
    handle: reload::Handle<EnvFilter, S>,
) -> Arc<dyn Fn(EnvFilter) + Send + Sync> {
    Arc::new(move |filter| {
        // Only fails if the log no longer exists.
        let _ = handle.reload(filter);
    })
}

impl ProgramLog {
    /// Applies the settings of the ConfigMap.
    ///
    /// # Errors
    /// The file cannot be opened; lines go to standard error.
    pub(crate) fn change(&self, log: &ErrorLog) -> Result<(), LogFault> {
        if !self.is_fixed {
            let directives = log.level.map_or(directives(self.verbosity), directives_of);
            // Cannot fail: a test parses all of these directives.
            if let Ok(filter) = EnvFilter::try_new(directives).map_err(Into::into).and_then(discreet) {
                (self.filter)(filter);
            }
        }
        let path = match &log.output {
            LogOutput::File(path) => Some(path.clone()),
            LogOutput::Standard | LogOutput::StandardError | LogOutput::Syslog { .. } => None,
        };
        self.output.turn_to(path)
    }

    /// Reopens the file after log rotation.
    ///
    /// # Errors
    /// The file cannot be opened; lines go to standard error.
    pub(crate) fn open_again(&self) -> Result<(), LogFault> {
        let path = self.output.lock().path.clone();
        self.output.turn_to(path)
    }

    /// Returns whether lines go to standard error because the file could not be opened.
    pub(crate) fn writes_to_stderr(&self) -> bool {
        let opened = self.output.lock();
        opened.path.is_some() && opened.file.is_none()
    }

    /// Blocks until all lines so far are written, for at most `limit`. Returns whether they are
    /// written.
    pub(crate) fn flush(&self, limit: Duration) -> bool {
        self.lines.flush(limit)
    }

    /// Returns the queue, for the number of dropped lines.
    pub(crate) fn lines(&self) -> AccessLog {
        self.lines.clone()
    }
}

impl LogFile {
    fn turn_to(&self, path: Option<Arc<str>>) -> Result<(), LogFault> {
        let opened = path.as_ref().map(|path| OpenOptions::new().append(true).create(true).open(&**path));
        let (file, result) = match (opened, &path) {
            (Some(Err(error)), Some(path)) => {
                (None, Err(LogFault { place: path.to_string(), reason: error.to_string() }))
            }
            (Some(Ok(file)), _) => (Some(Arc::new(file)), Ok(())),
            _ => (None, Ok(())),
        };
        *self.lock() = Opened { path, file };
        result
    }

    /// Poisoning can be ignored: the state is always consistent.
    fn lock(&self) -> MutexGuard<'_, Opened> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Used by the thread of the log alone. The lock is not held while it writes: the control plane,
/// which changes the file, never waits for the output.
impl Write for LogFile {
    /// Writes the first of the lines.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        let end = lines.iter().position(|byte| *byte == b'\n').map_or(lines.len(), |newline| newline + 1);
        let line = &lines[..end];
        let file = self.lock().file.clone();
        // The disk may be full.
        if file.is_none_or(|file| (&*file).write_all(line).is_err()) {
            io::stderr().write_all(line)?;
        }
        Ok(end)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Each call of `write` receives one line.
impl Write for LineSender {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.send_apart(|queued| queued.extend_from_slice(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LineSender {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self(self.0.clone())
    }
}

/// Adds the directives for modules that must never be logged.
fn discreet(filter: EnvFilter) -> anyhow::Result<EnvFilter> {
    SILENT.iter().try_fold(filter, |filter, directive| Ok(filter.add_directive(directive.parse()?)))
}

/// Maximum length of a field in bytes. Longer fields are of no use and make the surrounding lines
/// unreadable.
const FIELD: usize = 4096;

/// Formats the fields of a line, including the message, such that text from other sources cannot
/// end the line or control a terminal.
fn fields() -> impl for<'writer> FormatFields<'writer> + 'static {
    debug_fn(|writer, field, value| match field.name() {
        "message" => shown(writer, format_args!("{value:?}")),
        // Added by the bridge from the `log` crate.
        name if name.starts_with("log.") => Ok(()),
        name => {
            write!(writer, "{}=", name.trim_start_matches("r#"))?;
            shown(writer, format_args!("{value:?}"))
        }
    })
    .delimited(" ")
}

fn shown(writer: &mut Writer<'_>, value: fmt::Arguments<'_>) -> fmt::Result {
    match value.as_str() {
        Some(text) => writer.write_str(&one_line(text, FIELD)),
        None => writer.write_str(&one_line(&value.to_string(), FIELD)),
    }
}

/// Returns the directives for klog's verbosity; the chart of ingress-nginx uses 2.
///
/// Pingora logs an error for every aborted client connection. The access log has a line for each
/// request, and Sluice logs relevant errors itself, so Pingora is silent below trace.
fn directives(verbosity: i64) -> &'static str {
    match verbosity {
        ..=2 => "info,pingora=off,h2=warn,rustls=warn,hyper=warn",
        3..=4 => "debug,pingora=off,h2=info,rustls=info,hyper=info,tower=info",
        5.. => "trace",
    }
}

/// Returns the directives for the levels of `error-log-level`.
fn directives_of(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Debug => directives(3),
        LogLevel::Info => directives(0),
        LogLevel::Warn => "warn,pingora=off,h2=warn,rustls=warn,hyper=warn",
        LogLevel::Error => "error,pingora=off,h2=error,rustls=error,hyper=error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(verbosity: i64) -> String {
        written(verbosity, || {
            tracing::error!(target: "pingora_proxy::proxy_h1", "of pingora");
            tracing::error!(target: "kube_client::client", "a Secret that could not be read");
            tracing::info!(target: "sluice_gateway::connection", "of sluice");
            tracing::debug!(target: "sluice_gateway::connection", "details");
        })
    }

    fn written(verbosity: i64, log: impl FnOnce()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_env_filter(discreet(EnvFilter::new(directives(verbosity))).unwrap())
            .fmt_fields(fields())
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn pingora_is_silent_below_trace() {
        for verbosity in [-1, 0, 2, 4] {
            let text = logged(verbosity);
            assert!(text.contains("of sluice") && !text.contains("of pingora"), "{verbosity}: {text}");
        }
        assert!(logged(5).contains("of pingora"));
    }

    #[test]
    fn modules_that_may_print_secrets_are_always_silent() {
        for verbosity in [0, 3, 5] {
            assert!(!logged(verbosity).contains("Secret"), "{verbosity}");
        }
    }

    #[test]
    fn no_text_forges_a_line_or_fills_the_log() {
        let odd = "x\n2026-01-01T00:00:00Z ERROR forged \u{1b}[2J";
        let long = "y".repeat(1 << 20);
        let text = written(0, || {
            tracing::info!(target: "sluice", name = odd, shown = %odd, debug = ?odd, "{odd}");
            tracing::info!(target: "sluice", %long, "{long}");
            tracing::info!(target: "sluice", number = 7, "plain");
        });
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.len() < 4 * FIELD && text.chars().all(|c| c == '\n' || !c.is_control()), "{text}");
        assert!(text.ends_with(" plain number=7\n"), "{text}");
    }

    #[test]
    fn every_level_can_be_read() {
        for level in [LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error] {
            EnvFilter::try_new(directives_of(level)).unwrap();
        }
    }

    #[test]
    fn a_file_that_is_renamed_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("error.log");
        let mut log = LogFile::default();
        log.turn_to(Some(path.to_str().unwrap().into())).unwrap();
        log.write_all(b"one\n").unwrap();
        std::fs::rename(&path, folder.path().join("old")).unwrap();
        log.write_all(b"two\n").unwrap();
        let again = log.lock().path.clone();
        log.turn_to(again).unwrap();
        log.write_all(b"three\n").unwrap();
        assert_eq!(std::fs::read(folder.path().join("old")).unwrap(), b"one\ntwo\n");
        assert_eq!(std::fs::read(&path).unwrap(), b"three\n");
        assert!(log.turn_to(Some("/proc/none/x".into())).is_err());
    }

    #[test]
    fn debug_begins_at_three() {
        assert!(!logged(2).contains("details"));
        assert!(logged(3).contains("details"));
    }
}
