//! A rule, compiled: pool handles in place of keys, header values in place of texts, metric labels resolved.
//!
//! Compiling may fail, and then the whole host is refused and closed: a policy or filter that cannot be carried out
//! must never be skipped. After it nothing on the request path parses,
//! formats or looks anything up by name.

mod backends;
mod compiled;
mod compiler;
pub mod error_pages;

use std::sync::{Arc, OnceLock};

use http::StatusCode;
use sluice_config::{Code, HostName, Origin, Policies, ServiceRef};

pub use backends::Backends;
pub use compiled::CompiledPolicies;
pub use compiler::Compiler;
pub use error_pages::ErrorPages;

use crate::policy::affinity::{self, Digits};
use crate::policy::{Affinity, BasicAuth, DigestAuth, HeaderEdits, PolicyError, RedirectTo};
use crate::registry::{Pool, Sessions};
use crate::router::RouterError;
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
    Redirect(Box<RedirectTo>),
    /// It is redirected to the same target on this host.
    RedirectToHost(HostName),
    /// It is answered with this status.
    Answer(StatusCode),
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
    /// What sessions of the rule need to hold here; `None` where they do not, or where the rule has none.
    pub sticky: Option<Box<Sticky>>,
    /// TLS as the rule wants it.
    pub tls: Option<Arc<EndpointTls>>,
}

/// A backend that sessions hold to.
pub struct Sticky {
    /// The half of a session cookie that names this backend.
    pub digits: Digits,
    /// The sessions of mode persistent.
    pub sessions: Option<Sessions>,
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

impl Route {
    /// Whether it is open, and asks for nothing but what every rule has: an action, and settings that meet the global ones.
    pub(crate) fn is_plain(&self) -> bool {
        self.deny.is_none() && self.compiled.is_none()
    }

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

impl Target {
    /// Where its endpoints are.
    pub fn pool(&self) -> Option<&Arc<Pool>> {
        match &self.to {
            Destination::Pool(pool) => Some(pool),
            Destination::Default | Destination::Invalid(_) => None,
        }
    }

    /// Whether this is the backend of a session that names its backend by `digits`.
    fn is_of_session(&self, digits: &[u8]) -> bool {
        self.sticky.as_ref().is_some_and(|sticky| sticky.digits == digits)
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
            sticky: Some(Box::new(Sticky { digits: [b'0'; 32], sessions: None })),
            tls: None,
        }
    }
}

impl Sticky {
    /// With the endpoints of this pool, for a backend of this name.
    fn new(pool: Option<&Pool>, name: &str) -> Box<Self> {
        let sessions = pool.map(|pool| pool.sessions(name));
        Box::new(Self { digits: affinity::backend_digits(name), sessions })
    }
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("name", &self.name).field("to", &self.to).finish_non_exhaustive()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::CompiledHost;

    /// Thousands of hosts have one rule each, and keep this.
    #[test]
    fn what_each_host_keeps_is_small() {
        assert!(size_of::<Target>() <= 128, "{} bytes", size_of::<Target>());
        assert!(size_of::<Route>() <= 232, "{} bytes", size_of::<Route>());
        assert!(size_of::<CompiledHost<Route>>() <= 168, "{} bytes", size_of::<CompiledHost<Route>>());
    }
}
