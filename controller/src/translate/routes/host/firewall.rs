//! The web application firewall of a rule.

use std::sync::Arc;

use sluice_config::{Code, Deny, Firewall, FirewallSource, ObjectRef, Policies};

use super::{Builder, ObjectRoutes, object_ref};
use crate::problem::{because, error, warning};
use crate::translate::firewall::{self, ENABLE, FirewallDirectives, SNIPPET};

impl Builder<'_, '_> {
    /// Returns the policies of a rule with its firewall. Without an agent, a rule whose firewall
    /// enforces its rules is closed.
    pub(super) fn with_firewall(&mut self, routes: &ObjectRoutes, policies: Arc<Policies>) -> Arc<Policies> {
        let own = &routes.settings.firewall;
        let global = &self.view.snippets().firewall;
        let Some(directives) = firewall::compose(global, own) else { return policies };
        let object = object_ref(routes);
        let field = match (&own.snippet, own.enabled) {
            (Some(_), _) => Some(SNIPPET),
            (None, Some(true)) => Some(ENABLE),
            _ => None,
        };
        let source = match (field, &self.view.options.configmap) {
            (Some(name), _) => {
                let field = self.view.setting_field(&object, name).into();
                FirewallSource { object: object.clone(), field }
            }
            // The problem of the ConfigMap is reported once, with those of flags.
            (None, Some(name)) => {
                let key = if global.snippet.is_some() { SNIPPET } else { ENABLE };
                let object = ObjectRef { kind: "ConfigMap".into(), name: name.clone() };
                FirewallSource { object, field: format!("data[{key}]").into() }
            }
            (None, None) => FirewallSource { object: object.clone(), field: ENABLE.into() },
        };
        let FirewallDirectives { text, enforces } = directives;
        let mut policies = (*policies).clone();
        if self.view.options.waf_agent.is_some() {
            policies.firewall = Some(Arc::new(Firewall {
                directives: text.into(),
                enforces,
                source,
                transaction_id: own.transaction_id.clone(),
            }));
            return Arc::new(policies);
        }
        if enforces {
            let reason = because(&source.object, &source.field, WITHOUT_AGENT);
            policies.deny.get_or_insert(Deny { status: 503, reason });
        }
        if source.object == object {
            let problem = match enforces {
                true => error(
                    Code::FirewallWithoutAgent,
                    &object,
                    &*source.field,
                    format!("{WITHOUT_AGENT}; the routes of this Ingress answer 503"),
                    REMEDY,
                ),
                false => warning(
                    Code::FirewallWithoutAgent,
                    &object,
                    &*source.field,
                    format!("{WITHOUT_AGENT}; requests are neither inspected nor logged"),
                    REMEDY,
                ),
            };
            self.add(problem);
        }
        Arc::new(policies)
    }
}

/// Completes "the setting ...".
pub(crate) const WITHOUT_AGENT: &str = "requests a web application firewall, and --waf-agent names no agent";
/// The remedy.
pub(crate) const REMEDY: &str = "run the agent beside the gateway and set --waf-agent to its address (docs/waf.md; \
                                 waf.enabled in the chart); remove the setting only when the routes may be served without \
                                 it";
