//! Which requests get a line in the access log, and what it says.

use sluice_config::AccessLog;

use super::blocks::Values;
use crate::telemetry::LogFormat;

/// What is written down about requests, compiled.
#[derive(Debug)]
pub(crate) struct LogRules {
    /// What a line says; `None` where nothing is logged.
    pub(crate) format: Option<LogFormat>,
    /// `enable-access-log-for-default-backend`.
    pub(crate) default_backend: bool,
    /// `skip-access-log-urls`.
    skip: Option<Values>,
}

impl LogRules {
    /// Compiles the settings.
    pub(crate) fn compile(log: &AccessLog) -> Self {
        let skip = match Values::compile(&log.skip) {
            Ok(values) => Some(values).filter(|values| !values.is_empty()),
            Err(error) => {
                // Translation has compiled each of them before.
                tracing::error!(%error, "skip-access-log-urls cannot be used: all requests are logged");
                None
            }
        };
        let format = log.enabled.then(|| LogFormat::compile(&log.format));
        Self { format, default_backend: log.default_backend, skip }
    }

    /// Whether requests for this path and query are left out.
    pub(crate) fn skips(&self, target: &str) -> bool {
        self.skip.as_ref().is_some_and(|skip| skip.have(target.as_bytes()))
    }
}
