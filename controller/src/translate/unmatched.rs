//! The rule of requests that no rule of a host matches, such as those for hosts that no Ingress
//! names. It has what keys of the ConfigMap apply to all servers of ingress-nginx, of which one,
//! named `_`, takes these requests. Lists of addresses, authentication and redirects to https
//! apply only to locations of Ingresses.

use std::sync::Arc;

use sluice_config::{
    Action, Authorisation, Backend, Deny, HttpsRedirect, Match, NamespacedName, ObjectRef, Origin, PathMatch,
    Policies, Rule, WeightedBackend,
};

use super::view::View;

/// Returns the rule; `None` if nothing applies to such requests.
pub(crate) fn rule(view: &View<'_>) -> Option<Rule> {
    let config_map = view.config_map_settings();
    let policies = Policies {
        deny: Some(Deny { status: 503, reason: config_map.unmatched_closed.clone()? }),
        authorisation: Authorisation::Off,
        https_redirect: HttpsRedirect { ssl: Some(false), force: Some(false) },
        ..Policies::default()
    };
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
