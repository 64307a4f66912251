//! What is written down about requests, and where.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::access::Blocked;
use crate::log_format::LogFormat;

/// The access log. [`AccessLog::default`] is ingress-nginx's default of each key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessLog {
    /// Requests are logged at all (`disable-access-log` and `disable-http-access-log` negated).
    pub enabled: bool,
    /// Those for hosts that nobody names too (`enable-access-log-for-default-backend`).
    pub default_backend: bool,
    /// Questions to authorisation services have lines of their own (`enable-auth-access-log`).
    pub authorisation: bool,
    /// Requests whose path and query are one of these are not (`skip-access-log-urls`).
    pub skip: Arc<[Blocked]>,
    /// What a line says (`log-format-upstream`, `log-format-escape-json`, `log-format-escape-none`).
    pub format: LogFormat,
    /// Where lines go (`access-log-path`, `http-access-log-path`, `enable-syslog`).
    pub output: LogOutput,
}

/// Where lines of a log go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogOutput {
    /// Where the program puts them by itself: standard output for the access log, standard error for its own.
    #[default]
    Standard,
    /// Standard error, for the access log.
    StandardError,
    /// A file of this path, made where there is none, and opened again on SIGUSR1.
    File(Arc<str>),
    /// A syslog server (RFC 3164 over UDP).
    Syslog {
        /// Its name or address.
        host: Arc<str>,
        /// Its port.
        port: u16,
    },
}

/// The program's own log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorLog {
    /// What is logged (`error-log-level`); `None` is what `--v` says.
    pub level: Option<LogLevel>,
    /// Where lines go (`error-log-path`).
    pub output: LogOutput,
}

/// How grave a line of the program's own log is, at least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogLevel {
    /// Everything that helps to find out what happens.
    Debug,
    /// What happens.
    Info,
    /// What somebody should look at.
    Warn,
    /// What fails.
    Error,
}

impl Default for AccessLog {
    fn default() -> Self {
        Self {
            enabled: true,
            default_backend: false,
            authorisation: false,
            skip: Arc::default(),
            format: LogFormat::default(),
            output: LogOutput::Standard,
        }
    }
}
