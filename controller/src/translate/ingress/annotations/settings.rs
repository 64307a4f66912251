//! What the annotations of one Ingress say, typed.
//!
//! Annotations set the policies and settings of routes directly. A family whose annotations determine one value
//! together has a field here and computes the value in its final step ([`Finish`](crate::translate::setting::Finish)).

use std::sync::Arc;

use sluice_config::{BackendHeaders, Deny, HostPattern, Policies, Replacements, ResourceKey};

use super::{
    Auth, CipherSettings, ClientCertificateSettings, CorsSettings, EndpointTls, Hashing, HealthChecking,
    Limiting, Redirection, field, hosts::Aliases,
};
use crate::translate::external_auth::AuthSettings;
use crate::translate::mirror::MirrorSettings;
use crate::translate::routes::{Affinity, CanarySettings, RouteSettings};
use crate::translate::setting::MissingSetting;

/// What the annotations of an Ingress say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Policies of its routes.
    pub policies: Policies,
    /// What else its routes are served with.
    pub(crate) routes: RouteSettings,
    /// Resources without which the routes cannot be served, each with the annotation that names it.
    pub needs: Vec<(ResourceKey, &'static str)>,
    /// Annotations of which parts are left out, each with what is wrong with them.
    pub(super) left_out: Vec<(&'static str, String)>,
    /// What annotations lack that mean something together only, and which one is missing.
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

    pub(super) fn canary(&mut self) -> &mut CanarySettings {
        self.routes.canary.get_or_insert_default()
    }

    pub(super) fn affinity(&mut self) -> &mut Affinity {
        self.routes.affinity.get_or_insert_default()
    }

    pub(super) fn mirror(&mut self) -> &mut MirrorSettings {
        self.routes.mirror.get_or_insert_default()
    }

    /// Further names of its hosts: those that it spells out, and whether each of its hosts has the one that differs by
    /// its `www.`.
    pub(crate) fn take_further_names(&mut self) -> (Vec<HostPattern>, bool) {
        (std::mem::take(&mut self.aliases.names), self.redirection.www)
    }

    /// The policies of the routes, and what else these are served with.
    pub(crate) fn into_routes(self, deny: Option<Deny>, prefix: &str) -> (Policies, RouteSettings) {
        let Self { policies, routes, needs, .. } = self;
        let needs = needs.into_iter().map(|(key, name)| (key, field(prefix, name).into())).collect();
        (Policies { deny, ..policies }, RouteSettings { needs, ..routes })
    }
}
