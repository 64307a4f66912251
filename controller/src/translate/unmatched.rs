//! The rule of requests that no rule of a host matches, such as those for hosts that no Ingress
//! names. It has what keys of the ConfigMap apply to all servers of ingress-nginx, of which one,
//! named `_`, takes these requests: global snippets, the firewall and error pages. Lists of
//! addresses, authentication and redirects to https apply only to locations of Ingresses.

use std::sync::Arc;

use sluice_config::{
    Action, Authorisation, Backend, Deny, HttpsRedirect, Match, NamespacedName, ObjectRef, Origin, PathMatch,
    Policies, Rule, WeightedBackend,
};

use super::firewall::{self, FirewallSettings};
use super::snippet::{self, TemplateDirectives};
use super::view::View;

/// Returns the rule; `None` if nothing applies to such requests.
pub(crate) fn rule(view: &View<'_>) -> Option<Rule> {
    let unchanged = Policies {
        authorisation: Authorisation::Off,
        https_redirect: HttpsRedirect { ssl: Some(false), force: Some(false) },
        ..Policies::default()
    };
    let policies = policies(view, unchanged.clone());
    let has_pages = !view.config_map_settings().global.custom_http_errors.is_empty();
    if policies == unchanged && !has_pages {
        return None;
    }
    let path: Arc<str> = "/".into();
    let name = view.options.configmap.clone().unwrap_or_else(|| NamespacedName::new("", ""));
    let origin = Origin {
        object: ObjectRef { kind: "ConfigMap".into(), name },
        rule: 0,
        match_index: 0,
        rule_name: None,
        path: path.clone(),
    };
    Some(Rule {
        matches: Match::path(PathMatch::Prefix(path)),
        action: Action::Forward(vec![WeightedBackend { weight: 1, backend: Backend::Default }]),
        policies: Arc::new(policies),
        origin: Arc::new(origin),
    })
}

fn policies(view: &View<'_>, mut policies: Policies) -> Policies {
    let config_map = view.config_map_settings();
    if let Some(reason) = &config_map.unmatched_closed {
        policies.deny = Some(Deny { status: 503, reason: reason.clone() });
        return policies;
    }
    let snippets = &config_map.snippets;
    if snippets.server.is_some() || snippets.location.is_some() {
        let [server, location] =
            [&snippets.server, &snippets.location].map(|block| block.as_deref().cloned().unwrap_or_default());
        snippet::apply(&server, &location, TemplateDirectives::default(), &mut policies);
    }
    let directives = firewall::compose(&snippets.firewall, &FirewallSettings::default());
    if let (Some(directives), Some(source)) = (directives, firewall::global_source(view)) {
        firewall::apply(view, directives, &source, None, &mut policies);
    }
    policies
}
