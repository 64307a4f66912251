//! Rules of a host for requests that no path matches: default backends, `app-root` and redirects
//! to the name with or without `www.`.

use std::sync::Arc;

use sluice_config::{
    Action, Backend, Code, HostPattern, Match, PathMatch, Policies, Redirect, RedirectPath, Rule,
};

use super::{Builder, copies, object_ref, origin, paths, policies};
use crate::problem::error;
use crate::translate::routes::ObjectRoutes;
use crate::translate::routes::backend::{BackendReference, UNSERVED};

impl Builder<'_, '_> {
    /// `app-root` of the first path in order whose object has one, for the whole host, as in
    /// ingress-nginx.
    pub(super) fn app_root(claimants: &[&Arc<ObjectRoutes>], rules: &[Rule]) -> Option<Rule> {
        if claimants.iter().all(|routes| routes.app_root().is_none()) {
            return None;
        }
        let (routes, path) = rules.iter().find_map(|rule| {
            let routes = claimants.iter().find(|routes| routes.is_origin_of(&rule.origin))?;
            Some((routes, routes.app_root()?))
        })?;
        let redirect = Redirect {
            status: 302,
            scheme: None,
            host: None,
            port: None,
            path: RedirectPath::ReplaceAll(path.clone()),
        };
        let root: Arc<str> = "/".into();
        Some(Rule {
            matches: Match::path(PathMatch::Exact(root.clone())),
            action: Action::Redirect(redirect),
            // The redirect reveals nothing, so no policy protects it; ingress-nginx redirects
            // before all checks too.
            policies: Arc::default(),
            origin: origin(routes, 0, 0, root),
        })
    }

    /// Returns the rule for requests that no path matches: the default backend of the oldest object
    /// with one, or else that of the gateway. `None` if a path matches all requests.
    pub(super) fn rest(
        &mut self,
        pattern: &HostPattern,
        claimants: &[&Arc<ObjectRoutes>],
        rules: &[Rule],
    ) -> Option<Rule> {
        if rules.iter().any(paths::takes_everything) {
            return None;
        }
        let mut found: Option<(Rule, &ObjectRoutes)> = None;
        for routes in claimants {
            let Some(backend) = routes.default_backend.as_deref() else { continue };
            let has_copy = |other: &&Arc<ObjectRoutes>| copies::takes_over(other, routes);
            if claimants.iter().any(|other| has_copy(other) && other.default_backend.is_some()) {
                continue;
            }
            let object = object_ref(routes);
            if let Some((_, winner)) = &found {
                if winner.default_backend != routes.default_backend
                    || winner.namespace() != routes.namespace()
                {
                    let message =
                        format!("the default backend of host {pattern} is already that of {}", winner.object);
                    let remedy = "remove one of the two";
                    self.problems.push(error(
                        Code::DefaultBackendConflict,
                        &object,
                        "spec.defaultBackend",
                        message,
                        remedy,
                    ));
                }
                continue;
            }
            let reference = BackendReference {
                object: &object,
                field: &|| "spec.defaultBackend".to_owned(),
                backend,
                protocol: routes.settings.protocol,
                usage: routes.usage(),
                by_address: self.goes_by_address(routes),
                otherwise: UNSERVED,
            };
            let backend = reference.resolve(self.view, &mut self.uses, &mut self.problems);
            let policies = match routes.is_catch_all() {
                true => routes.catch_all_policies(),
                false => policies::of_rest(routes, pattern),
            };
            let action = policies::rest_action(pattern, routes, backend);
            let policies = self.guarded(routes, policies, &action);
            found = Some((rest_rule(action, policies, routes), routes));
        }
        if let Some((rule, _)) = found {
            return Some(rule);
        }
        // No object claims these requests, so they are refused only with the whole host. A host
        // without claimants is not computed.
        let first = claimants.iter().find(|routes| routes.closed().is_none()).or(claimants.first())?;
        let policies = match pattern {
            HostPattern::Any => first.catch_all_policies(),
            _ => policies::of_rest(first, pattern),
        };
        let action = policies::rest_action(pattern, first, Backend::Default);
        let policies = self.guarded(first, policies, &action);
        Some(rest_rule(action, policies, first))
    }
}

/// Returns the redirect to the host that differs by `www.`.
pub(super) fn to_sibling(pattern: &HostPattern, routes: &ObjectRoutes) -> Option<Rule> {
    let host = routes.host_of_sibling(pattern)?;
    Some(rest_rule(Action::RedirectToHost(host.clone()), Arc::default(), routes))
}

fn rest_rule(action: Action, policies: Arc<Policies>, routes: &ObjectRoutes) -> Rule {
    let path: Arc<str> = "/".into();
    let origin = origin(routes, 0, 0, path.clone());
    let matches = Match::path(PathMatch::Prefix(path));
    Rule { matches, action, policies, origin }
}
