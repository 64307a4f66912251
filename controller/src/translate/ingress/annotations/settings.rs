//! What the annotations of one Ingress say, typed.

use sluice_config::{
    Bodies, HttpsRedirect, Locations, Replacements, ResourceKey, Retry, Satisfy, Sources, Timeouts,
};

use super::{
    Affinity, Auth, BackendProtocol, Balancing, Canary, CorsSettings, EndpointTls, Errors, HeaderSettings,
    HealthChecking, Limiting, Redirection, Rewriting, external_auth, hosts::Aliases,
};
use crate::translate::external_auth::AuthSettings;
use crate::translate::mirror::MirrorSettings;
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
    pub affinity: Affinity,
    /// How an endpoint is chosen otherwise.
    pub balancing: Balancing,
    /// How endpoints are checked.
    pub health: HealthChecking,
    /// Which requests it takes of another Ingress.
    pub canary: Canary,
    /// Paths as expressions, and other paths for the endpoints.
    pub rewriting: Rewriting,
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
            canary: Canary::default(),
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
