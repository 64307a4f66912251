//! The web application firewall of a rule.

use std::sync::Arc;

use sluice_config::{Code, FirewallSource, Policies};

use super::{Builder, ObjectRoutes, object_ref};
use crate::problem::{error, warning};
use crate::translate::firewall::{self, ENABLE, SNIPPET, WITHOUT_AGENT};

impl Builder<'_, '_> {
    /// Returns the policies of a rule with its firewall. Without an agent, a rule whose firewall
    /// enforces its rules is closed.
    pub(super) fn with_firewall(&mut self, routes: &ObjectRoutes, policies: Arc<Policies>) -> Arc<Policies> {
        let own = &routes.settings.firewall;
        let Some(directives) = firewall::compose(&self.view.snippets().firewall, own) else {
            return policies;
        };
        let object = object_ref(routes);
        let field = match (&own.snippet, own.enabled) {
            (Some(_), _) => Some(SNIPPET),
            (None, Some(true)) => Some(ENABLE),
            _ => None,
        };
        let source = match field {
            Some(name) => {
                let field = self.view.setting_field(&object, name).into();
                FirewallSource { object: object.clone(), field }
            }
            // The problem of the ConfigMap is reported once, with those of flags.
            None => firewall::global_source(self.view)
                .unwrap_or_else(|| FirewallSource { object: object.clone(), field: ENABLE.into() }),
        };
        let enforces = directives.enforces;
        let mut policies = (*policies).clone();
        let transaction_id = own.transaction_id.clone();
        firewall::apply(self.view, directives, &source, transaction_id, &mut policies);
        if policies.firewall.is_some() {
            return Arc::new(policies);
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

/// The remedy.
pub(crate) const REMEDY: &str = "run the agent beside the gateway and set --waf-agent to its address (docs/waf.md; \
                                 waf.enabled in the chart); remove the setting only when the routes may be served without \
                                 it";
