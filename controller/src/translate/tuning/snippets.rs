//! Raw text for nginx and its modules, which is never carried out.

use super::Key;
use crate::translate::setting::NotYet;
use crate::translate::value;

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::not_yet("main-snippet", value::any(), "", NotYet::ChangesAnswers, "Raw text for nginx."),
        Key::not_yet("http-snippet", value::any(), "", NotYet::ChangesAnswers, "Raw text for nginx."),
        Key::not_yet("server-snippet", value::any(), "", NotYet::ChangesAnswers, "Raw text for nginx."),
        Key::not_yet("location-snippet", value::any(), "", NotYet::ChangesAnswers, "Raw text for nginx."),
        Key::not_yet("stream-snippet", value::any(), "", NotYet::ChangesAnswers, "Raw text for nginx."),
        Key::not_yet(
            "enable-modsecurity",
            value::bool(),
            "false",
            NotYet::Protects,
            "Web application firewall.",
        ),
        Key::not_yet("modsecurity-snippet", value::any(), "", NotYet::Protects, "Rules of the firewall."),
        Key::not_yet(
            "enable-owasp-modsecurity-crs",
            value::bool(),
            "false",
            NotYet::Protects,
            "OWASP core rule set of the firewall.",
        ),
        Key::no_effect(
            "use-geoip",
            value::bool(),
            "true",
            "a leftover of the documentation",
            "Location of clients, an older form.",
        ),
        Key::not_yet("use-geoip2", value::bool(), "false", NotYet::Harmless, "Location of clients."),
        Key::not_yet(
            "geoip2-autoreload-in-minutes",
            value::count(),
            "0",
            NotYet::Harmless,
            "How often the location database is read again.",
        ),
    ]
}
