//! `proxy-ssl-*` settings that an object inherits from another object of its host.
//!
//! In ingress-nginx they apply to the whole host, unless `proxy-ssl-location-only` is set: the host
//! has those of the oldest object whose Secret contains `ca.crt`, or else those of the newest
//! object. A path overrides what the Secret of its own object contains. Sluice does the same within
//! a namespace, because a Secret must not be used for objects of another one. An unusable Secret is
//! assumed to contain `ca.crt`, so that no path loses its verification.

use std::sync::Arc;

use sluice_config::{
    Action, Backend, Code, EndpointIdentity, HostPattern, Policies, Resource, ResourceKey, Rule,
    UpstreamProtocol, UpstreamTls,
};

use super::Builder;
use crate::problem::warning;
use crate::store::ObjectKey;
use crate::translate::endpoint_name::{EndpointName, endpoint_name};
use crate::translate::routes::ObjectRoutes;
use crate::translate::view::View;

/// An object whose `proxy-ssl-*` settings apply to its whole host.
pub(super) struct TlsOwner {
    object: ObjectKey,
    secret: ResourceKey,
    tls: Arc<UpstreamTls>,
    has_authorities: bool,
    has_certificate: bool,
}

/// The settings of a rule, some of which another object provides.
pub(super) struct InheritedTls {
    pub(super) tls: Arc<UpstreamTls>,
    /// The Secret of the owner, if it is used.
    pub(super) secret: Option<ResourceKey>,
    pub(super) owner: ObjectKey,
}

/// Returns the owner of each namespace on a host.
pub(super) fn owners(
    view: &View<'_>,
    pattern: &HostPattern,
    claimants: &[&Arc<ObjectRoutes>],
) -> Vec<TlsOwner> {
    let has_secret =
        |routes: &&Arc<ObjectRoutes>| routes.endpoint_tls().is_some_and(|tls| tls.identity.is_some());
    if claimants.len() < 2 || !claimants.iter().any(has_secret) || view.endpoint_tls_per_location() {
        return Vec::new();
    }
    let mut namespaces: Vec<&str> = Vec::new();
    for routes in claimants {
        let namespace: &str = routes.namespace();
        if !namespaces.contains(&namespace) {
            namespaces.push(namespace);
        }
    }
    let owner = |namespace: &str| {
        // ingress-nginx rejects an object with a snippet.
        let counts = |routes: &&&Arc<ObjectRoutes>| {
            **routes.namespace() == *namespace && !routes.gives_way_to_copies && routes.has_paths(pattern)
        };
        let mut all = claimants.iter().filter(counts);
        let first = all.clone().filter_map(|routes| TlsOwner::of(view, routes));
        let first = first.into_iter().find(|owner| owner.has_authorities);
        first.or_else(|| TlsOwner::of(view, all.next_back()?))
    };
    namespaces.into_iter().filter_map(owner).collect()
}

impl TlsOwner {
    fn of(view: &View<'_>, routes: &ObjectRoutes) -> Option<Self> {
        let tls = routes.endpoint_tls()?;
        let secret = tls.identity.clone()?;
        let content = content(view, &secret);
        Some(Self {
            object: routes.object.clone(),
            has_authorities: content.is_none_or(|content| !content.authorities.certificates.is_empty()),
            has_certificate: content.is_some_and(|content| content.certificate.is_some()),
            secret,
            tls: tls.clone(),
        })
    }

    /// Returns the settings of an object, given its own settings and the content of its own Secret.
    fn applied_to(&self, own: &UpstreamTls, own_secret: Option<&EndpointIdentity>) -> UpstreamTls {
        let name = || own.name.clone().or_else(|| self.tls.name.clone().filter(|_| self.has_authorities));
        match own_secret {
            None if self.has_authorities => {
                // The host sets the name to send only together with the name.
                let sends_name = self.tls.sends_name && self.tls.name.is_some();
                UpstreamTls { sends_name, ..(*self.tls).clone() }
            }
            None => UpstreamTls { identity: Some(self.secret.clone()), ..own.clone() },
            Some(secret) if !secret.authorities.certificates.is_empty() => UpstreamTls {
                certificate: (self.has_certificate && secret.certificate.is_none())
                    .then(|| self.secret.clone()),
                name: name(),
                ..own.clone()
            },
            Some(_) if self.has_authorities => UpstreamTls {
                certificate: own.identity.clone(),
                name: name(),
                sends_name: own.sends_name,
                ..(*self.tls).clone()
            },
            Some(_) => own.clone(),
        }
    }
}

impl Builder<'_, '_> {
    /// Returns the settings of an object that inherits some.
    pub(super) fn inherited_tls(&self, routes: &ObjectRoutes) -> Option<InheritedTls> {
        let own_namespace = |owner: &&TlsOwner| owner.object.name.namespace == *routes.namespace();
        let owner = self.tls_owners.iter().find(own_namespace)?;
        if owner.object == routes.object {
            return None;
        }
        let own = routes.endpoint_tls().cloned().unwrap_or_default();
        let own_secret = match &own.identity {
            // An unusable one closes the routes itself.
            Some(key) => Some(content(self.view, key)?),
            None => None,
        };
        let tls = owner.applied_to(&own, own_secret);
        if tls == *own {
            return None;
        }
        let uses_secret = [&tls.identity, &tls.certificate].contains(&&Some(owner.secret.clone()));
        let secret = uses_secret.then(|| owner.secret.clone());
        Some(InheritedTls { tls: Arc::new(tls), secret, owner: owner.object.clone() })
    }

    /// Returns the settings with the variables of `proxy-ssl-name` that the rule determines
    /// replaced, if it has some.
    pub(super) fn named_tls(
        &self,
        routes: &ObjectRoutes,
        policies: &Policies,
        action: &Action,
    ) -> Option<Arc<UpstreamTls>> {
        let tls = policies.upstream_tls.as_ref()?;
        let text = tls.name.clone().filter(|name| name.contains('$'))?;
        let [host, server_name] = [self.served, self.host_of_rules].map(|pattern| match pattern {
            HostPattern::Exact(host) => Some(host.as_str()),
            _ => None,
        });
        let name = match service(action) {
            // It was validated when it was read.
            Some(service) => endpoint_name(&text, host, server_name, service, &routes.object.name).ok(),
            None => None,
        };
        let (name, name_per_request) = match name {
            Some(EndpointName::Fixed(name)) => (Some(name), None),
            Some(EndpointName::PerRequest(template)) => (None, Some(template)),
            None => (None, None),
        };
        Some(Arc::new(UpstreamTls { name, name_per_request, ..(**tls).clone() }))
    }

    /// Returns whether requests can go to an endpoint over TLS.
    pub(super) fn speaks_tls(&self, action: &Action, policies: &Policies) -> bool {
        let forwards = matches!(action, Action::Forward(_));
        forwards && policies.follows_scheme || self.uses_protocol(action, UpstreamProtocol::has_tls)
    }

    /// Returns whether a backend of the action has such a protocol.
    pub(super) fn uses_protocol(&self, action: &Action, is: fn(UpstreamProtocol) -> bool) -> bool {
        let Action::Forward(backends) = action else { return false };
        backends.iter().any(|backend| match &backend.backend {
            Backend::Pool { pool: key, .. } => {
                self.uses.pools.iter().any(|pool| pool.key == *key && is(pool.protocol))
            }
            Backend::Default | Backend::Invalid { .. } => false,
        })
    }

    /// Reports to objects with TLS to endpoints that one of another namespace has settings for the
    /// host.
    pub(super) fn report_foreign_tls(&mut self, pattern: &HostPattern, rules: &[Rule]) {
        let owners = &self.tls_owners;
        let Some(owner) = owners.iter().find(|owner| owner.has_authorities).or(owners.first()) else {
            return;
        };
        let owner = owner.object.clone();
        for rule in rules {
            let name = &rule.origin.object.name;
            let has_owner = self.tls_owners.iter().any(|owner| owner.object.name.namespace == name.namespace);
            if has_owner || !self.speaks_tls(&rule.action, &rule.policies) {
                continue;
            }
            let kind = &rule.origin.object.kind;
            self.add(warning(
                Code::EndpointTlsOfSibling,
                &rule.origin.object,
                self.view.setting_field(&rule.origin.object, "proxy-ssl-secret"),
                format!(
                    "is not set, and {owner} of another namespace has it for host {pattern}: in ingress-nginx \
                     it applies to this {kind} too; here it applies within a namespace only, so the endpoints of this \
                     {kind} are neither verified nor shown a certificate"
                ),
                "set the proxy-ssl annotations here too, with a Secret of this namespace, if the endpoints need them",
            ));
        }
    }
}

/// Returns the content of a Secret, if it is usable.
fn content<'v>(view: &View<'v>, key: &ResourceKey) -> Option<&'v EndpointIdentity> {
    match &**view.resource(key).good()? {
        Resource::EndpointIdentity(identity) => Some(identity),
        _ => None,
    }
}

/// Returns the name of the first Service that an action forwards to.
fn service(action: &Action) -> Option<&str> {
    let Action::Forward(backends) = action else { return None };
    backends.iter().find_map(|backend| match &backend.backend {
        Backend::Pool { pool, .. } => Some(&*pool.endpoints.service),
        Backend::Default | Backend::Invalid { .. } => None,
    })
}
