//! Access log and error log: contents and outputs.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::access::Blocked;
use crate::health_check::StatusRange;
use crate::log_format::LogFormat;
use crate::trace::SampledShare;

/// Settings of the access log. [`AccessLog::default`] has the defaults of ingress-nginx.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AccessLog {
    /// Logs requests (`disable-access-log` and `disable-http-access-log`, negated).
    pub enabled: bool,
    /// Logs requests for unknown hosts too (`enable-access-log-for-default-backend`).
    pub default_backend: bool,
    /// Logs requests to authorisation services on lines of their own (`enable-auth-access-log`).
    pub authorisation: bool,
    /// Skips requests whose path and query match one of these patterns (`skip-access-log-urls`).
    pub skip: Arc<[Blocked]>,
    /// Selects the requests that are logged; `None` logs all.
    pub filter: Option<LogFilter>,
    /// Format of a line (`log-format-upstream`, `log-format-preset`, `log-format-escape-json`,
    /// `log-format-escape-none`).
    pub format: LogFormat,
    /// Also sends lines to the collector of traces (`otlp-access-log`).
    pub to_collector: bool,
    /// Output of the log (`access-log-path`, `http-access-log-path`, `enable-syslog`).
    pub output: LogOutput,
}

/// The requests that the access log has: those that one of the filters selects, and a sample of the
/// others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LogFilter {
    /// Selects requests with these statuses (`access-log-filter-status`).
    pub statuses: Arc<[StatusRange]>,
    /// Selects requests that take this long or longer (`access-log-filter-min-duration`).
    pub min_duration: Option<Duration>,
    /// The logged share of the other requests (`access-log-sample`).
    pub sample: SampledShare,
}

/// The output of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LogOutput {
    /// The default: standard output for the access log, standard error for the error log.
    #[default]
    Standard,
    /// Standard error, for the access log.
    StandardError,
    /// The file with this path. It is created if absent, and reopened on SIGUSR1.
    File(Arc<str>),
    /// A syslog server (RFC 3164 over UDP).
    Syslog {
        /// Host name or address.
        host: Arc<str>,
        /// UDP port.
        port: u16,
    },
}

/// Settings of the error log (the program's own log).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ErrorLog {
    /// Minimum level (`error-log-level`); `None` is the level of `--v`.
    pub level: Option<LogLevel>,
    /// Output of the log (`error-log-path`).
    pub output: LogOutput,
}

/// The minimum level of the error log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum LogLevel {
    /// Details for debugging.
    Debug,
    /// Normal events.
    Info,
    /// Conditions that need attention.
    Warn,
    /// Failures.
    Error,
}

impl Default for AccessLog {
    fn default() -> Self {
        Self {
            enabled: true,
            default_backend: false,
            authorisation: false,
            skip: Arc::default(),
            filter: None,
            format: LogFormat::default(),
            to_collector: false,
            output: LogOutput::Standard,
        }
    }
}
