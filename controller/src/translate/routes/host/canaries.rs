//! Assigns canaries to the rules of other objects.

use std::sync::Arc;

use sluice_config::{Action, Backend, Balance, Canary, Code, HostPattern, PathMatch, Rule};

use super::{Builder, forward, object_ref, paths};
use crate::problem::{error, warning};
use crate::store::{BackendRef, PathType};
use crate::translate::backend::{BackendReference, BackendUsage, Uses};
use crate::translate::routes::{ObjectRoutes, path_field};

/// A path of a canary, or its default backend.
struct CanaryPath<'f> {
    /// The path that the main object must have, too; `None` for a default backend.
    path: Option<(&'f str, PathType)>,
    backend: &'f BackendRef,
    field: String,
}

impl Builder<'_, '_> {
    /// Adds canaries to the rules of a host, the oldest first. A faulty canary leaves its rule
    /// unchanged.
    pub(super) fn canaries(
        &mut self,
        pattern: &HostPattern,
        canaries: &[&Arc<ObjectRoutes>],
        claimants: &[&Arc<ObjectRoutes>],
        rules: &mut [Rule],
    ) {
        for canary in canaries {
            for part in parts(canary, pattern) {
                self.canary(pattern, canary, &part, claimants, rules);
            }
        }
    }

    fn canary(
        &mut self,
        pattern: &HostPattern,
        canary: &ObjectRoutes,
        part: &CanaryPath<'_>,
        claimants: &[&Arc<ObjectRoutes>],
        rules: &mut [Rule],
    ) {
        let object = object_ref(canary);
        let what = part.path.map_or("a default backend".to_owned(), |(path, _)| format!("{path:?}"));
        let mut mains = rules.iter_mut().filter_map(|rule| {
            let routes = claimants.iter().find(|routes| routes.is_origin_of(&rule.origin))?;
            fits(rule, routes, part).then_some((rule, routes))
        });
        let Some((rule, main)) = mains.next() else {
            let message = format!(
                "no main Ingress has {what} of host {pattern} with the same pathType (all but Exact are alike), so \
                 that the canary takes no requests there"
            );
            let remedy = "create the main Ingress, or give the canary its host, path and pathType";
            self.problems.push(error(Code::CanaryWithoutMain, &object, part.field.as_str(), message, remedy));
            return;
        };
        if rule.policies.deny.is_some() {
            return;
        }
        let Action::Forward(backends) = &rule.action else { return };
        let own = match backends.first().map(|backend| &backend.backend) {
            // Without the Service, the rule's own default backend may serve, and canaries with it.
            Some(Backend::Pool { service, .. } | Backend::Invalid { service: Some(service), .. }) => service,
            // The rule itself reports its problem.
            _ => return,
        };
        let settings = canary.settings.canary.as_ref();
        let legacy = settings.is_some_and(|settings| settings.legacy);
        // As in ingress-nginx, a session comes before a hash key.
        let is_sticky = main.policies.affinity.is_some() && !legacy;
        let (balance, hash_by) = match is_sticky {
            true => (Balance::Ring, None),
            false => (canary.settings.usage.balance, canary.policies.hash_by.clone()),
        };
        let reference = BackendReference {
            object: &object,
            field: &|| format!("{}.backend", part.field).replace("defaultBackend.backend", "defaultBackend"),
            backend: part.backend,
            protocol: main.settings.protocol,
            usage: BackendUsage { balance, ..main.settings.usage.clone() },
            by_address: self.goes_by_address(canary),
            otherwise: "its requests go to the main Ingress",
        };
        let Some(settings) = settings else {
            // A rejected canary has been reported. Its other problems are reported, too.
            reference.resolve(self.view, &mut Uses::default(), &mut self.problems);
            return;
        };
        let (pool, service) = match reference.resolve(self.view, &mut self.uses, &mut self.problems) {
            Backend::Pool { pool, service } => (pool, service),
            // It has reported its problem. The metric of orphans includes it.
            Backend::Invalid { service: Some(_), .. } => {
                Arc::make_mut(&mut rule.policies).canaries_without_service.push(object);
                return;
            }
            Backend::Default | Backend::Invalid { service: None, .. } => return,
        };
        if service == *own {
            let message = format!(
                "Service {service} is already that of the main {}; this canary takes no requests there",
                main.object
            );
            let remedy = "give it another path, or another Service, or remove it";
            self.problems.push(warning(Code::CanaryConflict, &object, part.field.as_str(), message, remedy));
            return;
        }
        let canary = Canary {
            object: object.clone(),
            pool,
            service,
            header: settings.header(),
            cookie: settings.cookie.clone(),
            weight: settings.weight,
            total: settings.total(),
            hash_by,
            sticky: !settings.legacy,
        };
        let others = &rule.policies.canaries;
        if canary.weight > 0 && !others.is_empty() && more_than_all(others.iter().chain([&canary])) {
            let message = format!(
                "the weights of the canaries of {what} of host {pattern} are more than the whole; this one gets what \
                 older ones leave"
            );
            let remedy = "lower canary-weight of one of them";
            self.problems.push(warning(Code::CanaryConflict, &object, part.field.as_str(), message, remedy));
        }
        // A path that is rewritten below itself only has two rules.
        let others = mains.map(|(other, _)| other).filter(|other| Arc::ptr_eq(&other.origin, &rule.origin));
        for rule in others {
            Arc::make_mut(&mut rule.policies).canaries.push(canary.clone());
        }
        Arc::make_mut(&mut rule.policies).canaries.push(canary);
    }
}

/// Returns whether the shares exceed the whole.
fn more_than_all<'c>(canaries: impl Iterator<Item = &'c Canary>) -> bool {
    let shares = canaries.map(|canary| f64::from(canary.weight.min(canary.total)) / f64::from(canary.total));
    // Sums of fractions such as thirds have rounding errors.
    shares.sum::<f64>() > 1.0 + 1e-9
}

/// Returns the paths of a canary on a host.
fn parts<'f>(canary: &'f ObjectRoutes, pattern: &HostPattern) -> Vec<CanaryPath<'f>> {
    let mut parts = Vec::new();
    for rule in canary.rules_of(pattern) {
        let paths = rule.paths.as_deref().unwrap_or_default();
        parts.extend((0u32..).zip(paths).map(|(index, path)| CanaryPath {
            path: Some((&*path.path, path.path_type)),
            backend: &path.backend,
            field: path_field(rule.index, index),
        }));
    }
    if let (HostPattern::Any, Some(backend)) = (pattern, canary.default_backend.as_deref()) {
        parts.push(CanaryPath { path: None, backend, field: "spec.defaultBackend".to_owned() });
    }
    parts
}

/// Returns whether a rule corresponds to a canary's path: the same path as written with the same
/// kind of match, or the default backend of an object without rules. As in ingress-nginx, an absent
/// `pathType` and `ImplementationSpecific` are the same as `Prefix`.
fn fits(rule: &Rule, main: &ObjectRoutes, part: &CanaryPath<'_>) -> bool {
    if !matches!(rule.action, Action::Forward(_)) {
        return false;
    }
    let Some((path, path_type)) = part.path else {
        return main.is_catch_all()
            && matches!(&rule.matches.path, PathMatch::Prefix(path) if **path == *"/");
    };
    // The rule for the rest of a host refers to no path, so its text is compared.
    let is_exact = |path_type| path_type == PathType::Exact;
    let is_of_path = main.path_of(&rule.origin).is_some_and(|of| {
        *of.path == *path && is_exact(of.path_type) == is_exact(path_type) && is_of(rule, &of.path)
    });
    // As in ingress-nginx, the rest of a host is its Prefix path `/`.
    let is_rest = || paths::takes_everything(rule) && rule.action != forward(Backend::Default);
    is_of_path || path == "/" && !is_exact(path_type) && is_rest()
}

/// Returns whether a rule was made from this path and not for the rest of the host.
fn is_of(rule: &Rule, path: &str) -> bool {
    let of_rest = matches!(&rule.matches.path, PathMatch::Prefix(text) if **text == *"/");
    path == "/" || !of_rest
}
