//! Typed settings of the annotations of an Ingress.
//!
//! Annotations set the policies and settings of routes directly. A family whose annotations
//! together determine one value has a field here and computes the value in its final step
//! ([`Finish`](crate::translate::setting::Finish)).

use std::sync::Arc;

use sluice_config::{
    BackendHeaders, Deny, FastCgi, HostPattern, Policies, Replacements, ResourceKey,
    ResponseBufferingOverrides,
};

use super::{
    Auth, CacheAnnotations, CipherSettings, ClientCertificateSettings, CorsSettings, EndpointTls, Hashing,
    HealthChecking, Limiting, Redirection, hosts::Aliases,
};
use crate::translate::external_auth::AuthSettings;
use crate::translate::mirror::MirrorSettings;
use crate::translate::routes::{Affinity, CanarySettings, RouteSettings};
use crate::translate::setting::MissingSetting;
use crate::translate::setting::annotation_field;

/// The settings of an Ingress.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Policies of its routes.
    pub policies: Policies,
    /// Other settings of its routes.
    pub(crate) routes: RouteSettings,
    /// Resources that the routes require, each with the annotation that names it.
    pub needs: Vec<(ResourceKey, &'static str)>,
    /// Annotations with left-out parts, each with the reason.
    pub(super) left_out: Vec<(&'static str, String)>,
    /// Missing settings that others require, each with the annotation that requires it.
    pub(super) missing: Vec<(MissingSetting, &'static str)>,
    pub(super) redirection: Redirection,
    pub(super) aliases: Aliases,
    pub(super) limiting: Limiting,
    pub(super) cors: CorsSettings,
    pub(super) hashing: Hashing,
    pub(super) health: HealthChecking,
    pub(super) auth: Auth,
    pub(super) upstream_tls: EndpointTls,
    pub(super) client_certificates: ClientCertificateSettings,
    pub(super) cipher_suites: CipherSettings,
    pub(super) fastcgi: FastCgi,
    pub(super) caching: CacheAnnotations,
}

impl Settings {
    pub(super) fn headers(&mut self) -> &mut BackendHeaders {
        Arc::make_mut(self.policies.headers.get_or_insert_default())
    }

    pub(super) fn replacements(&mut self) -> &mut Replacements {
        Arc::make_mut(self.policies.replacements.get_or_insert_default())
    }

    pub(super) fn external_auth(&mut self) -> &mut AuthSettings {
        self.routes.external_auth.get_or_insert_default()
    }

    pub(super) fn response_buffering(&mut self) -> &mut ResponseBufferingOverrides {
        self.policies.bodies.response_buffering.get_or_insert_default()
    }

    pub(super) fn canary(&mut self) -> &mut CanarySettings {
        self.routes.canary.get_or_insert_default()
    }

    pub(super) fn affinity(&mut self) -> &mut Affinity {
        self.routes.affinity.get_or_insert_default()
    }

    pub(super) fn mirror(&mut self) -> &mut MirrorSettings {
        self.routes.mirror.get_or_insert_default()
    }

    /// Returns the aliases of its hosts: explicit ones, and whether each host also has the name
    /// that differs by `www.`.
    pub(crate) fn take_further_names(&mut self) -> (Vec<HostPattern>, bool) {
        (std::mem::take(&mut self.aliases.names), self.redirection.www)
    }

    /// Returns the policies of the routes, and their other settings.
    pub(crate) fn into_routes(self, deny: Option<Deny>, prefix: &str) -> (Policies, RouteSettings) {
        let Self { policies, routes, needs, .. } = self;
        let needs =
            needs.into_iter().map(|(key, name)| (key, annotation_field(prefix, name).into())).collect();
        (Policies { deny, ..policies }, RouteSettings { needs, ..routes })
    }
}
