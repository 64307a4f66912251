//! Rules of a host for requests that no path matches: default backends, and redirects to
//! the name with or without `www.`.

use std::sync::Arc;

use sluice_config::{Action, Backend, Code, HostPattern, Match, PathMatch, Policies, Rule};

use super::redirect::{self, Redirects};
use super::{Builder, copies, forward, object_ref, origin, paths, policies};
use crate::problem::error;
use crate::translate::backend::{BackendReference, UNSERVED};
use crate::translate::routes::ObjectRoutes;
use crate::translate::unmatched::{self, ServerOwner};

impl Builder<'_, '_> {
    /// Returns the rule for requests that no path matches: the default backend of the object that
    /// decides it, or else that of the gateway. `None` if a path matches all requests.
    pub(super) fn rest(
        &mut self,
        pattern: &HostPattern,
        claimants: &[&Arc<ObjectRoutes>],
        rules: &[Rule],
    ) -> Option<Rule> {
        if rules.iter().any(paths::takes_everything) {
            return None;
        }
        let decider = decider(pattern, claimants);
        if let Some(decider) = decider {
            self.unused_default_backends(pattern, decider, claimants);
        }
        let own = decider.filter(|routes| routes.default_backend.is_some());
        if own.is_none() && *pattern == HostPattern::Any {
            return Some(self.unmatched(claimants));
        }
        // Without one, no object claims these requests, so they are refused only with the whole
        // host. A host without claimants is not computed.
        let open = claimants.iter().find(|routes| routes.closed().is_none());
        let routes = *own.or(open).or(claimants.first())?;
        let policies = match own {
            Some(own) if own.is_catch_all() => own.catch_all_policies(),
            _ => policies::of_rest(routes, pattern),
        };
        let backend = own.map_or(Backend::Default, |own| self.default_backend(own));
        // The catch-all redirects no client, as in ingress-nginx.
        let Redirects { action, instruction } = match pattern {
            HostPattern::Any => Redirects::default(),
            _ => self.redirects(routes),
        };
        let action = action.unwrap_or_else(|| forward(backend));
        let policies = self.guarded(routes, policies, &action);
        let policies = redirect::ended_by(policies, instruction.as_ref());
        Some(rest_rule(action, policies, routes))
    }

    /// Returns the rule for requests beside the paths of rules without a host, which are no
    /// requests of these objects. As in ingress-nginx, the oldest server snippet applies to them
    /// too; while it is closed, so are they.
    fn unmatched(&self, claimants: &[&Arc<ObjectRoutes>]) -> Rule {
        let has_snippet = |routes: &ObjectRoutes| {
            routes.settings.snippets.server.is_some() || routes.settings.closes_hosts.is_some()
        };
        let owner = claimants.iter().find(|routes| has_snippet(routes)).map(|routes| ServerOwner {
            object: object_ref(routes),
            closed: routes.closed(),
            snippet: self.server_snippet(routes.namespace()),
        });
        unmatched::rule_of_catch_all(self.view, owner)
    }

    fn default_backend(&mut self, routes: &ObjectRoutes) -> Backend {
        let Some(backend) = routes.default_backend.as_deref() else { return Backend::Default };
        let reference = BackendReference {
            object: &object_ref(routes),
            field: &|| "spec.defaultBackend".to_owned(),
            backend,
            protocol: routes.settings.protocol,
            usage: routes.usage(),
            by_address: self.goes_by_address(routes),
            otherwise: UNSERVED,
        };
        reference.resolve(self.view, &mut self.uses, &mut self.problems)
    }

    /// Reports default backends that have no effect on a host.
    fn unused_default_backends(
        &mut self,
        pattern: &HostPattern,
        decider: &ObjectRoutes,
        claimants: &[&Arc<ObjectRoutes>],
    ) {
        for routes in claimants.iter().filter(|routes| routes.object != decider.object) {
            let is_same = routes.default_backend == decider.default_backend
                && routes.namespace() == decider.namespace();
            if routes.default_backend.is_none() || is_same || is_copied(routes, claimants) {
                continue;
            }
            let (message, remedy) = match decider.default_backend {
                Some(_) => (
                    format!("the default backend of host {pattern} is already that of {}", decider.object),
                    "remove one of the two",
                ),
                None => (
                    format!(
                        "the default backend has no effect on host {pattern}: {} is older, decides it, and has none",
                        decider.object
                    ),
                    "add a path / to this object, or the default backend to the older one",
                ),
            };
            self.problems.push(error(
                Code::DefaultBackendConflict,
                &object_ref(routes),
                "spec.defaultBackend",
                message,
                remedy,
            ));
        }
    }
}

/// Returns the object that decides where requests go that no path matches: the oldest one, also if
/// it is closed or has no default backend, as in ingress-nginx. Of requests for other hosts it is
/// the oldest one with a default backend.
fn decider<'c, 'v>(
    pattern: &HostPattern,
    claimants: &'c [&'v Arc<ObjectRoutes>],
) -> Option<&'c &'v Arc<ObjectRoutes>> {
    let decides = |routes: &ObjectRoutes| routes.default_backend.is_some() || *pattern != HostPattern::Any;
    claimants.iter().find(|routes| decides(routes) && !is_copied(routes, claimants))
}

/// Returns whether a copy of the object has a default backend that is served instead.
fn is_copied(routes: &ObjectRoutes, claimants: &[&Arc<ObjectRoutes>]) -> bool {
    claimants.iter().any(|other| copies::takes_over(other, routes) && other.default_backend.is_some())
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
