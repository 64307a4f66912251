//! Raw text for nginx and its modules, which is never executed. One that restricts access closes
//! all routes.

use super::{Key, nginx_text};
use crate::translate::setting::NotYet;
use crate::translate::value;

const DETECTION: &str = "by default, ingress-nginx's firewall neither detects nor refuses anything; \
                         modsecurity-snippet with SecRuleEngine On closes all routes";

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::not_yet("main-snippet", value::any(), "", NotYet::ChangesAnswers, "Raw text for nginx.")
            .unchecked_by_reference(),
        Key::not_yet("http-snippet", value::any(), "", NotYet::ChangesAnswers, "Raw text for nginx.")
            .unchecked_by_reference()
            .restricting(nginx_text::restricts_access),
        Key::not_yet("server-snippet", value::any(), "", NotYet::ChangesAnswers, "Raw text for nginx.")
            .unchecked_by_reference()
            .restricting(nginx_text::restricts_access),
        Key::not_yet("location-snippet", value::any(), "", NotYet::ChangesAnswers, "Raw text for nginx.")
            .unchecked_by_reference()
            .restricting(nginx_text::restricts_access),
        Key::not_yet("stream-snippet", value::any(), "", NotYet::ChangesAnswers, "Raw text for nginx.")
            .unchecked_by_reference(),
        Key::no_effect("enable-modsecurity", value::bool(), "false", DETECTION, "Web application firewall."),
        Key::not_yet("modsecurity-snippet", value::any(), "", NotYet::Protects, "Rules of the firewall.")
            .unchecked_by_reference()
            .beside("enable-modsecurity")
            .restricting(nginx_text::enforces_rules),
        Key::no_effect(
            "enable-owasp-modsecurity-crs",
            value::bool(),
            "false",
            DETECTION,
            "OWASP core rule set of the firewall.",
        ),
        Key::no_effect(
            "use-geoip",
            value::bool(),
            "true",
            "a leftover of the documentation",
            "Location of clients, an older form.",
        )
        .absent_in_reference(),
        Key::not_yet("use-geoip2", value::bool(), "false", NotYet::Harmless, "Location of clients."),
        Key::not_yet(
            "geoip2-autoreload-in-minutes",
            value::count(),
            "0",
            NotYet::Harmless,
            "Minutes between two reloads of the location database.",
        ),
    ]
}
