//! Keys with nginx configuration. Snippets whose directives are all known become typed policies of
//! all rules; no text is executed. An untranslated one that restricts access closes all routes.

use std::sync::Arc;

use super::{Key, nginx_text};
use crate::translate::declarations::{HttpDeclarations, NO_DECLARATIONS};
use crate::translate::firewall::GlobalFirewall;
use crate::translate::setting::NotYet;
use crate::translate::snippet::{self, Block, HttpSnippet, SnippetContext};
use crate::translate::snippet_servers;
use crate::translate::value;

const EXCEPT: &str = "a text with other directives is refused; one that restricts access closes all routes";

/// The typed directives that apply to all rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GlobalSnippets {
    /// `location-snippet`
    pub(crate) location: Option<Arc<Block>>,
    /// `server-snippet`
    pub(crate) server: Option<Arc<Block>>,
    /// `global-auth-snippet`
    pub(crate) authorisation: Option<Arc<Block>>,
    /// `http-snippet`
    pub(crate) http: Option<Arc<HttpSnippet>>,
    /// The web application firewall.
    pub(crate) firewall: GlobalFirewall,
    /// Whether rules have an authorisation service by default (`global-auth-url`), for which
    /// ingress-nginx adds an `add_header` to their locations.
    pub(crate) has_authorisation: bool,
    /// Whether HTTP/2 is served (`use-http2`), with which ingress-nginx makes each authorisation
    /// request with `auth_request`.
    pub(crate) uses_http2: bool,
}

impl GlobalSnippets {
    /// Returns those that are a part of the rules: the tables and servers of `http-snippet` are
    /// not.
    pub(crate) fn of_rules(&self) -> Self {
        Self { http: None, ..self.clone() }
    }

    /// Returns the names that `http-snippet` declares.
    pub(crate) fn declarations(&self) -> &HttpDeclarations {
        self.http.as_ref().map_or(&NO_DECLARATIONS, |http| &http.declarations)
    }

    /// Returns the translations, one line per directive, each with the name of its key.
    pub(crate) fn translations(&self) -> impl Iterator<Item = (&'static str, &[String])> {
        fn lines(block: &Option<Arc<Block>>) -> Option<&[String]> {
            block.as_ref().map(|block| block.lines())
        }
        let all = [
            ("location-snippet", lines(&self.location)),
            ("server-snippet", lines(&self.server)),
            ("global-auth-snippet", lines(&self.authorisation)),
            (snippet_servers::KEY, self.http.as_ref().map(|http| &http.lines[..])),
        ];
        all.into_iter().filter_map(|(name, lines)| Some((name, lines?)))
    }
}

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::not_yet("main-snippet", value::any(), "", NotYet::ChangesAnswers, "Raw text for nginx.")
            .unchecked_by_reference(),
        Key::served(
            snippet_servers::KEY,
            snippet::http_snippet(),
            "",
            "Variables of map and geo, zones of limits, and servers with ports of their own, translated into typed \
             policies (docs/snippets.md).",
            |settings, value| {
                settings.global.computed = value.computed.clone();
                settings.snippets.http = Some(value);
            },
        )
        .snippet(NotYet::ChangesAnswers)
        .except(EXCEPT)
        .unchecked_by_reference()
        .restricting(nginx_text::restricts_access),
        Key::served(
            "server-snippet",
            snippet::directives(SnippetContext::Server),
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
            snippet::directives(SnippetContext::Location),
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
        Key::no_effect(
            "use-geoip",
            value::bool(),
            "true",
            "a leftover of the documentation",
            "Location of clients, an older form.",
        )
        .absent_in_reference(),
        Key::served(
            "use-geoip2",
            value::bool(),
            "false",
            "Read GeoIP2 databases for the variables `$geoip2_*` and lists of countries: the editions of \
             --maxmind-edition-ids in the folder --geoip-path.",
            |settings, value| settings.global.use_geoip2 = value,
        ),
        Key::no_effect(
            "geoip2-autoreload-in-minutes",
            value::count(),
            "0",
            "a database is read within seconds of a change of its file",
            "Minutes between two reloads of the databases.",
        ),
    ]
}
