//! TLS passthrough: which Service receives the connections of a host.
//!
//! As in ingress-nginx it is the Service of path `/`, and every path of the host is affected.
//! Unlike there, an Ingress in another namespace than that Service cannot request it.

use std::sync::Arc;

use sluice_config::{Action, Backend, Balance, Code, HostPattern, PathMatch, Rule, Stream, UpstreamProtocol};

use super::{Builder, ObjectRoutes, object_ref};
use crate::problem::warning;
use crate::translate::backend::{self, BackendUsage};

impl Builder<'_, '_> {
    /// Returns the target of the host's TLS connections if one of its Ingresses has them passed
    /// through and path `/` is open.
    pub(super) fn passthrough(
        &mut self,
        pattern: &HostPattern,
        claimants: &[&Arc<ObjectRoutes>],
        rules: &[Rule],
    ) -> Option<Arc<Stream>> {
        let owners =
            claimants.iter().filter(|routes| routes.settings.passthrough && routes.closed().is_none());
        let mut found = None;
        for owner in owners {
            match root(rules, owner) {
                Ok((pool, service)) => {
                    let usage = BackendUsage { balance: Balance::RoundRobin, ..BackendUsage::default() };
                    let pool = backend::pool(pool.endpoints.clone(), UpstreamProtocol::Tcp, &usage);
                    let stream = Stream {
                        pool: self.uses.pool(pool),
                        service: service.clone(),
                        accepts_proxy: false,
                        sends_proxy: false,
                    };
                    found = found.or(Some(Arc::new(stream)));
                }
                Err(reason) => {
                    let object = object_ref(owner);
                    let field = self.view.setting_field(&object, "ssl-passthrough");
                    self.add(warning(
                        Code::AnnotationWithoutEffect,
                        &object,
                        field,
                        format!("has no effect on host {pattern}: {reason}; TLS is terminated"),
                        "give path / of the host a Service, or remove the annotation",
                    ));
                }
            }
        }
        found
    }
}

/// Returns the Service of path `/`, if the owner may use it.
fn root<'r>(
    rules: &'r [Rule],
    owner: &ObjectRoutes,
) -> Result<(&'r sluice_config::PoolKey, &'r sluice_config::ServiceRef), &'static str> {
    let is_root = |rule: &&Rule| match &rule.matches.path {
        PathMatch::Prefix(path) | PathMatch::Exact(path) | PathMatch::Regex(path) => &**path == "/",
        PathMatch::Extended(_) => false,
    };
    // The redirect of an `app-root` has the same path.
    let forwards = |rule: &&Rule| matches!(rule.action, Action::Forward(_));
    let rule = rules.iter().filter(is_root).find(forwards).ok_or("it has no path / with a Service")?;
    if rule.policies.deny.is_some() {
        return Err("its path / is closed");
    }
    if rule.origin.object.name.namespace != *owner.namespace() {
        return Err("its path / belongs to an Ingress of another namespace");
    }
    let Action::Forward(backends) = &rule.action else { return Err("its path / is redirected") };
    match backends.first().map(|weighted| &weighted.backend) {
        Some(Backend::Pool { pool, service }) => Ok((pool, service)),
        _ => Err("its path / has no usable Service"),
    }
}
