//! The program log: `tracing` to standard error. Standard output belongs to the access log.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

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
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .try_init()
        .map_err(|error| anyhow::anyhow!("cannot install the program log: {error}"))
}

/// The same filter without what must never be logged.
fn discreet(filter: EnvFilter) -> anyhow::Result<EnvFilter> {
    SILENT.iter().try_fold(filter, |filter, directive| Ok(filter.add_directive(directive.parse()?)))
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
        let lines = Lines::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt()
            .with_env_filter(discreet(EnvFilter::new(directives(verbosity))).unwrap())
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(log, || {
            tracing::error!(target: "pingora_proxy::proxy_h1", "of pingora");
            tracing::error!(target: "kube_client::client", "a Secret that could not be read");
            tracing::info!(target: "sluice_gateway::connection", "of sluice");
            tracing::debug!(target: "sluice_gateway::connection", "details");
        });
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
    fn debug_begins_at_three() {
        assert!(!logged(2).contains("details"));
        assert!(logged(3).contains("details"));
    }
}
