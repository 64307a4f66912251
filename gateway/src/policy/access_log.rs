//! Selection of the requests that the access log records, and the format of their lines.

use sluice_config::AccessLog;

use super::blocks::Values;
use crate::telemetry::LogFormat;

/// Compiled settings of the access log.
#[derive(Debug)]
pub(crate) struct LogRules {
    /// Format of a line; `None` if the log is switched off.
    pub(crate) format: Option<LogFormat>,
    /// `enable-access-log-for-default-backend`.
    pub(crate) default_backend: bool,
    /// Whether a collector receives lines too (`otlp-access-log`).
    pub(crate) to_collector: bool,
    /// `skip-access-log-urls`.
    skip: Option<Values>,
}

impl LogRules {
    /// Compiles the settings.
    pub(crate) fn compile(log: &AccessLog, has_collector: bool) -> Self {
        let skip = match Values::compile(&log.skip) {
            Ok(values) => Some(values).filter(|values| !values.is_empty()),
            Err(error) => {
                // Cannot fail: translation has already compiled each expression.
                tracing::error!(%error, "skip-access-log-urls cannot be used: all requests are logged");
                None
            }
        };
        let format = log.enabled.then(|| LogFormat::compile(&log.format));
        let to_collector = log.to_collector && has_collector;
        Self { format, default_backend: log.default_backend, to_collector, skip }
    }

    /// Returns whether `skip-access-log-urls` excludes this path and query from the log.
    pub(crate) fn skips(&self, target: &str) -> bool {
        self.skip.as_ref().is_some_and(|skip| skip.have(target.as_bytes()))
    }
}
