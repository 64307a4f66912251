//! The web application firewall of rules: what the ConfigMap and an Ingress request together, as
//! the text of directives that the agent compiles.
//!
//! The order is that of ingress-nginx's template: the recommended configuration, the ConfigMap's
//! `modsecurity-snippet`, the Ingress's, then the core rule set. Later directives override earlier
//! ones. Directives that change other rules come last: the engine applies them to the rules before
//! them, and ModSecurity to all.

mod line;
mod text;

use std::sync::Arc;

use sluice_config::{Deny, Firewall, FirewallSource, ObjectRef, Policies, Template};

use super::view::View;
use crate::problem::because;
pub(crate) use text::FirewallText;

/// Completes "the setting ...".
pub(crate) const WITHOUT_AGENT: &str = "requests a web application firewall, and --waf-agent names no agent";

/// Name of the annotation and of the key that enable the firewall.
pub(crate) const ENABLE: &str = "enable-modsecurity";
/// Name of the annotation and of the key with directives.
pub(crate) const SNIPPET: &str = "modsecurity-snippet";

/// ModSecurity's recommended configuration, which only detects.
const RECOMMENDED: &[&str] = &["Include @coraza.conf-recommended"];
/// The same without its rules, for a text with rules of the same ids: a copy of it.
const RECOMMENDED_SETTINGS: &[&str] = &[
    "SecRuleEngine DetectionOnly",
    "SecRequestBodyAccess On",
    "SecRequestBodyLimit 13107200",
    "SecRequestBodyInMemoryLimit 131072",
    "SecRequestBodyLimitAction Reject",
];
/// `SecRequestBodyInMemoryLimit` in the recommended configuration.
const MEMORY_LIMIT: u64 = 131_072;
/// The settings of the core rule set, and its rules.
const CORE_RULES: &[&str] = &["Include @crs-setup.conf.example", "Include @owasp_crs/*.conf"];

/// The firewall that the ConfigMap requests for all rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GlobalFirewall {
    /// `enable-modsecurity`
    pub(crate) enabled: bool,
    /// `enable-owasp-modsecurity-crs`
    pub(crate) core_rules: bool,
    /// `modsecurity-snippet`
    pub(crate) snippet: Option<Arc<FirewallText>>,
}

/// The firewall that an Ingress requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FirewallSettings {
    /// `enable-modsecurity`; `None` is the value of the ConfigMap.
    pub(crate) enabled: Option<bool>,
    /// `enable-owasp-core-rules`
    pub(crate) core_rules: bool,
    /// `modsecurity-snippet`
    pub(crate) snippet: Option<Arc<FirewallText>>,
    /// `modsecurity-transaction-id`
    pub(crate) transaction_id: Option<Template>,
}

/// The directives of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FirewallDirectives {
    /// The text for the agent.
    pub(crate) text: String,
    /// Whether they refuse requests.
    pub(crate) enforces: bool,
}

impl GlobalFirewall {
    /// Returns whether it refuses requests to rules whose Ingress has no settings of a firewall.
    pub(crate) fn enforces(&self) -> bool {
        self.enforces_with(&FirewallSettings::default())
    }

    /// Returns whether a snippet of an Ingress may refuse requests beside this firewall. `enabled`
    /// is the Ingress's [`ENABLE`].
    pub(crate) fn enforces_snippet(&self, enabled: Option<bool>, snippet: &str) -> bool {
        match FirewallText::read(snippet) {
            Ok(text) if !text.may_refuse() => false,
            Ok(text) => {
                let snippet = Some(Arc::new(text));
                self.enforces_with(&FirewallSettings { enabled, snippet, ..FirewallSettings::default() })
            }
            Err(_) => enabled.unwrap_or(self.enabled),
        }
    }

    fn enforces_with(&self, own: &FirewallSettings) -> bool {
        compose(self, own).is_some_and(|directives| directives.enforces)
    }
}

/// Returns the directives of a rule; `None` if it has no firewall.
pub(crate) fn compose(global: &GlobalFirewall, own: &FirewallSettings) -> Option<FirewallDirectives> {
    if !own.enabled.unwrap_or(global.enabled) {
        return None;
    }
    let of_global = global.snippet.as_deref().filter(|_| global.enabled);
    let texts: Vec<&FirewallText> = of_global.into_iter().chain(own.snippet.as_deref()).collect();
    let mut lines: Vec<&str> = Vec::new();
    let mut enforces = false;
    // A text that includes the recommended configuration determines its place.
    if !texts.iter().any(|text| text.includes(RECOMMENDED)) {
        let is_copied = texts.iter().any(|text| text.has_recommended_rules());
        lines.extend(if is_copied { RECOMMENDED_SETTINGS } else { RECOMMENDED });
    }
    for text in &texts {
        enforces = text.engine(!lines.contains(&RECOMMENDED[0])).unwrap_or(enforces);
        lines.extend(text.lines());
    }
    if own.core_rules || global.enabled && global.core_rules {
        lines.extend(CORE_RULES);
    }
    lines.extend(texts.iter().flat_map(|text| text.changes()));
    // A second copy of a file would define its rules again.
    let mut text = String::new();
    let mut included: Vec<&str> = Vec::new();
    for line in lines {
        if line.starts_with("Include ") {
            if included.contains(&line) {
                continue;
            }
            included.push(line);
        }
        text.push_str(line);
        text.push('\n');
    }
    // The engine accepts no body limit below that of the memory, and ModSecurity does.
    let limits = texts.iter().fold((None, MEMORY_LIMIT), |(body, memory), text| {
        let (own_body, own_memory) = text.body_limits();
        (own_body.or(body), own_memory.unwrap_or(memory))
    });
    if let (Some(body), memory) = limits
        && body < memory
    {
        text.push_str(&format!("SecRequestBodyInMemoryLimit {body}\n"));
    }
    enforces |= texts.iter().any(|text| text.has_enforcing_rules());
    Some(FirewallDirectives { text, enforces })
}

/// Returns the key that requests the firewall for all rules; `None` without a ConfigMap.
pub(crate) fn global_source(view: &View<'_>) -> Option<FirewallSource> {
    let key = if view.snippets().firewall.snippet.is_some() { SNIPPET } else { ENABLE };
    let object = ObjectRef { kind: "ConfigMap".into(), name: view.options.configmap.clone()? };
    Some(FirewallSource { object, field: format!("data[{key}]").into() })
}

/// Adds the firewall to policies. Without an agent there is none, and the policies of a firewall
/// that enforces its rules close the rule.
pub(crate) fn apply(
    view: &View<'_>,
    directives: FirewallDirectives,
    source: &FirewallSource,
    transaction_id: Option<Template>,
    policies: &mut Policies,
) {
    let FirewallDirectives { text, enforces } = directives;
    if view.options.waf_agent.is_some() {
        let source = source.clone();
        let firewall = Firewall { directives: text.into(), enforces, source, transaction_id };
        policies.firewall = Some(Arc::new(firewall));
    } else if enforces {
        let reason = because(&source.object, &source.field, WITHOUT_AGENT);
        policies.deny.get_or_insert(Deny { status: 503, reason });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Option<Arc<FirewallText>> {
        Some(Arc::new(FirewallText::read(text).unwrap()))
    }

    fn global(snippet: &str) -> GlobalFirewall {
        let snippet = if snippet.is_empty() { None } else { text(snippet) };
        GlobalFirewall { enabled: true, core_rules: false, snippet }
    }

    fn composed(global: &GlobalFirewall, own: &FirewallSettings) -> (Vec<String>, bool) {
        let FirewallDirectives { text, enforces } = compose(global, own).unwrap();
        (text.lines().map(str::to_owned).collect(), enforces)
    }

    #[test]
    fn the_firewall_is_off_unless_enabled_and_the_ingress_decides() {
        let (off, on) = (GlobalFirewall::default(), global(""));
        let of = |enabled| FirewallSettings {
            enabled,
            core_rules: true,
            snippet: text("SecRuleEngine On"),
            transaction_id: None,
        };
        assert_eq!(compose(&off, &of(None)), None);
        assert_eq!(compose(&off, &of(Some(false))), None);
        assert_eq!(compose(&on, &of(Some(false))), None);
        assert!(compose(&off, &of(Some(true))).is_some());
        assert!(compose(&on, &of(None)).is_some());
    }

    #[test]
    fn it_only_detects_unless_the_engine_is_on() {
        let detects = FirewallSettings { enabled: Some(true), core_rules: true, ..Default::default() };
        let (lines, enforces) = composed(&GlobalFirewall::default(), &detects);
        assert_eq!(lines, [RECOMMENDED, CORE_RULES].concat());
        assert!(!enforces);
        let own = |snippet: &str| FirewallSettings { snippet: text(snippet), ..Default::default() };
        // A second copy of the recommended configuration is left out, and so is its effect.
        let both = "Include /etc/nginx/modsecurity/modsecurity.conf\nSecRuleEngine On".to_owned();
        let twice = format!("{both}\nInclude /etc/nginx/modsecurity/modsecurity.conf");
        for (of_global, of_ingress, expected) in [
            ("SecRuleEngine On", "", true),
            ("SecRuleEngine On", "SecRuleEngine DetectionOnly", false),
            ("SecRuleEngine DetectionOnly", "SecRuleEngine On", true),
            ("", "secruleengine \"on\"", true),
            ("SecRuleEngine On", "Include /etc/nginx/modsecurity/modsecurity.conf", false),
            (&both, "Include /etc/nginx/modsecurity/modsecurity.conf\nSecRuleRemoveById 942100", true),
            (&both, "SecRuleEngine DetectionOnly", false),
            ("", &twice, true),
            ("", "SecAction \"id:1,phase:1,pass,ctl:ruleEngine=On\"", true),
        ] {
            let settings = if of_ingress.is_empty() { Default::default() } else { own(of_ingress) };
            assert_eq!(composed(&global(of_global), &settings).1, expected, "{of_global} {of_ingress}");
        }
    }

    #[test]
    fn later_directives_are_of_the_ingress_and_changes_of_rules_come_last() {
        let own = FirewallSettings {
            snippet: text("SecRuleRemoveById 942100\nSecRuleEngine On"),
            ..Default::default()
        };
        let global = GlobalFirewall { core_rules: true, ..global("SecAuditEngine Off") };
        let (lines, _) = composed(&global, &own);
        let expected = [
            RECOMMENDED[0],
            "SecAuditEngine Off",
            "SecRuleEngine On",
            CORE_RULES[0],
            CORE_RULES[1],
            "SecRuleRemoveById 942100",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn files_of_ingress_nginx_are_included_once_at_their_place() {
        let own = FirewallSettings {
            enabled: Some(true),
            core_rules: true,
            snippet: text(
                "Include /etc/nginx/owasp-modsecurity-crs/nginx-modsecurity.conf\n\
                 Include /etc/nginx/modsecurity/modsecurity.conf\nSecRuleEngine On",
            ),
            transaction_id: None,
        };
        let (lines, enforces) = composed(&GlobalFirewall::default(), &own);
        assert_eq!(lines, [CORE_RULES, RECOMMENDED, &["SecRuleEngine On"]].concat());
        assert!(enforces);
    }

    #[test]
    fn a_copy_of_the_recommended_rules_replaces_them() {
        let copy = "SecRule REQBODY_ERROR \"!@eq 0\" \"id:'200002',phase:2,deny\"";
        let own = FirewallSettings { enabled: Some(true), snippet: text(copy), ..Default::default() };
        let (lines, _) = composed(&GlobalFirewall::default(), &own);
        assert_eq!(lines, [RECOMMENDED_SETTINGS, &[copy]].concat());
    }

    #[test]
    fn a_small_limit_of_bodies_also_limits_the_memory() {
        let last = |snippet: &str| composed(&global(snippet), &FirewallSettings::default()).0.pop().unwrap();
        let small = "SecRequestBodyLimit 1000";
        assert_eq!(last(small), "SecRequestBodyInMemoryLimit 1000");
        let own = format!("SecRequestBodyInMemoryLimit 500\n{small}");
        assert_eq!(last(&own), small);
        assert_eq!(last("SecRequestBodyLimit 200000"), "SecRequestBodyLimit 200000");
    }

    #[test]
    fn settings_of_the_configmap_do_not_apply_while_its_firewall_is_off() {
        let off = GlobalFirewall { enabled: false, core_rules: true, ..global("SecRuleEngine On") };
        let own = FirewallSettings { enabled: Some(true), ..Default::default() };
        let (lines, enforces) = composed(&off, &own);
        assert_eq!((lines, enforces), (vec![RECOMMENDED[0].to_owned()], false));
    }
}
