//! The web application firewall.

use std::sync::Arc;

use sluice_config::{Moment, NamespacedName};

use super::{Annotation, Settings, nginx_text};
use crate::translate::firewall::{ENABLE, FirewallText, SNIPPET};
use crate::translate::setting::{NotYet, ReferenceTreatment, Risk, Unreadable};
use crate::translate::template;
use crate::translate::value;

const EXCEPT: &str = "with allow-snippet-annotations; directives that reach beyond the requests of the Ingress close its \
                      routes with 503";

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            ENABLE,
            value::bool(),
            "",
            "Inspect requests with ModSecurity's directives, by the agent at --waf-agent (docs/waf.md). They are only \
             detected and logged, unless a snippet has SecRuleEngine On.",
            |settings, value| settings.routes.firewall.enabled = Some(value),
        )
        .ingress(Risk::Low)
        .falls_back_to(ENABLE),
        Annotation::served(
            "enable-owasp-core-rules",
            value::bool(),
            "false",
            "Also run the OWASP core rule set.",
            |settings, value| settings.routes.firewall.core_rules = value,
        )
        .ingress(Risk::Low),
        Annotation::served(
            SNIPPET,
            FirewallText::of_setting(),
            "",
            "Directives of ModSecurity, after those of the ConfigMap.",
            |settings, value| settings.routes.firewall.snippet = Some(Arc::new(value)),
        )
        .snippet(NotYet::Protects)
        .except(EXCEPT)
        .restricting(nginx_text::enforces_rules)
        .unreadable(Unreadable::Close, ReferenceTreatment::RefuseAll, "")
        .ingress(Risk::Critical),
        Annotation::served(
            "modsecurity-transaction-id",
            template::field(Moment::Request),
            "",
            "Id of a request in the log of the agent, with variables such as $request_id.",
            |settings, value| settings.routes.firewall.transaction_id = Some(value),
        )
        .ingress(Risk::High),
    ]
}

/// Reports directives without effect.
pub(super) fn finish(settings: &mut Settings, _: &NamespacedName) {
    let ignored = settings.routes.firewall.snippet.iter().flat_map(|text| text.ignored());
    settings
        .left_out
        .extend(ignored.map(|reason| (SNIPPET, format!("has a directive without effect: {reason}"))));
}
