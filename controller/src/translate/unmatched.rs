//! The rule of requests that no rule of a host matches, such as those for hosts that no Ingress
//! names. It has what keys of the ConfigMap apply to all servers of ingress-nginx, of which one,
//! named `_`, takes these requests: global snippets, the firewall and error pages. Lists of
//! addresses, authentication and redirects to https apply only to locations of Ingresses.
//!
//! Ingresses with rules without a host have their paths on that server. Of their annotations, its
//! other requests have only those for a whole server.

use std::sync::Arc;

use sluice_config::{
    Action, Authorisation, Backend, Deny, HttpsRedirect, Match, NamespacedName, ObjectRef, Origin, PathMatch,
    Policies, Rule, WeightedBackend,
};

use super::firewall::{self, FirewallSettings};
use super::snippet::{self, Block, TemplateDirectives};
use super::view::View;

/// The object whose annotations for a whole server apply.
pub(crate) struct ServerOwner<'o> {
    pub(crate) object: ObjectRef,
    /// Why its routes are closed, if they are.
    pub(crate) closed: Option<&'o Deny>,
    /// The server snippets of its namespace.
    pub(crate) snippet: Option<&'o Block>,
}

/// Returns the rule of hosts that no Ingress names; `None` if nothing applies to such requests.
pub(crate) fn rule(view: &View<'_>) -> Option<Rule> {
    let policies = policies(view, None);
    let has_pages = !view.config_map_settings().global.custom_http_errors.is_empty();
    (policies != unchanged() || has_pages).then(|| rule_with(view, policies, None))
}

/// Returns the rule beside rules without a host.
pub(crate) fn rule_of_catch_all(view: &View<'_>, owner: Option<ServerOwner<'_>>) -> Rule {
    let policies = policies(view, owner.as_ref());
    rule_with(view, policies, owner.map(|owner| owner.object))
}

fn unchanged() -> Policies {
    Policies {
        is_for_unmatched: true,
        authorisation: Authorisation::Off,
        https_redirect: HttpsRedirect { ssl: Some(false), force: Some(false) },
        ..Policies::default()
    }
}

fn rule_with(view: &View<'_>, policies: Policies, object: Option<ObjectRef>) -> Rule {
    let path: Arc<str> = "/".into();
    let config_map = || {
        let name = view.options.configmap.clone().unwrap_or_else(|| NamespacedName::new("", ""));
        ObjectRef { kind: "ConfigMap".into(), name }
    };
    let origin = Origin {
        object: object.unwrap_or_else(config_map),
        rule: 0,
        match_index: 0,
        rule_name: None,
        path: path.clone(),
    };
    Rule {
        matches: Match::path(PathMatch::Prefix(path)),
        action: Action::Forward(vec![WeightedBackend { weight: 1, backend: Backend::Default }]),
        policies: Arc::new(policies),
        origin: Arc::new(origin),
    }
}

fn policies(view: &View<'_>, owner: Option<&ServerOwner<'_>>) -> Policies {
    let mut policies = unchanged();
    let of_owner = owner.and_then(|owner| owner.closed.cloned());
    let of_keys = view.unmatched_closed().map(|reason| Deny { status: 503, reason: reason.clone() });
    policies.deny = of_owner.or(of_keys);
    if policies.deny.is_some() {
        return policies;
    }
    let snippets = view.snippets();
    let mut server = owner.and_then(|owner| owner.snippet).cloned().unwrap_or_default();
    if let Some(global) = &snippets.server {
        server.extend(global);
    }
    let location = snippets.location.as_deref().cloned().unwrap_or_default();
    snippet::apply(&server, &location, TemplateDirectives::default(), &mut policies);
    let directives = firewall::compose(&snippets.firewall, &FirewallSettings::default());
    if let (Some(directives), Some(source)) = (directives, firewall::global_source(view)) {
        firewall::apply(view, directives, &source, None, &mut policies);
    }
    policies
}
