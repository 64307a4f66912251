//! The values that ConfigMap keys set, and the settings computed from them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use sluice_config::{GlobalSettings, Hsts, ResourceKey, ServerField};

use super::logging::Logs;
use super::snippets::GlobalSnippets;
use super::traces::TraceKeys;
use crate::graph::ReadKey;
use crate::options::Options;
use crate::translate::external_auth::AuthSettings;
use crate::translate::setting::AnnotationLimits;
use crate::translate::setting::MissingSetting;

/// The values that keys set.
#[derive(Clone, Debug)]
pub struct SettingsBuilder {
    pub(super) global: GlobalSettings,
    pub(super) hsts_enabled: bool,
    pub(super) hsts: Hsts,
    pub(super) server_tokens: Option<bool>,
    pub(super) server_of_endpoints: Option<bool>,
    pub(super) logs: Logs,
    pub(super) bind_addresses: Vec<IpAddr>,
    pub(super) disable_ipv6: bool,
    pub(super) annotation_limits: AnnotationLimits,
    pub(super) service_upstream: bool,
    pub(super) endpoint_tls_per_location: bool,
    pub(super) ipv4_names: bool,
    pub(super) limit_across_replicas: bool,
    pub(super) global_auth: AuthSettings,
    pub(super) snippets: GlobalSnippets,
    pub(super) tls_session_cache: bool,
    pub(super) traces: TraceKeys,
    /// Parts of values that have no effect, by key.
    left_out: Vec<(&'static str, String)>,
}

impl Default for SettingsBuilder {
    fn default() -> Self {
        let global = GlobalSettings::default();
        Self {
            hsts_enabled: global.hsts.is_some(),
            hsts: global.hsts.clone().unwrap_or(Hsts {
                max_age: 31_536_000,
                include_subdomains: true,
                preload: false,
            }),
            global,
            server_tokens: None,
            server_of_endpoints: None,
            logs: Logs::default(),
            bind_addresses: Vec::new(),
            disable_ipv6: false,
            annotation_limits: AnnotationLimits::default(),
            service_upstream: false,
            endpoint_tls_per_location: false,
            ipv4_names: false,
            limit_across_replicas: false,
            // Unlike an annotation, the key of the times has no default.
            global_auth: AuthSettings { cache_valid: None, ..AuthSettings::default() },
            snippets: GlobalSnippets::default(),
            tls_session_cache: true,
            traces: TraceKeys::default(),
            left_out: Vec::new(),
        }
    }
}

/// The settings of a ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMapSettings {
    /// Global settings, except those from flags.
    pub global: GlobalSettings,
    /// Addresses to listen on.
    pub addresses: Vec<IpAddr>,
    /// Limits on annotations.
    pub annotation_limits: AnnotationLimits,
    /// Requests go to Services instead of endpoints.
    pub service_upstream: bool,
    /// The `proxy-ssl-*` annotations of an Ingress apply to its own paths only.
    pub endpoint_tls_per_location: bool,
    /// IPv6 addresses of resolved names are not used.
    pub ipv4_names: bool,
    /// Limits apply to all replicas together.
    pub limit_across_replicas: bool,
    /// The global authorisation service.
    pub global_auth: Box<AuthSettings>,
    /// Typed directives of snippets for all rules.
    pub snippets: Box<GlobalSnippets>,
    /// Why every route is closed: a key that protects all of them is not implemented.
    pub closed: Option<Arc<str>>,
    /// Why requests that no rule matches are closed too: such a key applies to all servers.
    pub unmatched_closed: Option<Arc<str>>,
}

impl ConfigMapSettings {
    /// Returns the authorisation service, if it depends on the host.
    pub(crate) fn auth_of_hosts(&self) -> Option<&AuthSettings> {
        Some(&*self.global_auth).filter(|auth| auth.needs_host())
    }

    /// Returns the graph keys of the settings that differ from `other`.
    pub(crate) fn changes(&self, other: &Self) -> impl Iterator<Item = ReadKey> + use<> {
        let differs = [
            (ReadKey::AnnotationLimits, self.annotation_limits != other.annotation_limits),
            (ReadKey::BindAddresses, self.addresses != other.addresses),
            (ReadKey::Closed, self.closed != other.closed),
            (ReadKey::UnmatchedClosed, self.unmatched_closed != other.unmatched_closed),
            (ReadKey::ServiceUpstream, self.service_upstream != other.service_upstream),
            (
                ReadKey::EndpointTlsPerLocation,
                self.endpoint_tls_per_location != other.endpoint_tls_per_location,
            ),
            (ReadKey::Ipv4Names, self.ipv4_names != other.ipv4_names),
            (ReadKey::Snippets, self.snippets.of_rules() != other.snippets.of_rules()),
            (ReadKey::HttpDeclarations, self.snippets.declarations() != other.snippets.declarations()),
            (ReadKey::AuthOfHosts, self.auth_of_hosts() != other.auth_of_hosts()),
        ];
        differs.into_iter().filter_map(|(key, differs)| differs.then_some(key))
    }

    /// Returns the resources that keys name, each with the name of its key.
    pub(crate) fn resources(&self) -> impl Iterator<Item = (&'static str, ResourceKey)> {
        let GlobalSettings { request_headers, response_headers, .. } = &self.global;
        let named = [("proxy-set-headers", request_headers), ("add-headers", response_headers)];
        named.into_iter().filter_map(|(key, resource)| Some((key, resource.clone()?)))
    }

    /// Returns all resources that the settings need, also those that flags name.
    pub(crate) fn needed_resources(&self, options: &Options) -> Vec<ResourceKey> {
        let of_replicas = if self.limit_across_replicas { options.replica_identity() } else { None };
        self.resources().map(|(_, key)| key).chain(of_replicas).collect()
    }
}

impl SettingsBuilder {
    /// Records parts of the value of a key that are not available.
    pub(super) fn left_out(&mut self, key: &'static str, parts: &[String]) {
        if !parts.is_empty() {
            self.left_out.push((key, parts.join(", ")));
        }
    }

    /// Returns the keys with the parts of their values that are not available.
    pub(super) fn all_left_out(&self) -> &[(&'static str, String)] {
        &self.left_out
    }

    /// Returns the settings that must be set together with others and are not.
    pub(super) fn missing(&self) -> impl Iterator<Item = MissingSetting> + use<> {
        self.logs.missing(&self.global.access_log).chain(self.traces.missing(&self.global))
    }

    /// Returns an address for each family without one in `bind-address`, which is therefore closed;
    /// in ingress-nginx it is open.
    pub(super) fn closed_families(&self) -> impl Iterator<Item = (&'static str, IpAddr)> + use<> {
        let addresses = &self.bind_addresses;
        let has_ipv4 = addresses.iter().any(IpAddr::is_ipv4);
        let has_ipv6 = addresses.iter().any(IpAddr::is_ipv6);
        let without_ipv4 = has_ipv6 && !has_ipv4;
        let without_ipv6 = has_ipv4 && !has_ipv6 && !self.disable_ipv6;
        [
            (without_ipv4, "IPv4", Ipv4Addr::UNSPECIFIED.into()),
            (without_ipv6, "IPv6", Ipv6Addr::UNSPECIFIED.into()),
        ]
        .into_iter()
        .filter_map(|(is_closed, family, all)| is_closed.then_some((family, all)))
    }

    pub(super) fn resolved(
        mut self,
        closed: Option<Arc<str>>,
        unmatched_closed: Option<Arc<str>>,
    ) -> ConfigMapSettings {
        self.global_auth.snippet = self.snippets.authorisation.clone();
        self.annotation_limits.enforcing_firewall =
            Some(&self.snippets.firewall).filter(|firewall| firewall.enforces()).cloned();
        self.global.hsts = self.hsts_enabled.then_some(self.hsts);
        let names_servers = self.server_tokens.unwrap_or(true);
        // ingress-nginx removes the field from all responses then.
        let of_endpoints = names_servers && self.server_of_endpoints.unwrap_or(false);
        self.global.server_field = ServerField { of_endpoints, own: names_servers };
        if !self.tls_session_cache {
            self.global.tls.sessions.cache = 0;
        }
        self.traces.apply(&mut self.global.trace);
        self.logs.apply(&mut self.global.access_log);
        self.global.stream.log.enabled = self.logs.streams_are_enabled();
        self.global.stream.log.output = self.logs.output_of_streams();
        let mut addresses = self.bind_addresses;
        if addresses.is_empty() {
            addresses = vec![Ipv6Addr::UNSPECIFIED.into(), Ipv4Addr::UNSPECIFIED.into()];
        }
        // Unless no address would be left.
        if self.disable_ipv6 && addresses.iter().any(IpAddr::is_ipv4) {
            addresses.retain(IpAddr::is_ipv4);
        }
        let uses_http2 = self.global.use_http2;
        ConfigMapSettings {
            global: self.global,
            addresses,
            annotation_limits: self.annotation_limits,
            service_upstream: self.service_upstream,
            endpoint_tls_per_location: self.endpoint_tls_per_location,
            ipv4_names: self.ipv4_names,
            limit_across_replicas: self.limit_across_replicas,
            snippets: Box::new(GlobalSnippets {
                has_authorisation: self.global_auth.url.is_some(),
                uses_http2,
                ..self.snippets
            }),
            global_auth: Box::new(self.global_auth),
            closed,
            unmatched_closed,
        }
    }
}
