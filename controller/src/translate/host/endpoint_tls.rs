//! Which Ingresses of a host lack the `proxy-ssl-*` annotations that count for the whole host in
//! ingress-nginx.

use std::sync::Arc;

use sluice_config::{Code, HostPattern, UpstreamProtocol};

use super::{Builder, object_ref};
use crate::problem::warning;
use crate::translate::annotations;
use crate::translate::facts::Facts;

impl Builder<'_, '_> {
    /// Reports to Ingresses whose endpoints speak TLS that an older one of their namespace has the
    /// annotations.
    pub(super) fn without_endpoint_tls(&mut self, pattern: &HostPattern, claimants: &[&Arc<Facts>]) {
        let Some(owner) = claimants.iter().find(|facts| has_identity(facts)) else { return };
        let owner = &owner.ingress.name;
        let siblings = claimants.iter().filter(|facts| facts.ingress.name.namespace == owner.namespace);
        for facts in siblings.filter(|facts| speaks_tls(facts) && !has_identity(facts)) {
            self.add(warning(
                Code::EndpointTlsOfSibling,
                &object_ref(facts),
                annotations::field(&self.view.options.annotations_prefix, "proxy-ssl-secret"),
                format!(
                    "is not set, and Ingress {owner} has it for host {pattern}: in ingress-nginx it counts for this \
                     Ingress too, and here its endpoints are neither verified nor shown a certificate"
                ),
                "set the proxy-ssl annotations here too, if its endpoints need them",
            ));
        }
    }
}

fn has_identity(facts: &Facts) -> bool {
    let tls = facts.policies("/").upstream_tls.clone();
    tls.is_some_and(|tls| tls.identity.is_some())
}

fn speaks_tls(facts: &Facts) -> bool {
    matches!(facts.protocol, Some(UpstreamProtocol::HttpsUnverified | UpstreamProtocol::GrpcsUnverified))
}
