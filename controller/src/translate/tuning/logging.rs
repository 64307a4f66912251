//! What is written down.

use super::Key;
use crate::translate::setting::NotYet;
use crate::translate::value;

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::served(
            "disable-access-log",
            value::bool(),
            "false",
            "Switch the access log off.",
            |settings, value| settings.tuning.access_log = !value,
        ),
        Key::not_yet(
            "disable-http-access-log",
            value::bool(),
            "false",
            NotYet::Harmless,
            "Switch the HTTP access log off.",
        ),
        Key::not_yet(
            "disable-stream-access-log",
            value::bool(),
            "false",
            NotYet::Harmless,
            "Switch the stream access log off.",
        ),
        Key::no_effect(
            "access-log-path",
            value::text(),
            "/var/log/nginx/access.log",
            "the access log goes to standard output",
            "File of the access log.",
        ),
        Key::no_effect(
            "http-access-log-path",
            value::text(),
            "",
            "the access log goes to standard output",
            "File of the HTTP access log.",
        ),
        Key::no_effect(
            "stream-access-log-path",
            value::text(),
            "",
            "the access log goes to standard output",
            "File of the stream access log.",
        ),
        Key::no_effect(
            "access-log-params",
            value::text(),
            "",
            "the access log goes to standard output",
            "Buffering of the access log.",
        ),
        Key::not_yet(
            "enable-access-log-for-default-backend",
            value::bool(),
            "false",
            NotYet::Harmless,
            "Log default backend requests.",
        ),
        Key::not_yet(
            "enable-auth-access-log",
            value::bool(),
            "false",
            NotYet::Harmless,
            "Log requests to the authorisation service.",
        ),
        Key::not_yet(
            "skip-access-log-urls",
            value::list(),
            "",
            NotYet::Harmless,
            "URLs that are not logged.",
        ),
        Key::not_yet("log-format-upstream", value::text(), "", NotYet::Harmless, "Format of the access log."),
        Key::not_yet(
            "log-format-stream",
            value::text(),
            "",
            NotYet::Harmless,
            "Format of the stream access log.",
        ),
        Key::not_yet(
            "log-format-escape-json",
            value::bool(),
            "false",
            NotYet::Harmless,
            "Escape variables as JSON.",
        ),
        Key::not_yet(
            "log-format-escape-none",
            value::bool(),
            "false",
            NotYet::Harmless,
            "Write variables without escaping.",
        ),
        Key::no_effect(
            "error-log-path",
            value::text(),
            "/var/log/nginx/error.log",
            "the program log goes to standard error",
            "File of the program log.",
        ),
        Key::not_yet(
            "error-log-level",
            value::choice(&["debug", "info", "notice", "warn", "error", "crit", "alert", "emerg"]),
            "notice",
            NotYet::Harmless,
            "Level of the program log.",
        ),
        Key::not_yet("enable-syslog", value::bool(), "false", NotYet::Harmless, "Log to syslog."),
        Key::not_yet("syslog-host", value::text(), "", NotYet::Harmless, "Target of syslog."),
        Key::not_yet("syslog-port", value::within(1, 65535), "514", NotYet::Harmless, "Its port."),
        Key::no_effect(
            "debug-connections",
            value::list(),
            "",
            "there is no nginx underneath",
            "Networks whose connections are logged in detail.",
        ),
    ]
}
