//! Raw text for nginx and its firewall module. Sluice generates no configuration text, so these can never be
//! executed; their risk is Critical, which `annotations-risk-level` refuses by default.

use super::{Annotation, nginx_text};
use crate::translate::setting::{NotYet, Risk};
use crate::translate::value;

const TEXT: &str = "say the same by annotations where there are some for it (docs/annotations.md), or do it in the \
                    application; remove the snippet when the routes may be served without it, and if it protects \
                    them, only when something else does";
const DETECTION: &str = "by default, ingress-nginx's firewall neither detects nor refuses anything; \
                         modsecurity-snippet with SecRuleEngine On closes the routes";
const FIREWALL: &str = "leave it until a firewall in front of the gateway or in the application does the same, because \
                        without it the routes are open to everybody; then remove the annotation";

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::not_yet(
            "configuration-snippet",
            value::any(),
            "",
            NotYet::ChangesAnswers,
            "Text pasted into each location.",
        )
        .location(Risk::Critical)
        .never(TEXT),
        Annotation::not_yet(
            "server-snippet",
            value::any(),
            "",
            NotYet::ChangesAnswers,
            "Text in the server block.",
        )
        .for_namespace_of_host()
        .restricting(nginx_text::restricts_access)
        .ingress(Risk::Critical)
        .never(TEXT),
        Annotation::not_yet(
            "stream-snippet",
            value::any(),
            "",
            NotYet::ChangesAnswers,
            "Text in the stream block.",
        )
        .ingress(Risk::Critical)
        .never(TEXT),
        Annotation::not_yet("auth-snippet", value::any(), "", NotYet::Protects, "Text in the auth location.")
            .beside("auth-url")
            .location(Risk::Critical)
            .never(TEXT),
        Annotation::no_effect(
            "enable-modsecurity",
            value::bool(),
            "false",
            DETECTION,
            "Web application firewall.",
        )
        .ingress(Risk::Low),
        Annotation::no_effect(
            "enable-owasp-core-rules",
            value::bool(),
            "false",
            DETECTION,
            "OWASP core rule set of the firewall.",
        )
        .ingress(Risk::Low),
        Annotation::not_yet(
            "modsecurity-snippet",
            value::any(),
            "",
            NotYet::Protects,
            "Rules of the firewall.",
        )
        .restricting(nginx_text::enforces_rules)
        .ingress(Risk::Critical)
        .never(FIREWALL),
        Annotation::not_yet(
            "modsecurity-transaction-id",
            value::any(),
            "",
            NotYet::Harmless,
            "Transaction id of the firewall.",
        )
        .ingress(Risk::High),
    ]
}
