//! A rule, compiled: pool handles in place of keys, header values in place of texts, metric labels resolved.
//!
//! Compiling may fail, and then the whole host is refused and closed: a policy or filter that cannot be carried out
//! must never be skipped. After it nothing on the request path parses,
//! formats or looks anything up by name.

mod compiled;
pub mod error_pages;

use std::sync::{Arc, OnceLock};

use http::StatusCode;
use sluice_config::{
    Action, Backend, Code, Host, HostName, Origin, Policies, Rule, ServiceRef, WeightedBackend,
};

pub use compiled::CompiledPolicies;
pub use error_pages::ErrorPages;

use crate::message::fields::Fields;
use crate::policy::affinity::{self, Digits};
use crate::policy::canary::Canaries;
use crate::policy::limits::Limiter;
use crate::policy::resources::Resources;
use crate::policy::{Affinity, BasicAuth, DigestAuth, HeaderEdits, PolicyError, RedirectTo};
use crate::registry::{Pool, Registry, Sessions};
use crate::router::{CompiledHost, RouterError};
use crate::telemetry::{RequestMeters, TargetLabels, TargetMeters};
use crate::upstream::tls::EndpointTls;

/// What is done with the requests of one rule.
#[derive(Debug)]
pub struct Route {
    /// What happens.
    pub action: RouteAction,
    /// The rule is closed, with this status.
    pub deny: Option<StatusCode>,
    /// Settings that meet the global ones when a request comes.
    pub policies: Arc<Policies>,
    /// What else is asked for; `None` for a plain rule, which pays for none of it but this look.
    pub compiled: Option<Box<CompiledPolicies>>,
    /// Whether some object asks for TLS on the host.
    pub host_has_tls: bool,
    /// Meters of answers that no backend has a part in, once there has been one: most rules never have any.
    meters: OnceLock<Arc<TargetMeters>>,
    /// The host as the Ingress has it.
    host: Arc<str>,
    /// Where the rule came from.
    pub origin: Arc<Origin>,
}

/// What happens to a request.
#[derive(Debug)]
pub enum RouteAction {
    /// It goes to one of these.
    Forward(Backends),
    /// It is redirected.
    Redirect(RedirectTo),
    /// It is redirected to the same target on this host.
    RedirectToHost(HostName),
    /// It is answered with this status.
    Answer(StatusCode),
}

/// Backends with their shares.
#[derive(Debug)]
pub struct Backends {
    targets: Box<[(u32, Target)]>,
    total: u64,
    canaries: Option<Box<CanaryBackends>>,
}

/// Backends that take some requests in place of the others.
#[derive(Debug)]
pub struct CanaryBackends {
    choice: Canaries,
    targets: Box<[Target]>,
}

/// One backend.
pub struct Target {
    /// Where to.
    pub to: Destination,
    /// `namespace-service-port`: `$proxy_upstream_name` in the access log; empty where there is no Service.
    pub name: Box<str>,
    /// `$proxy_alternative_upstream_name`: the canary, where this is one.
    pub alternative: Box<str>,
    /// The Service, where there is one.
    pub service: Option<ServiceRef>,
    /// Header changes of this backend alone.
    pub edits: Option<Box<HeaderEdits>>,
    /// Meters of its requests.
    pub meters: Option<Arc<TargetMeters>>,
    /// The half of a session cookie that names this backend.
    pub digits: Digits,
    /// The sessions of mode persistent.
    pub sessions: Option<Sessions>,
    /// Whether the rule's sessions hold here.
    pub is_sticky: bool,
    /// TLS as the rule wants it.
    pub tls: Option<Arc<EndpointTls>>,
}

/// Where a request goes.
#[derive(Debug)]
pub enum Destination {
    /// To an endpoint of this pool.
    Pool(Arc<Pool>),
    /// To the program's default backend.
    Default,
    /// Nowhere: it gets this status.
    Invalid(StatusCode),
}

/// Why a host cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// A match cannot.
    #[error(transparent)]
    Match(#[from] RouterError),
    /// A policy cannot.
    #[error("{}: {error}", origin.object)]
    Policy {
        /// The rule.
        origin: Arc<Origin>,
        /// Why.
        error: PolicyError,
    },
    /// The contract is broken: a backend names a pool that was never sent.
    #[error("{}: pool {pool} is not known; this is a defect of Sluice, please report it", origin.object)]
    Pool {
        /// The rule.
        origin: Arc<Origin>,
        /// The pool.
        pool: String,
    },
}

impl RouteError {
    /// The same for programs.
    pub fn code(&self) -> Code {
        match self {
            Self::Match(_) => Code::MatchRefused,
            Self::Policy { .. } => Code::PolicyRefused,
            Self::Pool { .. } => Code::HostRefused,
        }
    }

    /// The rule that it is about, where that is known.
    pub fn origin(&self) -> Option<&Origin> {
        match self {
            Self::Match(_) => None,
            Self::Policy { origin, .. } | Self::Pool { origin, .. } => Some(origin),
        }
    }
}

/// What a host is compiled with.
#[derive(Clone, Copy)]
pub struct Compiler<'a> {
    /// Where pool handles come from.
    pub registry: &'a Registry,
    /// Where resources come from.
    pub resources: &'a Resources,
    /// Where limits find what clients have used.
    pub limiter: &'a Limiter,
    /// Where meters come from; `None` keeps no request metrics.
    pub meters: Option<&'a Arc<RequestMeters>>,
}

impl Compiler<'_> {
    /// Compiles all rules of a host.
    pub fn host(&self, host: &Host) -> Result<CompiledHost<Route>, RouteError> {
        let label = host.key.pattern.to_string().into();
        let mut rules = Vec::with_capacity(host.rules.len());
        for rule in &host.rules {
            rules.push((&rule.matches, Arc::new(self.rule(rule, &label, host.tls.is_some())?)));
        }
        Ok(CompiledHost::compile(rules, host.fall_through, ())?)
    }

    fn rule(&self, rule: &Rule, host: &Arc<str>, host_has_tls: bool) -> Result<Route, RouteError> {
        let failed = |error| RouteError::Policy { origin: rule.origin.clone(), error };
        let policies = &rule.policies;
        let action = match &rule.action {
            Action::Forward(backends) => {
                let mut targets = Vec::with_capacity(backends.len());
                for backend in backends {
                    targets.push((backend.weight, self.target(backend, rule, host)?));
                }
                let canaries = self.canaries(rule, host, targets.first())?.map(Box::new);
                RouteAction::Forward(Backends { canaries, ..Backends::new(targets) })
            }
            Action::Redirect(redirect) => {
                RouteAction::Redirect(RedirectTo::compile(redirect).map_err(failed)?)
            }
            Action::RedirectToHost(host) => RouteAction::RedirectToHost(host.clone()),
            Action::Answer(code) => RouteAction::Answer(status(*code).map_err(failed)?),
        };
        let deny = policies.deny.as_ref().map(|deny| status(deny.status)).transpose().map_err(failed)?;
        let compiled = CompiledPolicies::compile(rule, self).map_err(failed)?;
        Ok(Route {
            action,
            deny,
            policies: policies.clone(),
            compiled,
            host_has_tls,
            // A version of this rule before this one may have some.
            meters: self.known_meters(rule, host).map(OnceLock::from).unwrap_or_default(),
            host: host.clone(),
            origin: rule.origin.clone(),
        })
    }

    fn tls(
        &self,
        rule: &Rule,
        service: Option<&ServiceRef>,
    ) -> Result<Option<Arc<EndpointTls>>, PolicyError> {
        let Some(policy) = &rule.policies.upstream_tls else { return Ok(None) };
        if service.is_none() && policy.name.is_none() {
            // There is no endpoint either.
            return Ok(None);
        }
        EndpointTls::compile(policy, service, self.resources).map(|tls| Some(Arc::new(tls)))
    }

    fn target(&self, backend: &WeightedBackend, rule: &Rule, host: &Arc<str>) -> Result<Target, RouteError> {
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
        let sessions = match (&to, &rule.policies.affinity) {
            (Destination::Pool(pool), Some(_)) => Some(pool.sessions(&name)),
            _ => None,
        };
        Ok(Target {
            to,
            digits: affinity::backend_digits(&name),
            name: crate::telemetry::log_name(&name).into(),
            alternative: "".into(),
            service: service.cloned(),
            edits: edits(&backend.filters).map_err(failed)?.map(Box::new),
            meters: self.meters.map(|meters| meters.target(labels(&rule.origin, host, service))),
            sessions,
            is_sticky: true,
            tls: self.tls(rule, service).map_err(failed)?,
        })
    }

    fn canaries(
        &self,
        rule: &Rule,
        host: &Arc<str>,
        main: Option<&(u32, Target)>,
    ) -> Result<Option<CanaryBackends>, RouteError> {
        let all = &rule.policies.canaries;
        if all.is_empty() {
            return Ok(None);
        }
        let failed = |error| RouteError::Policy { origin: rule.origin.clone(), error };
        let targets = all.iter().map(|canary| self.canary(canary, rule, host, main));
        let targets = targets.collect::<Result<_, _>>()?;
        Ok(Some(CanaryBackends { choice: Canaries::compile(all).map_err(failed)?, targets }))
    }

    /// Log and metrics name the rule's own backend, and beside it the canary, as ingress-nginx does.
    fn canary(
        &self,
        canary: &sluice_config::Canary,
        rule: &Rule,
        host: &Arc<str>,
        main: Option<&(u32, Target)>,
    ) -> Result<Target, RouteError> {
        let failed = |error| RouteError::Policy { origin: rule.origin.clone(), error };
        let missing = || RouteError::Pool { origin: rule.origin.clone(), pool: canary.pool.to_string() };
        let pool = self.registry.pool(&canary.pool).ok_or_else(missing)?;
        let name = canary.service.to_string();
        let main = main.map(|(_, main)| main);
        let main_service = main.and_then(|main| main.service.as_ref());
        let sticky = canary.sticky && rule.policies.affinity.is_some();
        let labels =
            || TargetLabels { canary: name.as_str().into(), ..labels(&rule.origin, host, main_service) };
        Ok(Target {
            sessions: sticky.then(|| pool.sessions(&name)),
            to: Destination::Pool(pool),
            digits: affinity::backend_digits(&name),
            name: main.map_or("".into(), |main| main.name.clone()),
            alternative: crate::telemetry::log_name(&name).into(),
            service: Some(canary.service.clone()),
            edits: None,
            meters: self.meters.map(|meters| meters.target(labels())),
            is_sticky: sticky,
            tls: self.tls(rule, Some(&canary.service)).map_err(failed)?,
        })
    }

    fn known_meters(&self, rule: &Rule, host: &Arc<str>) -> Option<Arc<TargetMeters>> {
        self.meters?.known_target(labels(&rule.origin, host, None))
    }
}

fn labels(origin: &Origin, host: &Arc<str>, service: Option<&ServiceRef>) -> TargetLabels {
    TargetLabels {
        host: host.clone(),
        path: origin.path.clone(),
        namespace: origin.object.name.namespace.clone(),
        ingress: origin.object.name.name.clone(),
        service: service.map(|service| service.name.clone()).unwrap_or_default(),
        canary: Arc::default(),
    }
}

impl Route {
    /// Sticky sessions.
    pub fn affinity(&self) -> Option<&Affinity> {
        self.compiled.as_ref()?.affinity.as_ref()
    }

    /// The host as the Ingress has it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Who gets in by name and password.
    pub fn basic_auth(&self) -> Option<&BasicAuth> {
        self.compiled.as_ref()?.basic_auth.as_ref()
    }

    /// Who gets in by a digest of name and password.
    pub fn digest_auth(&self) -> Option<&DigestAuth> {
        self.compiled.as_ref()?.digest_auth.as_ref()
    }

    /// Header changes.
    pub fn edits(&self) -> Option<&HeaderEdits> {
        self.compiled.as_ref()?.edits.as_ref()
    }

    /// Meters of answers that no backend has a part in.
    pub fn meters(&self, meters: &Arc<RequestMeters>) -> &TargetMeters {
        self.meters.get_or_init(|| meters.target(labels(&self.origin, &self.host, None)))
    }
}

fn edits(filters: &[sluice_config::Filter]) -> Result<Option<HeaderEdits>, PolicyError> {
    match filters {
        [] => Ok(None),
        filters => Ok(Some(HeaderEdits::compile(filters)?)),
    }
}

/// A status that may stand alone in an answer.
fn status(code: u16) -> Result<StatusCode, PolicyError> {
    match code {
        200..=599 => StatusCode::from_u16(code).map_err(|_| PolicyError::Status(code)),
        _ => Err(PolicyError::Status(code)),
    }
}

impl Backends {
    fn new(targets: Vec<(u32, Target)>) -> Self {
        let total = targets.iter().map(|(weight, _)| u64::from(*weight)).sum();
        Self { targets: targets.into(), total, canaries: None }
    }

    /// The backend of a request: that of its session, which names it by `digits`, or a drawn one; or the canary in its
    /// place. `None` when there is none, or no weight.
    pub fn draw(&self, headers: &impl Fields, digits: Option<&[u8]>) -> Option<&Target> {
        let main = digits.and_then(|digits| self.of_session(digits)).or_else(|| self.draw_by_weight());
        self.canary(headers, digits, main).or(main)
    }

    /// Draws a backend, each with the chance of its weight over the sum.
    fn draw_by_weight(&self) -> Option<&Target> {
        if let [(weight, only)] = &*self.targets {
            return (*weight > 0).then_some(only);
        }
        if self.total == 0 {
            return None;
        }
        let mut left = fastrand::u64(..self.total);
        let drawn = self.targets.iter().find(|(weight, _)| match left.checked_sub(u64::from(*weight)) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        });
        drawn.map(|(_, target)| target)
    }

    /// The canary that takes a request which `main` would get otherwise: the backend of its session, which names its backend
    /// by `digits`, or a chosen one. Sessions that stick are asked first. A canary without endpoints takes nothing, nor does
    /// any where the rule has none itself.
    fn canary(&self, headers: &impl Fields, digits: Option<&[u8]>, main: Option<&Target>) -> Option<&Target> {
        let CanaryBackends { choice, targets } = self.canaries.as_deref()?;
        let has_endpoints =
            |target: &Target| matches!(&target.to, Destination::Pool(pool) if !pool.is_empty());
        if !main.is_some_and(has_endpoints) {
            return None;
        }
        let of_session = digits
            .and_then(|digits| targets.iter().find(|target| target.is_sticky && target.digits == digits));
        if let Some(target) = of_session.filter(|target| has_endpoints(target)) {
            return Some(target);
        }
        let of_main = digits.is_some_and(|digits| self.of_session(digits).is_some());
        let is_open = |place: usize| has_endpoints(&targets[place]) && !(of_main && targets[place].is_sticky);
        choice.choose(headers, is_open).map(|place| &targets[place])
    }

    /// The backend that stands first.
    pub fn first(&self) -> Option<&Target> {
        self.targets.first().map(|(_, target)| target)
    }

    /// The backend that a session began with, even if it takes no new ones.
    fn of_session(&self, digits: &[u8]) -> Option<&Target> {
        self.targets.iter().map(|(_, target)| target).find(|target| target.digits == digits)
    }
}

impl Target {
    /// Where its endpoints are.
    pub fn pool(&self) -> Option<&Arc<Pool>> {
        match &self.to {
            Destination::Pool(pool) => Some(pool),
            Destination::Default | Destination::Invalid(_) => None,
        }
    }

    /// A backend that stands in: the program's default backend (without a Service), or that of a rule.
    pub fn stand_in(pool: Arc<Pool>, service: Option<&ServiceRef>) -> Self {
        let name = service.map(ToString::to_string);
        let name =
            name.map_or("upstream-default-backend".to_owned(), |name| crate::telemetry::log_name(&name));
        Self {
            to: Destination::Pool(pool),
            name: name.into(),
            alternative: "".into(),
            service: service.cloned(),
            edits: None,
            meters: None,
            digits: [b'0'; 32],
            sessions: None,
            is_sticky: true,
            tls: None,
        }
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("name", &self.name).field("to", &self.to).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backends(weights: &[u32]) -> Backends {
        let target = |index: usize| Target {
            to: Destination::Invalid(StatusCode::SERVICE_UNAVAILABLE),
            name: index.to_string().into(),
            alternative: "".into(),
            service: None,
            edits: None,
            meters: None,
            digits: affinity::backend_digits(&index.to_string()),
            sessions: None,
            is_sticky: true,
            tls: None,
        };
        let targets = weights.iter().enumerate().map(|(index, weight)| (*weight, target(index)));
        Backends::new(targets.collect())
    }

    #[test]
    fn shares_are_weights_over_their_sum() {
        let backends = backends(&[1, 0, 3]);
        let mut counts = [0_u32; 3];
        for _ in 0..40_000 {
            let drawn = backends.draw_by_weight().unwrap();
            counts[drawn.name.parse::<usize>().unwrap()] += 1;
        }
        assert_eq!(counts[1], 0);
        // Six standard deviations of 40,000 draws with chance 1/4 are 520.
        assert!((9_480..=10_520).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn without_weight_there_is_nothing_to_draw() {
        for weights in [&[][..], &[0], &[0, 0]] {
            assert!(backends(weights).draw_by_weight().is_none(), "{weights:?}");
        }
    }

    #[test]
    fn a_session_beats_weights() {
        let backends = backends(&[1, 0]);
        let digits = affinity::backend_digits("1");
        assert_eq!(&*backends.of_session(&digits).unwrap().name, "1");
        assert!(backends.of_session(b"f00").is_none());
    }
}
