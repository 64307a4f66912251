//! Keys about the web application firewall.

use std::sync::Arc;

use super::{Key, nginx_text};
use crate::translate::firewall::{ENABLE, FirewallText, SNIPPET};
use crate::translate::setting::NotYet;
use crate::translate::value;

const EXCEPT: &str = "a text with directives that reach beyond requests is refused, and closes all routes if it has \
                      SecRuleEngine On";

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::served(
            ENABLE,
            value::bool(),
            "false",
            "Inspect all requests with ModSecurity's directives, by the agent at --waf-agent (docs/waf.md). They are \
             only detected and logged, unless a snippet has SecRuleEngine On.",
            |settings, value| settings.snippets.firewall.enabled = value,
        ),
        Key::served(
            SNIPPET,
            FirewallText::of_setting(),
            "",
            "Directives of ModSecurity for all rules.",
            |settings, value| {
                settings.left_out(SNIPPET, value.ignored());
                settings.snippets.firewall.snippet = Some(Arc::new(value));
            },
        )
        .snippet(NotYet::Protects)
        .except(EXCEPT)
        .unchecked_by_reference()
        .beside(ENABLE)
        .restricting(nginx_text::enforces_rules),
        Key::served(
            "enable-owasp-modsecurity-crs",
            value::bool(),
            "false",
            "Also run the OWASP core rule set.",
            |settings, value| settings.snippets.firewall.core_rules = value,
        )
        .beside(ENABLE),
    ]
}
