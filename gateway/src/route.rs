//! A compiled rule: pool handles instead of keys, header values instead of strings, resolved metric
//! labels.
//!
//! If the compilation of a rule fails, the whole host is rejected and closed: a policy or filter
//! that cannot be applied must never be skipped. At run time, the request path neither parses nor
//! formats configuration and looks up nothing by name.

mod backends;
mod compiled;
mod compiler;
pub mod error_pages;
mod host_compiler;

use std::sync::{Arc, OnceLock};

use http::StatusCode;
use sluice_config::{Code, HostName, Origin, Policies, ServiceRef};

pub use backends::Backends;
pub use compiled::CompiledPolicies;
pub use compiler::Compiler;
pub use error_pages::{ErrorBackend, ErrorPages};

use crate::policy::affinity::{self, Digits};
use crate::policy::directives::AccessList;
use crate::policy::{
    Affinity, BasicAuth, CachePolicy, ClientCertificates, DigestAuth, HashBy, PolicyError, RedirectTo,
};
use crate::registry::{Pool, Sessions};
use crate::router::RouterError;
use crate::telemetry::{RequestMeters, TargetLabels, TargetMeters};
use crate::upstream::tls::EndpointTls;

/// The name of the program's default backend, as in ingress-nginx.
pub const DEFAULT_BACKEND: &str = "upstream-default-backend";

/// The compiled form of one rule.
#[derive(Debug)]
pub struct Route {
    /// The action for a request.
    pub action: RouteAction,
    /// The status of a closed rule.
    pub deny: Option<StatusCode>,
    /// Settings that are resolved against the global ones for each request.
    pub policies: Arc<Policies>,
    /// Compiled policies; `None` for a plain rule, for which a request only costs this check.
    pub compiled: Option<Box<CompiledPolicies>>,
    /// Whether a certificate is configured for the host, so `ssl-redirect` applies.
    pub host_has_https: bool,
    /// [`Policies::is_for_unmatched`]
    pub is_for_unmatched: bool,
    /// Meters of responses for which no backend was chosen, if the first one has none; created with
    /// the first such response.
    meters: OnceLock<Arc<TargetMeters>>,
    /// The names of the host.
    names: Arc<HostNames>,
    /// The origin of the rule.
    pub origin: Arc<Origin>,
}

/// The names of a host.
#[derive(Debug)]
struct HostNames {
    /// The host as written in the Ingress.
    host: Arc<str>,
    /// The same, except for an alias: the host whose rules it has.
    server_name: Arc<str>,
}

/// Action for a request.
#[derive(Debug)]
pub enum RouteAction {
    /// Forwards the request to one of these backends.
    Forward(Backends),
    /// Redirects the client.
    Redirect(Box<RedirectTo>),
    /// Redirects the client to the same target on this host.
    RedirectToHost(HostName),
    /// Responds with this status.
    Answer(StatusCode),
}

impl RouteAction {
    /// Returns whether ingress-nginx performs it in the server, before the choice of a location.
    pub fn is_of_server(&self) -> bool {
        match self {
            Self::RedirectToHost(_) => true,
            Self::Redirect(redirect) => redirect.is_of_server(),
            Self::Forward(_) | Self::Answer(_) => false,
        }
    }
}

/// A backend.
pub struct RouteBackend {
    /// The destination of requests.
    pub to: Destination,
    /// `namespace-service-port`, or [`DEFAULT_BACKEND`]: `$proxy_upstream_name` in the access log;
    /// empty if there is no Service.
    pub name: Box<str>,
    /// `$proxy_alternative_upstream_name`: the name of the canary, if this is one.
    pub alternative: Box<str>,
    /// The Service, if there is one.
    pub service: Option<ServiceRef>,
    /// Metrics of its requests.
    pub meters: Option<Arc<TargetMeters>>,
    /// Data for sticky sessions; `None` if sessions do not stick to this backend or the rule has
    /// none.
    pub sticky: Option<Box<Sticky>>,
    /// TLS settings of the rule.
    pub tls: Option<Arc<EndpointTls>>,
    /// Selection of an endpoint by a hash key; `None` for a substitute, which has other endpoints.
    pub hash_by: Option<Arc<HashBy>>,
}

/// Data of a backend with sticky sessions.
pub struct Sticky {
    /// The half of a session cookie that identifies this backend.
    pub digits: Digits,
    /// The sessions of mode persistent.
    pub sessions: Option<Sessions>,
}

/// Destination of a request.
#[derive(Debug)]
pub enum Destination {
    /// An endpoint of this pool.
    Pool(Arc<Pool>),
    /// The program's default backend.
    Default,
    /// No backend: the response has this status.
    Invalid(StatusCode),
}

/// Reason why a host cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// A match is invalid.
    #[error(transparent)]
    Match(#[from] RouterError),
    /// A policy is invalid.
    #[error("{}: {error}", origin.object)]
    Policy {
        /// The rule.
        origin: Arc<Origin>,
        /// The reason.
        error: PolicyError,
    },
    /// Violation of the contract: a backend refers to a pool that was not sent.
    #[error("{}: pool {pool} is not known; this is a defect of Sluice, please report it", origin.object)]
    Pool {
        /// The rule.
        origin: Arc<Origin>,
        /// The pool.
        pool: String,
    },
}

impl RouteError {
    /// Returns the code of the error for programs.
    pub fn code(&self) -> Code {
        match self {
            Self::Match(_) => Code::MatchRefused,
            Self::Policy { .. } => Code::PolicyRefused,
            Self::Pool { .. } => Code::HostRefused,
        }
    }

    /// Returns the rule that caused the error, if it is known.
    pub fn origin(&self) -> Option<&Origin> {
        match self {
            Self::Match(_) => None,
            Self::Policy { origin, .. } | Self::Pool { origin, .. } => Some(origin),
        }
    }
}

impl Route {
    /// Returns whether the rule is open and has no compiled policies, only an action and settings
    /// that are resolved against the global ones.
    pub(crate) fn is_plain(&self) -> bool {
        self.deny.is_none() && self.compiled.is_none()
    }

    /// Returns whether a program of this rule may choose the other one for a path that it has set.
    /// It may not reach another namespace, whose author has not agreed to what it assigns and
    /// changes. The operator's programs may, and requests without a rule have no author.
    pub(crate) fn may_lead_to(&self, other: &Self) -> bool {
        let [own, others] = [self, other].map(|route| &route.origin.object);
        other.is_for_unmatched || *own.kind == *"ConfigMap" || own.name.namespace == others.name.namespace
    }

    /// Returns the settings of sticky sessions.
    pub fn affinity(&self) -> Option<&Affinity> {
        self.compiled.as_ref()?.affinity.as_ref()
    }

    /// Returns the host as written in the Ingress.
    pub fn host(&self) -> &str {
        &self.names.host
    }

    /// Returns nginx's name of the server: for an alias, the host that it stands for.
    pub(crate) fn server_name(&self) -> &str {
        &self.names.server_name
    }

    /// Returns the policy for basic authentication.
    pub fn basic_auth(&self) -> Option<&BasicAuth> {
        self.compiled.as_ref()?.basic_auth.as_ref()
    }

    /// Returns the policy for digest authentication.
    pub fn digest_auth(&self) -> Option<&DigestAuth> {
        self.compiled.as_ref()?.digest_auth.as_ref()
    }

    /// Returns the `allow` and `deny` of its snippets; `None` if there are none.
    pub(crate) fn access_list(&self) -> Option<&AccessList> {
        let directives = self.compiled.as_ref()?.directives.as_ref()?;
        Some(&directives.own.access).filter(|access| !access.is_empty())
    }

    /// Returns the settings for stored responses.
    pub(crate) fn cache(&self) -> Option<&CachePolicy> {
        self.compiled.as_ref()?.cache.as_ref()
    }

    /// Returns the client certificate requirements of the host.
    pub fn client_certificates(&self) -> Option<&ClientCertificates> {
        self.compiled.as_ref()?.client_certificates.as_deref()
    }

    /// Returns the first backend, which requests without a choice of backend count for.
    pub(crate) fn first_backend(&self) -> Option<&RouteBackend> {
        match &self.action {
            RouteAction::Forward(backends) => backends.first(),
            RouteAction::Redirect(_) | RouteAction::RedirectToHost(_) | RouteAction::Answer(_) => None,
        }
    }

    /// Returns the rule's own default backend, which serves while the rule has no endpoint; `None`
    /// if it has no endpoint itself.
    pub(crate) fn fallback(&self) -> Option<&RouteBackend> {
        let pages = self.compiled.as_ref()?.error_pages.as_ref()?;
        let backend = &pages.backend.as_ref()?.requests;
        backend.pool().is_some_and(|pool| !pool.is_empty()).then_some(backend)
    }

    /// Returns the meters of responses for which no backend was chosen. As in ingress-nginx, they
    /// have the Service of the rule.
    pub fn meters(&self, meters: &Arc<RequestMeters>) -> &TargetMeters {
        let backend = self.first_backend();
        backend.and_then(|backend| backend.meters.as_deref()).unwrap_or_else(|| {
            let service = backend.and_then(|backend| backend.service.as_ref());
            self.meters.get_or_init(|| meters.target(labels(&self.origin, &self.names.host, service)))
        })
    }
}

impl RouteBackend {
    /// Returns the pool of its endpoints.
    pub fn pool(&self) -> Option<&Arc<Pool>> {
        match &self.to {
            Destination::Pool(pool) => Some(pool),
            Destination::Default | Destination::Invalid(_) => None,
        }
    }

    /// Returns whether a session cookie with `digits` refers to this backend.
    fn is_of_session(&self, digits: &[u8]) -> bool {
        self.sticky.as_ref().is_some_and(|sticky| sticky.digits == digits)
    }

    /// Returns a substitute backend: the program's default backend (without a Service) or that of a
    /// rule.
    pub fn substitute(pool: Arc<Pool>, service: Option<&ServiceRef>, tls: Option<Arc<EndpointTls>>) -> Self {
        let name = service.map(|service| crate::variable::log_name(&service.to_string()).into());
        Self {
            to: Destination::Pool(pool),
            name: name.unwrap_or_else(|| DEFAULT_BACKEND.into()),
            alternative: "".into(),
            service: service.cloned(),
            meters: None,
            sticky: Some(Box::new(Sticky { digits: [b'0'; 32], sessions: None })),
            tls,
            hash_by: None,
        }
    }
}

impl Sticky {
    /// Returns the data for a backend with this name and the endpoints of `pool`.
    fn new(pool: Option<&Pool>, name: &str) -> Box<Self> {
        let sessions = pool.map(|pool| pool.sessions(name));
        Box::new(Self { digits: affinity::backend_digits(name), sessions })
    }
}

impl std::fmt::Debug for RouteBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RouteBackend").field("name", &self.name).field("to", &self.to).finish_non_exhaustive()
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

    /// These values exist once per host or rule, for thousands of hosts.
    #[test]
    fn the_values_per_host_are_small() {
        assert!(size_of::<RouteBackend>() <= 128, "{} bytes", size_of::<RouteBackend>());
        assert!(size_of::<Route>() <= 232, "{} bytes", size_of::<Route>());
        assert!(size_of::<CompiledHost<Route>>() <= 168, "{} bytes", size_of::<CompiledHost<Route>>());
    }
}
