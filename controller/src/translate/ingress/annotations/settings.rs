//! What the annotations of one Ingress say, typed.

use std::sync::Arc;

use sluice_config::{
    Authorisation, Balance, Bodies, Deny, ErrorPages, HashBy, HttpsRedirect, Locations, NamespacedName,
    Policies, Replacements, ResourceKey, Retry, Satisfy, Sources, Timeouts,
};

use super::{
    Auth, BackendProtocol, Balancing, CorsSettings, EndpointTls, Errors, HeaderSettings, HealthChecking,
    Limiting, Redirection, external_auth, field, hosts::Aliases,
};
use crate::translate::external_auth::AuthSettings;
use crate::translate::mirror::MirrorSettings;
use crate::translate::routes::backend::Usage;
use crate::translate::routes::{Affinity, CanarySettings, Rewriting, RouteSettings};
use crate::translate::setting::MissingSetting;

/// What the annotations of an Ingress say, typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Redirects from http to https.
    pub https_redirect: HttpsRedirect,
    /// Whether requests get no line in the access log.
    pub unlogged: bool,
    /// How redirects are written.
    pub locations: Locations,
    /// Redirects of all paths, and of another host.
    pub redirection: Redirection,
    /// Further names of its hosts.
    pub(crate) aliases: Aliases,
    /// Which clients are served.
    pub sources: Sources,
    /// Whether all checks of who gets in count, or any one.
    pub satisfy: Satisfy,
    /// How much one client may ask for.
    pub limiting: Limiting,
    /// Which pages of other origins may read responses.
    pub cors: CorsSettings,
    /// Limits on the upstream side.
    pub timeouts: Timeouts,
    /// When another endpoint is tried.
    pub retry: Retry,
    /// What is spoken to endpoints.
    pub protocol: BackendProtocol,
    /// `proxy-http-version`: whether it is 1.0; the GlobalSettings's without it.
    pub http_1_0: Option<bool>,
    /// Sticky sessions.
    pub(crate) affinity: Affinity,
    /// How an endpoint is chosen otherwise.
    pub balancing: Balancing,
    /// How endpoints are checked.
    pub health: HealthChecking,
    /// Which requests it takes of another Ingress.
    pub(crate) canary: CanarySettings,
    /// Paths as expressions, and other paths for the endpoints.
    pub(crate) rewriting: Rewriting,
    /// Names and passwords.
    pub auth: Auth,
    /// Request bodies.
    pub bodies: Bodies,
    /// Authorisation by another service.
    pub external_auth: AuthSettings,
    /// Whether the service for all rules is asked.
    pub global_auth: bool,
    /// Answers in place of errors.
    pub errors: Errors,
    /// Where requests are copied to.
    pub mirror: MirrorSettings,
    /// Fields of heads for its endpoints and its clients.
    pub heads: HeaderSettings,
    /// What is replaced in cookies and redirects of its endpoints.
    pub replacements: Replacements,
    /// TLS towards its endpoints.
    pub upstream_tls: EndpointTls,
}

impl Settings {
    /// The resources without which the routes cannot be served, each with the annotation that names it.
    pub fn needs(&self) -> impl Iterator<Item = (ResourceKey, &'static str)> {
        let fields = self.external_auth.resource().map(|key| (key, external_auth::SET_HEADERS));
        self.auth.needs().into_iter().chain(fields).chain(self.heads.needs()).chain(self.upstream_tls.needs())
    }

    /// Annotations of which parts are left out, each with what is wrong with them.
    pub(super) fn left_out(&self) -> impl Iterator<Item = (&'static str, String)> {
        let own_fields =
            self.external_auth.own_fields().map(|reason| (external_auth::RESPONSE_HEADERS, reason));
        let whole = [self.cors.left_out(), self.redirection.left_out(), self.aliases.left_out()];
        whole.into_iter().flatten().chain(self.health.left_out()).chain(own_fields)
    }

    /// What annotations lack that mean something together only, and which one is missing.
    pub(super) fn missing(&self) -> impl Iterator<Item = (MissingSetting, &'static str)> {
        self.auth.missing().into_iter()
    }
}

impl Settings {
    /// The policies of the routes of an Ingress, and what else these are served with.
    pub(crate) fn into_routes(
        self,
        ingress: &NamespacedName,
        deny: Option<Deny>,
        prefix: &str,
    ) -> (Policies, RouteSettings) {
        let needs = self.needs().map(|(key, name)| (key, field(prefix, name).into())).collect();
        let policies = Policies {
            deny,
            unlogged: self.unlogged,
            https_redirect: self.https_redirect,
            locations: self.locations,
            sources: self.sources,
            satisfy: self.satisfy,
            limits: self.limiting.policy(ingress),
            cors: self.cors.policy(),
            headers: self.heads.policy(),
            upstream_tls: self.upstream_tls.policy(),
            http_1_0: self.http_1_0,
            follows_scheme: self.protocol == BackendProtocol::OfClient,
            replacements: (self.replacements != Replacements::default()).then(|| Arc::new(self.replacements)),
            timeouts: self.timeouts,
            retry: self.retry,
            affinity: self.affinity.for_path("/"),
            // A session decides before a key does.
            hash_by: match self.affinity.is_enabled() {
                true => None,
                false => self.balancing.hash_by().map(Arc::new),
            },
            basic_auth: self.auth.basic(),
            digest_auth: self.auth.digest(),
            bodies: self.bodies,
            authorisation: match self.global_auth {
                true => Authorisation::Global,
                false => Authorisation::Off,
            },
            error_pages: ErrorPages {
                statuses: self.errors.statuses,
                keeps_responses: self.errors.keeps_responses,
                // Its Service is looked up where hosts are made.
                backend: None,
            },
            // Its pool is looked up there too.
            mirror: None,
            // It differs from path to path.
            canaries: Vec::new(),
            rewrite: None,
        };
        let usage = Usage {
            balance: match policies.hash_by.as_deref() {
                Some(HashBy { subset: None, .. }) => Balance::Ring,
                _ => self.balancing.balance,
            },
            slow_start: self.balancing.slow_start,
            health_check: self.health.check(),
        };
        let settings = RouteSettings {
            closes_hosts: None,
            protocol: self.protocol.given(),
            usage,
            service_upstream: self.balancing.service_upstream,
            rewriting: self.rewriting,
            redirect: self.redirection.everywhere(),
            canary: Some(self.canary),
            affinity: Some(self.affinity).filter(Affinity::depends_on_path),
            external_auth: Some(self.external_auth).filter(|auth| auth.url.is_some()),
            mirror: Some(self.mirror).filter(|mirror| mirror.target.is_some()),
            error_backend: self.errors.backend,
            needs,
        };
        (policies, settings)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            https_redirect: HttpsRedirect::default(),
            unlogged: false,
            locations: Locations::default(),
            redirection: Redirection::default(),
            aliases: Aliases::default(),
            sources: Sources::default(),
            satisfy: Satisfy::All,
            limiting: Limiting::default(),
            cors: CorsSettings::default(),
            timeouts: Timeouts::default(),
            retry: Retry::default(),
            protocol: BackendProtocol::default(),
            http_1_0: None,
            affinity: Affinity::default(),
            balancing: Balancing::default(),
            health: HealthChecking::default(),
            auth: Auth::default(),
            canary: CanarySettings::default(),
            rewriting: Rewriting::default(),
            bodies: Bodies::default(),
            external_auth: AuthSettings::default(),
            global_auth: true,
            errors: Errors::default(),
            mirror: MirrorSettings::default(),
            heads: HeaderSettings::default(),
            replacements: Replacements::default(),
            upstream_tls: EndpointTls::default(),
        }
    }
}
