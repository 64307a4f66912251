//! The program log: `tracing` to standard error. Standard output belongs to the access log.

use std::fmt;
use std::io::IsTerminal;

use sluice_config::text::one_line;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{Writer, debug_fn};

/// Environment variable that replaces the level from `--v` by filters per module.
const FILTER: &str = "RUST_LOG";

/// Never logged, whatever is asked for: these print answers of the Kubernetes API that they cannot read, and
/// those may be Secrets. What goes wrong with the API is said by Sluice itself.
const SILENT: [&str; 2] = ["kube_client=off", "kube_runtime=off"];

/// Installs the log for the whole process.
///
/// # Errors
/// `RUST_LOG` cannot be read, or a log is installed already.
pub(crate) fn start(verbosity: i64) -> anyhow::Result<()> {
    let filter = match std::env::var(FILTER) {
        Ok(text) if !text.is_empty() => EnvFilter::try_new(&text).map_err(|error| {
            anyhow::anyhow!("{FILTER}={text:?}: {error}; write it like info,sluice=debug")
        })?,
        _ => EnvFilter::try_new(directives(verbosity))?,
    };
    tracing_subscriber::fmt()
        .with_env_filter(discreet(filter)?)
        .fmt_fields(fields())
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init()
        .map_err(|error| anyhow::anyhow!("cannot install the program log: {error}"))
}

/// The same filter without what must never be logged.
fn discreet(filter: EnvFilter) -> anyhow::Result<EnvFilter> {
    SILENT.iter().try_fold(filter, |filter, directive| Ok(filter.add_directive(directive.parse()?)))
}

/// Bytes of one field of a line. More is never worth reading, and would bury the lines around it.
const FIELD: usize = 4096;

/// Fields of a line, the message among them, as text that cannot end the line or steer a terminal, whatever others
/// have written into it.
fn fields() -> impl for<'writer> FormatFields<'writer> + 'static {
    debug_fn(|writer, field, value| match field.name() {
        "message" => shown(writer, format_args!("{value:?}")),
        // What the bridge from the crate `log` adds.
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

/// Levels for klog's verbosity; ingress-nginx's chart runs with 2.
///
/// Pingora logs an error for every client that goes away in the middle of something. Each request has its line
/// in the access log, and what Sluice thinks worth saying it says itself: below trace, Pingora is silent.
fn directives(verbosity: i64) -> &'static str {
    match verbosity {
        ..=2 => "info,pingora=off,h2=warn,rustls=warn,hyper=warn",
        3..=4 => "debug,pingora=off,h2=info,rustls=info,hyper=info,tower=info",
        5.. => "trace",
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

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
    fn what_may_print_a_secret_is_silent_always() {
        for verbosity in [0, 3, 5] {
            assert!(!logged(verbosity).contains("Secret"), "{verbosity}");
        }
    }

    #[test]
    fn nobody_forges_a_line_or_fills_the_log() {
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
    fn debug_begins_at_three() {
        assert!(!logged(2).contains("details"));
        assert!(logged(3).contains("details"));
    }
}
