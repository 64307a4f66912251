//! The policies of one rule, compiled together into one value.

use std::sync::Arc;

use sluice_config::{Authorisation, Countries, Policies, Rule};

use super::compiler::HostPolicies;
use super::{Compiler, ErrorBackend, ErrorPages, RouteBackend};
use crate::firewall::Firewall;
use crate::policy::directives::Directives;
use crate::policy::replacements::Replacements;
use crate::policy::tracing::SpanName;
use crate::policy::{
    Affinity, BackendHeaders, BasicAuth, CachePolicy, ClientCertificates, Cors, DigestAuth, ExternalAuth,
    FastCgi, Limits, Mirror, PolicyError, Rewrite, Sources, call_destination,
};

/// The policies of a rule. A plain rule has no such value, and its requests check a single `None`.
///
/// A policy that applies to every request of a rule belongs here, not into `Route`: it is compiled
/// from the contract by `compile` and used by the stage, attempt or response that
/// it concerns.
#[derive(Debug, Default)]
pub struct CompiledPolicies {
    /// Sticky sessions.
    pub affinity: Option<Affinity>,
    /// Basic authentication.
    pub basic_auth: Option<BasicAuth>,
    /// Digest authentication.
    pub digest_auth: Option<DigestAuth>,
    /// Rewriting of the path for the endpoint.
    pub rewrite: Option<Rewrite>,
    /// The rule's own authorisation service.
    pub external_auth: Option<Arc<ExternalAuth>>,
    /// Replacement of error responses, if the rule configures it.
    pub error_pages: Option<ErrorPages>,
    /// Mirroring of requests.
    pub mirror: Option<Mirror>,
    /// Stored responses.
    pub cache: Option<CachePolicy>,
    /// Cross-origin resource sharing.
    pub cors: Option<Cors>,
    /// Access control by address, if the rule configures it.
    pub sources: Option<Sources>,
    /// Access control by country.
    pub countries: Option<Countries>,
    /// Limits per client.
    pub limits: Option<Limits>,
    /// Header fields for the endpoint and the client.
    pub headers: Option<BackendHeaders>,
    /// The web application firewall.
    pub firewall: Option<Firewall>,
    /// Settings for FastCGI endpoints.
    pub fastcgi: Option<FastCgi>,
    /// Directives of snippets.
    pub directives: Option<Box<Directives>>,
    /// Replacements in cookies and redirects of endpoints.
    pub replacements: Option<Replacements>,
    /// Name of a request's span, if the rule configures it.
    pub span_name: Option<SpanName>,
    /// Client certificate requirements of the host.
    pub client_certificates: Option<Arc<ClientCertificates>>,
}

impl CompiledPolicies {
    /// Compiles all policies of a rule; returns `None` if it has none. Fails if any of them fails,
    /// because none may be skipped.
    ///
    /// # Errors
    /// A policy is invalid.
    pub(super) fn compile(
        rule: &Rule,
        compiler: &Compiler<'_>,
        host: &HostPolicies,
    ) -> Result<Option<Box<Self>>, PolicyError> {
        let Policies {
            affinity,
            // Compiled with the backends.
            hash_by: _,
            canaries: _,
            canaries_without_service: _,
            rewrite,
            deny: _,
            is_for_unmatched: _,
            unlogged: _,
            logs_rewrites: _,
            tracing,
            https_redirect: _,
            locations: _,
            timeouts: _,
            retry: _,
            bodies: _,
            basic_auth,
            digest_auth,
            // Used without compilation.
            satisfy: _,
            http_1_0: _,
            authorisation,
            error_pages,
            mirror,
            sources,
            countries,
            limits,
            cache,
            cors,
            headers,
            firewall,
            fastcgi,
            directives,
            replacements,
            // Compiled with the backends.
            upstream_tls: _,
            follows_scheme: _,
        } = &*rule.policies;
        let compiled = Self {
            affinity: affinity.as_ref().map(Affinity::compile).transpose()?,
            basic_auth: basic_auth
                .as_ref()
                .map(|policy| BasicAuth::compile(policy, compiler.resources))
                .transpose()?,
            digest_auth: digest_auth
                .as_ref()
                .map(|policy| DigestAuth::compile(policy, compiler.resources))
                .transpose()?,
            rewrite: rewrite.as_ref().map(Rewrite::compile).transpose()?,
            external_auth: match authorisation {
                Authorisation::Own(auth) => {
                    Some(Arc::new(ExternalAuth::compile(auth, compiler.registry, compiler.resources)?))
                }
                Authorisation::Global | Authorisation::Off => None,
            },
            error_pages: match error_pages.is_default() {
                true => None,
                false => Some(compile_pages(error_pages, rule, compiler)?),
            },
            mirror: mirror.as_ref().map(|mirror| Mirror::compile(mirror, compiler.registry)).transpose()?,
            cache: cache.as_ref().map(|cache| CachePolicy::compile(cache, rule, &host.key)).transpose()?,
            cors: cors.as_deref().map(Cors::compile).transpose()?,
            sources: Sources::compile(sources),
            countries: (!countries.is_empty()).then(|| countries.clone()),
            limits: limits.as_deref().and_then(|limits| Limits::compile(limits, compiler.limiter)),
            headers: headers
                .as_deref()
                .map(|headers| BackendHeaders::compile(headers, compiler.resources))
                .transpose()?,
            firewall: firewall
                .as_deref()
                .map(|firewall| Firewall::compile(firewall, compiler.configurations))
                .transpose()?,
            fastcgi: fastcgi
                .as_deref()
                .map(|settings| FastCgi::compile(settings, compiler.resources))
                .transpose()?,
            directives: match directives {
                Some(directives) => {
                    Some(Box::new(Directives::compile(directives, &rule.matches, compiler.limiter)?))
                }
                None => None,
            },
            replacements: match replacements {
                Some(replacements) => Replacements::compile(replacements)?,
                None => None,
            },
            span_name: tracing.span_name.as_deref().map(SpanName::compile),
            client_certificates: host.client_certificates.clone(),
        };
        Ok((!compiled.is_empty()).then(|| Box::new(compiled)))
    }

    fn is_empty(&self) -> bool {
        let Self {
            affinity,
            basic_auth,
            digest_auth,
            rewrite,
            external_auth,
            error_pages,
            mirror,
            cache,
            cors,
            sources,
            countries,
            limits,
            headers,
            firewall,
            fastcgi,
            directives,
            replacements,
            span_name,
            client_certificates,
        } = self;
        affinity.is_none()
            && basic_auth.is_none()
            && digest_auth.is_none()
            && rewrite.is_none()
            && external_auth.is_none()
            && error_pages.is_none()
            && mirror.is_none()
            && cache.is_none()
            && cors.is_none()
            && sources.is_none()
            && countries.is_none()
            && limits.is_none()
            && headers.is_none()
            && firewall.is_none()
            && fastcgi.is_none()
            && directives.is_none()
            && replacements.is_none()
            && span_name.is_none()
            && client_certificates.is_none()
    }
}

fn compile_pages(
    pages: &sluice_config::ErrorPages,
    rule: &Rule,
    compiler: &Compiler<'_>,
) -> Result<ErrorPages, PolicyError> {
    let sluice_config::ErrorPages { statuses, keeps_responses, backend } = pages;
    let backend = match backend {
        Some(sluice_config::ErrorBackend { service, pages, requests }) => {
            let pool = call_destination::pool(requests, compiler.registry)?;
            let tls = compiler.tls(rule, Some(service))?;
            Some(ErrorBackend {
                pages: call_destination::pool(pages, compiler.registry)?,
                requests: RouteBackend::substitute(pool, Some(service), tls),
            })
        }
        None => None,
    };
    Ok(ErrorPages { statuses: statuses.clone(), keeps_responses: *keeps_responses, backend })
}
