//! Raw text for nginx and its modules, which is never carried out.

use super::Settings;
use crate::translate::setting::{NotYet, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet("main-snippet", Value::Text, "", NotYet::ChangesAnswers, "Raw text for nginx."),
    Setting::not_yet("http-snippet", Value::Text, "", NotYet::ChangesAnswers, "Raw text for nginx."),
    Setting::not_yet("server-snippet", Value::Text, "", NotYet::ChangesAnswers, "Raw text for nginx."),
    Setting::not_yet("location-snippet", Value::Text, "", NotYet::ChangesAnswers, "Raw text for nginx."),
    Setting::not_yet("stream-snippet", Value::Text, "", NotYet::ChangesAnswers, "Raw text for nginx."),
    Setting::not_yet(
        "enable-modsecurity",
        Value::Bool,
        "false",
        NotYet::Protects,
        "Web application firewall.",
    ),
    Setting::not_yet("modsecurity-snippet", Value::Text, "", NotYet::Protects, "Rules of the firewall."),
    Setting::not_yet(
        "enable-owasp-modsecurity-crs",
        Value::Bool,
        "false",
        NotYet::Protects,
        "OWASP core rule set of the firewall.",
    ),
    Setting::no_effect(
        "use-geoip",
        Value::Bool,
        "true",
        "a leftover of the documentation",
        "Location of clients, an older form.",
    ),
    Setting::not_yet("use-geoip2", Value::Bool, "false", NotYet::Harmless, "Location of clients."),
    Setting::not_yet(
        "geoip2-autoreload-in-minutes",
        Value::Count,
        "0",
        NotYet::Harmless,
        "How often the location database is read again.",
    ),
];
