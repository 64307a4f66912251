//! Keys about logs.

use std::sync::Arc;

use sluice_config::{AccessLog, Code, LogEscape, LogFormat, LogLevel, LogOutput, TemplatePiece};

use super::Key;
use super::blocking::blocked;
use super::log_filter::{self, LogFilterKeys};
use super::log_format;
use crate::translate::setting::MissingSetting;
use crate::translate::value;

/// Why the buffering keys have no effect.
const GATHERED: &str = "lines are always written in batches within a few milliseconds, and never compressed";

pub(super) fn settings() -> Vec<Key> {
    let mut all = vec![
        Key::served(
            "disable-access-log",
            value::bool(),
            "false",
            "Disable the access log and the log of streams.",
            |settings, value| settings.logs.all_disabled |= value,
        ),
        Key::served(
            "disable-http-access-log",
            value::bool(),
            "false",
            "Disable the access log of HTTP.",
            |settings, value| settings.logs.http_disabled |= value,
        ),
        Key::served(
            "access-log-path",
            log_format::path(["/var/log/nginx/access.log", "/dev/stdout"], "/dev/stderr"),
            "/var/log/nginx/access.log",
            "File of the access log; the default and /dev/stdout are standard output, as in ingress-nginx's image. \
             Reopened on SIGUSR1. While it cannot be opened, lines go to standard output.",
            |settings, value| settings.logs.path = Some(value),
        ).unchecked_by_reference(),
        Key::served(
            "http-access-log-path",
            log_format::path(["/var/log/nginx/access.log", "/dev/stdout"], "/dev/stderr"),
            "",
            "The same for HTTP only; takes precedence.",
            |settings, value| settings.logs.http_path = Some(value),
        ).unchecked_by_reference(),
        Key::no_effect("access-log-params", value::text(), "", GATHERED, "Buffering of the access log.").unchecked_by_reference(),
        Key::served(
            "enable-access-log-for-default-backend",
            value::bool(),
            "false",
            "Log requests for hosts that no Ingress names.",
            |settings, value| settings.global.access_log.default_backend = value,
        ),
        Key::served(
            "enable-auth-access-log",
            value::bool(),
            "false",
            "Write a separate line for each call of an authorisation service for a logged request: that \
             request, with the status and endpoint of the service, and the called path in $uri.",
            |settings, value| settings.global.access_log.authorisation = value,
        ),
        Key::served(
            "skip-access-log-urls",
            blocked(),
            "",
            "Paths with queries that are not logged: complete values in any case, or regular expressions \
             after ~ (~* for any case).",
            |settings, value| settings.global.access_log.skip = value,
        ),
        Key::served(
            "log-format-upstream",
            log_format::format(),
            sluice_config::LogFormat::DEFAULT,
            "Format of an access log line: text and variables (log-format.md lists them).",
            |settings, value| settings.logs.format = Some(value),
        )
        .unchecked_by_reference()
        .fallback("the default format is in force", |settings| {
            settings.logs.format = Some(LogFormat::default().pieces);
        }),
        Key::served(
            "log-format-preset",
            log_format::preset(),
            "",
            "Format of an access log line: json is an object with the values of the default format and the ids of \
             the trace (log-format.md). Cannot be combined with log-format-upstream, which takes precedence, and \
             needs none of the keys log-format-escape-*.",
            |settings, value| settings.logs.preset = Some(value),
        )
        .absent_in_reference(),
        Key::served(
            "log-format-escape-json",
            value::bool(),
            "false",
            "Escape values as in JSON strings.",
            |settings, value| {
                let escape = &mut settings.global.access_log.format.escape;
                if value && *escape == LogEscape::Hex {
                    *escape = LogEscape::Json;
                }
            },
        ),
        Key::served(
            "log-format-escape-none",
            value::bool(),
            "false",
            "Write values unchanged; takes precedence over log-format-escape-json. Clients can then forge \
             lines.",
            |settings, value| {
                if value {
                    settings.global.access_log.format.escape = LogEscape::None;
                }
            },
        ),
        Key::served(
            "error-log-path",
            log_format::path(["/var/log/nginx/error.log", "/dev/stderr"], "/dev/null/none"),
            "/var/log/nginx/error.log",
            "File of the program's own log; the default and /dev/stderr are standard error. Reopened on \
             SIGUSR1. While it cannot be written, lines go to standard error.",
            |settings, value| settings.global.error_log.output = value,
        ).unchecked_by_reference(),
        Key::served(
            "error-log-level",
            value::choice(&["debug", "info", "notice", "warn", "error", "crit", "alert", "emerg"]),
            "notice",
            "Level of the program's own log: error and above log only failures, debug equals --v=3, notice \
             follows --v. The environment variable RUST_LOG takes precedence.",
            |settings, value| {
                settings.global.error_log.level = match value {
                    "debug" => Some(LogLevel::Debug),
                    "info" => Some(LogLevel::Info),
                    "warn" => Some(LogLevel::Warn),
                    "error" | "crit" | "alert" | "emerg" => Some(LogLevel::Error),
                    _ => None,
                };
            },
        ).unchecked_by_reference(),
        Key::served(
            "enable-syslog",
            value::bool(),
            "false",
            "Send the access log to the syslog server syslog-host (RFC 3164 over UDP, like nginx) instead \
             of a file. The log of streams and the program's own log are unaffected.",
            |settings, value| settings.logs.syslog = value,
        ),
        Key::served(
            "syslog-host",
            value::text(),
            "",
            "Name or address of the syslog server.",
            |settings, value| {
                settings.logs.syslog_host = value;
            },
        ).unchecked_by_reference(),
        Key::served("syslog-port", value::within(1, 65535), "514", "Its port.", |settings, value| {
            // The range was checked.
            settings.logs.syslog_port = u16::try_from(value).unwrap_or(514);
        }),
        Key::no_effect(
            "debug-connections",
            value::list(),
            "",
            "Sluice does not run nginx",
            "Networks whose connections are logged in detail.",
        ),
    ];
    all.extend(log_filter::settings());
    all.extend(of_streams());
    all
}

/// Keys about TCP and UDP services and TLS that is passed through.
fn of_streams() -> [Key; 3] {
    [
        Key::served(
            "disable-stream-access-log",
            value::bool(),
            "false",
            "Disable the log of streams: TCP and UDP services, and TLS that is passed through.",
            |settings, value| settings.logs.streams_disabled |= value,
        ),
        Key::served(
            "stream-access-log-path",
            log_format::path(["/var/log/nginx/access.log", "/dev/stdout"], "/dev/stderr"),
            "",
            "File of the log of streams; without it, that of access-log-path.",
            |settings, value| settings.logs.stream_path = Some(value),
        )
        .unchecked_by_reference(),
        Key::served(
            "log-format-stream",
            log_format::stream_format(),
            sluice_config::StreamLog::DEFAULT,
            "Format of a line of the log of streams: text and variables (log-format.md lists them).",
            |settings, value| settings.global.stream.log.format = value,
        )
        .unchecked_by_reference(),
    ]
}

/// Keys whose combination determines the logs.
#[derive(Clone, Debug)]
pub(super) struct Logs {
    /// `disable-access-log`.
    all_disabled: bool,
    /// `disable-http-access-log`.
    http_disabled: bool,
    /// `disable-stream-access-log`.
    streams_disabled: bool,
    path: Option<LogOutput>,
    http_path: Option<LogOutput>,
    stream_path: Option<LogOutput>,
    /// `log-format-upstream`.
    format: Option<Arc<[TemplatePiece]>>,
    /// `log-format-preset`.
    preset: Option<Arc<[TemplatePiece]>>,
    pub(super) filter: LogFilterKeys,
    syslog: bool,
    syslog_host: Arc<str>,
    syslog_port: u16,
}

impl Default for Logs {
    fn default() -> Self {
        Self {
            all_disabled: false,
            http_disabled: false,
            streams_disabled: false,
            path: None,
            http_path: None,
            stream_path: None,
            format: None,
            preset: None,
            filter: LogFilterKeys::default(),
            syslog: false,
            syslog_host: "".into(),
            syslog_port: 514,
        }
    }
}

impl Logs {
    /// Sets the values that several keys determine.
    pub(super) fn apply(&self, log: &mut AccessLog) {
        log.enabled = !self.all_disabled && !self.http_disabled;
        log.output = self.output_of_http();
        log.filter = self.filter.filter();
        match (&self.format, &self.preset) {
            (Some(pieces), _) => log.format.pieces = pieces.clone(),
            (None, Some(pieces)) => {
                log.format = LogFormat { pieces: pieces.clone(), escape: LogEscape::Json }
            }
            (None, None) => {}
        }
    }

    /// Returns the keys without effect because of other keys.
    pub(super) fn missing(&self, log: &AccessLog) -> impl Iterator<Item = MissingSetting> + use<> {
        let host = MissingSetting {
            name: "enable-syslog",
            code: Code::KeyInvalid,
            reason: "has no syslog-host to send lines to; the destination of the access log does not change",
            remedy: "set syslog-host to the name or address of the syslog server",
        };
        let preset = MissingSetting {
            name: "log-format-preset",
            code: Code::KeyWithoutEffect,
            reason: "has no effect beside log-format-upstream, whose format is in force",
            remedy: "remove log-format-upstream to use the preset, or remove log-format-preset",
        };
        let escape = MissingSetting {
            name: "log-format-escape-none",
            code: Code::KeyWithoutEffect,
            reason: "has no effect beside log-format-preset, whose values are always escaped",
            remedy: "remove log-format-escape-none",
        };
        let is_replaced = self.preset.is_some() && self.format.is_some();
        let is_preset = self.preset.is_some() && self.format.is_none();
        [
            (self.lacks_host(), host),
            (is_replaced, preset),
            (is_preset && log.format.escape == LogEscape::None, escape),
        ]
        .into_iter()
        .filter_map(|(is_missing, missing)| is_missing.then_some(missing))
    }

    fn lacks_host(&self) -> bool {
        self.syslog && self.syslog_host.is_empty()
    }

    pub(super) fn streams_are_enabled(&self) -> bool {
        !self.all_disabled && !self.streams_disabled
    }

    /// Returns the output of the log of streams, which is never syslog, as in ingress-nginx.
    pub(super) fn output_of_streams(&self) -> LogOutput {
        self.file_of(&self.stream_path)
    }

    fn output_of_http(&self) -> LogOutput {
        match self.syslog && !self.lacks_host() {
            true => LogOutput::Syslog { host: self.syslog_host.clone(), port: self.syslog_port },
            false => self.file_of(&self.http_path),
        }
    }

    /// Returns the file of a log that may have its own path.
    fn file_of(&self, own: &Option<LogOutput>) -> LogOutput {
        own.as_ref().or(self.path.as_ref()).cloned().unwrap_or_default()
    }
}
