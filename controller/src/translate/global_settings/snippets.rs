//! Keys with nginx configuration. Snippets whose directives are all known become typed policies of
//! all rules; no text is executed. An untranslated one that restricts access closes all routes.

use std::sync::Arc;

use super::{Key, nginx_text};
use crate::translate::setting::NotYet;
use crate::translate::snippet::{self, Block, Place};
use crate::translate::value;

const EXCEPT: &str = "a text with other directives is refused; one that restricts access closes all routes";
const DETECTION: &str = "by default, ingress-nginx's firewall neither detects nor refuses anything; \
                         modsecurity-snippet with SecRuleEngine On closes all routes";

/// The typed directives that apply to all rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GlobalSnippets {
    /// `location-snippet`
    pub(crate) location: Option<Arc<Block>>,
    /// `server-snippet`
    pub(crate) server: Option<Arc<Block>>,
    /// Whether rules have an authorisation service by default (`global-auth-url`), for which
    /// ingress-nginx adds an `add_header` to their locations.
    pub(crate) has_authorisation: bool,
}

impl GlobalSnippets {
    /// Returns the translations, each with the name of its key.
    pub(crate) fn translations(&self) -> impl Iterator<Item = (&'static str, &Block)> {
        let all = [("location-snippet", &self.location), ("server-snippet", &self.server)];
        all.into_iter().filter_map(|(name, block)| Some((name, &**block.as_ref()?)))
    }
}

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::not_yet("main-snippet", value::any(), "", NotYet::ChangesAnswers, "Raw text for nginx.")
            .unchecked_by_reference(),
        Key::not_yet("http-snippet", value::any(), "", NotYet::ChangesAnswers, "Raw text for nginx.")
            .unchecked_by_reference()
            .restricting(nginx_text::restricts_access),
        Key::served(
            "server-snippet",
            snippet::directives(Place::Server),
            "",
            "Directives of all servers, translated into typed policies (docs/snippets.md).",
            |settings, value| settings.snippets.server = Some(value),
        )
        .snippet(NotYet::ChangesAnswers)
        .except(EXCEPT)
        .unchecked_by_reference()
        .restricting(nginx_text::restricts_access),
        Key::served(
            "location-snippet",
            snippet::directives(Place::Location),
            "",
            "Directives of all locations, translated into typed policies (docs/snippets.md).",
            |settings, value| settings.snippets.location = Some(value),
        )
        .snippet(NotYet::ChangesAnswers)
        .except(EXCEPT)
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
