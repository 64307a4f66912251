//! The components that the compilation of rules uses.

use std::sync::Arc;

use sluice_config::{HostKey, Rule, ServiceRef};

use super::HostNames;
use crate::firewall::Configurations;
use crate::policy::limits::Limiter;
use crate::policy::resources::Resources;
use crate::policy::{ClientCertificates, PolicyError};
use crate::registry::Registry;
use crate::telemetry::RequestMeters;
use crate::upstream::tls::EndpointTls;

/// The components that compiled routes refer to.
#[derive(Clone, Copy)]
pub struct Compiler<'a> {
    /// Provides pool handles.
    pub registry: &'a Registry,
    /// Provides resources.
    pub resources: &'a Resources,
    /// Provides the usage tables of limits.
    pub limiter: &'a Limiter,
    /// Provides the directives of firewalls.
    pub(crate) configurations: &'a Configurations,
    /// Provides meters; `None` disables request metrics.
    pub meters: Option<&'a Arc<RequestMeters>>,
}

/// Policies that all rules of a host share.
#[derive(Debug)]
pub(super) struct HostPolicies {
    pub(super) key: HostKey,
    pub(super) names: Arc<HostNames>,
    pub(super) has_https: bool,
    pub(super) client_certificates: Option<Arc<ClientCertificates>>,
}

impl Compiler<'_> {
    /// Compiles the TLS settings for the endpoints of a Service.
    pub(super) fn tls(
        &self,
        rule: &Rule,
        service: Option<&ServiceRef>,
    ) -> Result<Option<Arc<EndpointTls>>, PolicyError> {
        let Some(policy) = &rule.policies.upstream_tls else { return Ok(None) };
        if service.is_none() && policy.name.is_none() {
            // Without a Service there is no endpoint.
            return Ok(None);
        }
        EndpointTls::compile(policy, service, self.resources).map(|tls| Some(Arc::new(tls)))
    }
}
