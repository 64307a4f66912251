//! Compilation of the rules of a host into routes.

use std::sync::{Arc, OnceLock};

use http::StatusCode;
use sluice_config::{
    Action, Backend, GroupId, Host, HostKey, HostPattern, ListenerId, Rule, WeightedBackend,
};
use smallvec::SmallVec;

use super::backends::CanaryBackends;
use super::compiler::HostPolicies;
use super::{
    Backends, CompiledPolicies, Compiler, DEFAULT_BACKEND, Destination, HostNames, Route, RouteAction,
    RouteBackend, RouteError, Sticky, labels,
};
use crate::policy::canary::Canaries;
use crate::policy::{ClientCertificates, HashBy, PolicyError, RedirectTo};
use crate::router::CompiledHost;
use crate::telemetry::{TargetLabels, TargetMeters};

impl Compiler<'_> {
    /// Compiles all rules of a host.
    ///
    /// # Errors
    /// A match or policy is invalid, or a pool is missing.
    pub fn host(&self, host: &Host) -> Result<CompiledHost<Route>, RouteError> {
        let name: Arc<str> = host.key.pattern.to_string().into();
        let server_name = host.alias_of.as_ref().map_or_else(|| name.clone(), |of| of.to_string().into());
        let mut rules = Vec::with_capacity(host.rules.len());
        let shared = HostPolicies {
            key: host.key.clone(),
            names: Arc::new(HostNames { host: name, server_name }),
            has_https: host.has_https,
            client_certificates: self.client(host)?,
        };
        for rule in &host.rules {
            let compiler = self.with_meters_of(rule);
            rules.push((&rule.matches, Arc::new(compiler.rule(rule, &shared)?)));
        }
        Ok(CompiledHost::compile(rules, host.fall_through)?)
    }

    /// Compiles the rule of requests for unknown hosts without rules.
    ///
    /// # Errors
    /// A policy is invalid.
    pub(crate) fn unmatched(&self, rule: &Rule) -> Result<Route, RouteError> {
        let key =
            HostKey { group: GroupId::ingress(), listener: ListenerId::any(), pattern: HostPattern::Any };
        // nginx's name of the server for these requests.
        let name: Arc<str> = "_".into();
        let names = Arc::new(HostNames { host: name.clone(), server_name: name });
        let shared = HostPolicies { key, names, has_https: false, client_certificates: None };
        self.with_meters_of(rule).rule(rule, &shared)
    }

    /// Returns the compiler of a rule. Requests that no rule of an object matches have metrics by
    /// host or none.
    fn with_meters_of(&self, rule: &Rule) -> Self {
        Self { meters: self.meters.filter(|_| !rule.policies.is_for_unmatched), ..*self }
    }

    fn client(&self, host: &Host) -> Result<Option<Arc<ClientCertificates>>, RouteError> {
        let (Some(policy), Some(first)) = (&host.client_certificates, host.rules.first()) else {
            return Ok(None);
        };
        let compiled = ClientCertificates::compile(policy, self.resources);
        let failed = |error| RouteError::Policy { origin: first.origin.clone(), error };
        compiled.map(|policy| Some(Arc::new(policy))).map_err(failed)
    }

    fn rule(&self, rule: &Rule, shared: &HostPolicies) -> Result<Route, RouteError> {
        let host = &shared.names.host;
        let failed = |error| RouteError::Policy { origin: rule.origin.clone(), error };
        let policies = &rule.policies;
        let action = match &rule.action {
            Action::Forward(backends) => {
                let compiled = backends
                    .iter()
                    .map(|backend| {
                        self.backend(backend, rule, host).map(|compiled| (backend.weight, compiled))
                    })
                    .collect::<Result<SmallVec<_>, _>>()?;
                let canaries = self.canaries(rule, host, compiled.first())?.map(Box::new);
                RouteAction::Forward(Backends::new(compiled, canaries))
            }
            Action::Redirect(redirect) => {
                let redirect = RedirectTo::compile(redirect, &rule.matches.path).map_err(failed)?;
                RouteAction::Redirect(Box::new(redirect))
            }
            Action::RedirectToHost(host) => RouteAction::RedirectToHost(host.clone()),
            Action::Answer(code) => RouteAction::Answer(status(*code).map_err(failed)?),
        };
        let deny = policies.deny.as_ref().map(|deny| status(deny.status)).transpose().map_err(failed)?;
        let compiled = CompiledPolicies::compile(rule, self, shared).map_err(failed)?;
        Ok(Route {
            action,
            deny,
            policies: policies.clone(),
            compiled,
            host_has_https: shared.has_https,
            is_for_unmatched: policies.is_for_unmatched,
            // A previous version of this rule may have created them.
            meters: self.known_meters(rule, host).map(OnceLock::from).unwrap_or_default(),
            names: shared.names.clone(),
            origin: rule.origin.clone(),
        })
    }

    fn backend(
        &self,
        backend: &WeightedBackend,
        rule: &Rule,
        host: &Arc<str>,
    ) -> Result<RouteBackend, RouteError> {
        let origin = || rule.origin.clone();
        let failed = |error| RouteError::Policy { origin: origin(), error };
        let (to, service) = match &backend.backend {
            Backend::Pool { pool: key, service } => {
                let missing = || RouteError::Pool { origin: origin(), pool: key.to_string() };
                (Destination::Pool(self.registry.pool(key).ok_or_else(missing)?), Some(service))
            }
            Backend::Default => (Destination::Default, None),
            Backend::Invalid { status: code, service, reason: _ } => {
                (Destination::Invalid(status(*code).map_err(failed)?), service.as_ref())
            }
        };
        let name = service.map(ToString::to_string).unwrap_or_default();
        let pool = match &to {
            Destination::Pool(pool) => Some(&**pool),
            Destination::Default | Destination::Invalid(_) => None,
        };
        Ok(RouteBackend {
            sticky: rule.policies.affinity.is_some().then(|| Sticky::new(pool, &name)),
            name: match &to {
                Destination::Default => DEFAULT_BACKEND.into(),
                Destination::Pool(_) | Destination::Invalid(_) => crate::variable::log_name(&name).into(),
            },
            to,
            alternative: "".into(),
            service: service.cloned(),
            meters: self.meters.map(|meters| meters.target(labels(&rule.origin, host, service))),
            tls: self.tls(rule, service).map_err(failed)?,
            hash_by: hash_by(rule.policies.hash_by.as_deref()).map_err(failed)?,
        })
    }

    fn canaries(
        &self,
        rule: &Rule,
        host: &Arc<str>,
        main: Option<&(u32, RouteBackend)>,
    ) -> Result<Option<CanaryBackends>, RouteError> {
        let all = &rule.policies.canaries;
        if all.is_empty() {
            return Ok(None);
        }
        let failed = |error| RouteError::Policy { origin: rule.origin.clone(), error };
        let backends = all.iter().map(|canary| self.canary(canary, rule, host, main));
        let backends = backends.collect::<Result<_, _>>()?;
        Ok(Some(CanaryBackends { choice: Canaries::compile(all).map_err(failed)?, backends }))
    }

    /// Compiles a canary. As in ingress-nginx, log and metrics name the rule's own backend, and the
    /// canary in addition.
    fn canary(
        &self,
        canary: &sluice_config::Canary,
        rule: &Rule,
        host: &Arc<str>,
        main: Option<&(u32, RouteBackend)>,
    ) -> Result<RouteBackend, RouteError> {
        let failed = |error| RouteError::Policy { origin: rule.origin.clone(), error };
        let missing = || RouteError::Pool { origin: rule.origin.clone(), pool: canary.pool.to_string() };
        let pool = self.registry.pool(&canary.pool).ok_or_else(missing)?;
        let name = canary.service.to_string();
        let main = main.map(|(_, main)| main);
        let main_service = main.and_then(|main| main.service.as_ref());
        let sticky = canary.sticky && rule.policies.affinity.is_some();
        let labels =
            || TargetLabels { canary: name.as_str().into(), ..labels(&rule.origin, host, main_service) };
        Ok(RouteBackend {
            sticky: sticky.then(|| Sticky::new(Some(&pool), &name)),
            to: Destination::Pool(pool),
            name: main.map_or("".into(), |main| main.name.clone()),
            alternative: crate::variable::log_name(&name).into(),
            service: Some(canary.service.clone()),
            meters: self.meters.map(|meters| meters.target(labels())),
            tls: self.tls(rule, Some(&canary.service)).map_err(failed)?,
            hash_by: hash_by(canary.hash_by.as_deref()).map_err(failed)?,
        })
    }

    fn known_meters(&self, rule: &Rule, host: &Arc<str>) -> Option<Arc<TargetMeters>> {
        self.meters?.known_target(labels(&rule.origin, host, None))
    }
}

/// Compiles the hash key of a backend.
fn hash_by(policy: Option<&sluice_config::HashBy>) -> Result<Option<Arc<HashBy>>, PolicyError> {
    policy.map(|policy| HashBy::compile(policy).map(Arc::new)).transpose()
}

/// Validates a status for a response without a backend.
fn status(code: u16) -> Result<StatusCode, PolicyError> {
    match code {
        200..=599 => StatusCode::from_u16(code).map_err(|_| PolicyError::Status(code)),
        _ => Err(PolicyError::Status(code)),
    }
}
