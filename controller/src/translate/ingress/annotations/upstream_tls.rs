//! TLS to endpoints.

use std::sync::Arc;

use sluice_config::{Moment, NamespacedName, ResourceKey, ResourceKind, TlsVersions, UpstreamTls};

use super::{Annotation, Settings};
use crate::translate::endpoint_name::read_endpoint_name;
use crate::translate::setting::{ReferenceTreatment, Risk, Unreadable};
use crate::translate::value;

const SECRET: &str = "proxy-ssl-secret";
const VERIFY: &str = "proxy-ssl-verify";

/// Parsed annotations of this family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointTls {
    secret: Option<NamespacedName>,
    verifies: bool,
    depth: u32,
    name: Option<Arc<str>>,
    sends_name: bool,
    versions: TlsVersions,
    ciphers: Option<Arc<[u16]>>,
}

impl Default for EndpointTls {
    fn default() -> Self {
        let UpstreamTls { name, sends_name, versions, ciphers, .. } = UpstreamTls::default();
        Self { secret: None, verifies: false, depth: 1, name, sends_name, versions, ciphers }
    }
}

impl EndpointTls {
    /// Returns the policy; `None` without a Secret, which ingress-nginx requires.
    fn policy(&self) -> Option<Arc<UpstreamTls>> {
        Some(Arc::new(UpstreamTls {
            identity: Some(self.identity()?),
            certificate: None,
            verify_depth: self.verifies.then_some(self.depth),
            name: self.name.clone(),
            name_per_request: None,
            sends_name: self.sends_name,
            versions: self.versions,
            ciphers: self.ciphers.clone(),
        }))
    }

    fn identity(&self) -> Option<ResourceKey> {
        let kind = if self.verifies { ResourceKind::EndpointTrust } else { ResourceKind::EndpointIdentity };
        Some(ResourceKey { kind, name: self.secret.clone()? })
    }
}

/// Computes the policy, and requires the Secret for the routes.
pub(super) fn finish(settings: &mut Settings, _: &NamespacedName) {
    settings.policies.upstream_tls = settings.upstream_tls.policy();
    settings.needs.extend(settings.upstream_tls.identity().map(|key| (key, SECRET)));
}

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            SECRET,
            value::secret(),
            "",
            "Secret with the authorities that verify endpoints (ca.crt) and the client certificate \
             (tls.crt, tls.key). While it is missing or unusable, the routes answer 503. Other \
             Ingresses of its namespace on the same host inherit it with the other proxy-ssl \
             annotations, unless the key proxy-ssl-location-only is set; those of another namespace \
             get a warning.",
            |settings, value| settings.upstream_tls.secret = Some(value),
        )
        .unreadable(Unreadable::Close, ReferenceTreatment::Close, "")
        .ingress(Risk::Medium)
        .protects(),
        Annotation::served(
            VERIFY,
            value::switch(),
            "off",
            "Accept only endpoints with a certificate for proxy-ssl-name that one of the authorities \
             signed; others cause 502. No effect without proxy-ssl-secret.",
            |settings, value| settings.upstream_tls.verifies = value,
        )
        .unreadable(Unreadable::Close, ReferenceTreatment::Default, "endpoints would not be verified")
        .beside(SECRET)
        .ingress(Risk::Low)
        .protects(),
        Annotation::served(
            "proxy-ssl-verify-depth",
            value::chain_depth(),
            "1",
            "Maximum number of intermediate certificates between the endpoint's and the authority's.",
            |settings, value| settings.upstream_tls.depth = value,
        )
        .beside(SECRET)
        .ingress(Risk::Low),
        Annotation::served(
            "proxy-ssl-name",
            value::text()
                .called("a DNS name or an address")
                .and_then(read_endpoint_name)
                .evaluated_at(Moment::Request),
            "",
            "Name for which an endpoint's certificate must be valid; by default that of the Service \
             (service.namespace.svc). $server_name is the host of the rule, and on a wildcard the same as \
             $host. A request whose values make no name gets 502.",
            |settings, value| settings.upstream_tls.name = Some(value),
        )
        .beside(SECRET)
        .ingress(Risk::High),
        Annotation::served(
            "proxy-ssl-server-name",
            value::switch(),
            "off",
            "Send proxy-ssl-name to the endpoint as SNI.",
            |settings, value| settings.upstream_tls.sends_name = value,
        )
        .beside(SECRET)
        .ingress(Risk::Low),
        Annotation::served(
            "proxy-ssl-protocols",
            value::tls_versions(),
            "TLSv1.2 TLSv1.3",
            "TLS versions offered to endpoints; those before TLSv1.2 are skipped.",
            |settings, value| settings.upstream_tls.versions = value,
        )
        .beside(SECRET)
        .ingress(Risk::Low),
        Annotation::served(
            "proxy-ssl-ciphers",
            value::tls_ciphers(),
            "DEFAULT",
            "TLS 1.2 cipher suites offered to endpoints, out of the six with forward secrecy and \
             authenticated encryption. Those of TLS 1.3 are always offered.",
            |settings, value| settings.upstream_tls.ciphers = Some(value),
        )
        .beside(SECRET)
        .ingress(Risk::Medium),
    ]
}
