//! What is written down.

use super::Settings;
use crate::translate::setting::{NotYet, Setting};
use crate::translate::value::{self, Value};

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::served(
        "disable-access-log",
        Value::Bool,
        "false",
        "Switch the access log off.",
        |text, settings: &mut Settings| {
            settings.tuning.access_log = !value::bool(text)?;
            Ok(())
        },
    ),
    Setting::not_yet(
        "disable-http-access-log",
        Value::Bool,
        "false",
        NotYet::Harmless,
        "Switch the HTTP access log off.",
    ),
    Setting::not_yet(
        "disable-stream-access-log",
        Value::Bool,
        "false",
        NotYet::Harmless,
        "Switch the stream access log off.",
    ),
    Setting::no_effect(
        "access-log-path",
        Value::Text,
        "/var/log/nginx/access.log",
        "the access log goes to standard output",
        "File of the access log.",
    ),
    Setting::no_effect(
        "http-access-log-path",
        Value::Text,
        "",
        "the access log goes to standard output",
        "File of the HTTP access log.",
    ),
    Setting::no_effect(
        "stream-access-log-path",
        Value::Text,
        "",
        "the access log goes to standard output",
        "File of the stream access log.",
    ),
    Setting::no_effect(
        "access-log-params",
        Value::Text,
        "",
        "the access log goes to standard output",
        "Buffering of the access log.",
    ),
    Setting::not_yet(
        "enable-access-log-for-default-backend",
        Value::Bool,
        "false",
        NotYet::Harmless,
        "Log default backend requests.",
    ),
    Setting::not_yet(
        "enable-auth-access-log",
        Value::Bool,
        "false",
        NotYet::Harmless,
        "Log requests to the authorisation service.",
    ),
    Setting::not_yet("skip-access-log-urls", Value::List, "", NotYet::Harmless, "URLs that are not logged."),
    Setting::not_yet("log-format-upstream", Value::Text, "", NotYet::Harmless, "Format of the access log."),
    Setting::not_yet(
        "log-format-stream",
        Value::Text,
        "",
        NotYet::Harmless,
        "Format of the stream access log.",
    ),
    Setting::not_yet(
        "log-format-escape-json",
        Value::Bool,
        "false",
        NotYet::Harmless,
        "Escape variables as JSON.",
    ),
    Setting::not_yet(
        "log-format-escape-none",
        Value::Bool,
        "false",
        NotYet::Harmless,
        "Write variables without escaping.",
    ),
    Setting::no_effect(
        "error-log-path",
        Value::Text,
        "/var/log/nginx/error.log",
        "the program log goes to standard error",
        "File of the program log.",
    ),
    Setting::not_yet(
        "error-log-level",
        Value::OneOf(&["debug", "info", "notice", "warn", "error", "crit", "alert", "emerg"]),
        "notice",
        NotYet::Harmless,
        "Level of the program log.",
    ),
    Setting::not_yet("enable-syslog", Value::Bool, "false", NotYet::Harmless, "Log to syslog."),
    Setting::not_yet("syslog-host", Value::Text, "", NotYet::Harmless, "Target of syslog."),
    Setting::not_yet("syslog-port", Value::Within(1, 65535), "514", NotYet::Harmless, "Its port."),
    Setting::no_effect(
        "debug-connections",
        Value::List,
        "",
        "there is no nginx underneath",
        "Networks whose connections are logged in detail.",
    ),
];
