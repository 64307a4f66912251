//! The routes of one object: its contribution to the hosts that it claims.
//!
//! Hosts are computed from these values, independent of the kind of object. A value depends on its
//! own object alone, so one object cannot break another here.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use sluice_config::{
    Balance, CipherSuites, ClientCertificates, Deny, GroupId, HostKey, HostName, HostPattern, HttpsRedirect,
    Keyed, ListenerId, NamespacedName, Origin, Policies, Redirect, ResourceKey, Rewrite, UpstreamProtocol,
    UpstreamTls,
};

use super::claim::{Claim, ClaimKind};
use super::closure::{HostClosure, REJECTED};
use super::{Affinity, CanarySettings, RewriteError, Rewriting};
use crate::problem::because;
use crate::shared::Shared;
use crate::store::{BackendRef, ObjectKey, RoutePath, TlsSection};
use crate::translate::backend::BackendUsage;
use crate::translate::expression::Expressions;
use crate::translate::external_auth::AuthSettings;
use crate::translate::firewall::FirewallSettings;
use crate::translate::mirror::MirrorSettings;
use crate::translate::snippet::ObjectSnippets;

/// The routes of one object. An object that is rejected, or requests something that is not
/// available, keeps its claims: its policies deny every request, so no broader rule serves what it
/// covers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ObjectRoutes {
    /// The object.
    pub(crate) object: ObjectKey,
    /// Creation time in Unix seconds; `None` is older than all.
    pub(crate) created: Option<i64>,
    /// Why it claims the hosts of its rules.
    pub(crate) kind: ClaimKind,
    /// The listeners that serve its hosts.
    pub(crate) listeners: Arc<[(GroupId, ListenerId)]>,
    /// The hosts that it claims, each with its rules.
    pub(crate) hosts: Box<[HostRoutes]>,
    /// Further host names, each with its reason. They apply if no object has a rule for them.
    pub(crate) aliases: Box<[(HostPattern, ClaimKind)]>,
    /// Backend of requests that no path matches.
    pub(crate) default_backend: Option<Box<BackendRef>>,
    /// Sections that name the certificates of its hosts.
    pub(crate) tls: Arc<[TlsSection]>,
    /// Whether a copy of one of its paths, without snippets and of the same namespace, is served
    /// instead.
    pub(crate) gives_way_to_copies: bool,
    /// Whether the paths of a closed object may be regular expressions.
    pub(crate) regex: bool,
    /// The policies of its rules, as far as they depend on nothing else.
    pub(crate) policies: Arc<Policies>,
    /// Its other settings.
    pub(crate) settings: Arc<RouteSettings>,
}

/// A host that an object claims.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HostRoutes {
    pub(crate) pattern: HostPattern,
    /// Empty if its default backend gets every request.
    pub(crate) rules: Box<[RuleRoutes]>,
}

/// A rule of an object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RuleRoutes {
    /// Its index within the object.
    pub(crate) index: u32,
    /// Paths; `None` if the rule has no section for them.
    pub(crate) paths: Option<Arc<[RoutePath]>>,
    /// Whether its host is invalid for an object but possible in a request. The rule is then closed
    /// under the host that it must mean.
    pub(crate) is_misnamed: bool,
}

/// Settings beside the policies. A host turns them into policies, with the objects that they name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouteSettings {
    /// Closure of other routes of its hosts.
    pub(crate) closes_hosts: Option<HostClosure>,
    /// Protocol to its endpoints; `None` is that of the Service port.
    pub(crate) protocol: Option<UpstreamProtocol>,
    /// Whether TLS of its hosts is passed through.
    pub(crate) passthrough: bool,
    /// Use of its endpoints for requests without a session.
    pub(crate) usage: BackendUsage,
    /// `service-upstream`; `None` is the value of the ConfigMap.
    pub(crate) service_upstream: Option<bool>,
    /// Interpretation and rewriting of its paths, also if it is closed.
    pub(crate) rewriting: Rewriting,
    /// Redirect of all its paths, in place of a backend.
    pub(crate) redirect: Option<Redirect>,
    /// Requests that a canary gets; `None` if it is rejected.
    pub(crate) canary: Option<CanarySettings>,
    /// Sessions whose cookie differs from path to path.
    pub(crate) affinity: Option<Affinity>,
    /// Authorisation by another service.
    pub(crate) external_auth: Option<AuthSettings>,
    /// Typed directives of its snippets.
    pub(crate) snippets: ObjectSnippets,
    /// The web application firewall that it requests.
    pub(crate) firewall: FirewallSettings,
    /// Mirror of its requests.
    pub(crate) mirror: Option<MirrorSettings>,
    /// Service that serves error pages.
    pub(crate) error_backend: Option<Box<str>>,
    /// Client certificates that it asks for on its hosts, also if it is closed.
    pub(crate) client_certificates: Option<Arc<ClientCertificates>>,
    /// Cipher suites that it asks for on its hosts.
    pub(crate) cipher_suites: Option<Arc<CipherSuites>>,
    /// Resources without which its routes are closed, each with the field that names it. They are
    /// listed for closed routes too, so that all problems are reported at once.
    pub(crate) needs: Vec<(ResourceKey, Box<str>)>,
}

impl RouteSettings {
    /// Returns a shared value. Most objects have the default settings and hold one copy of them.
    pub(crate) fn share(self) -> Arc<Self> {
        static NONE: LazyLock<Arc<RouteSettings>> = LazyLock::new(Arc::default);
        if self == **NONE { NONE.clone() } else { Arc::new(self) }
    }
}

impl Keyed for ObjectRoutes {
    type Key = ObjectKey;

    fn key(&self) -> &ObjectKey {
        &self.object
    }
}

/// Returns whether an object with these routes, if it is served, has TLS settings.
pub(crate) fn has_tls(routes: Option<&Arc<ObjectRoutes>>) -> bool {
    routes.is_some_and(|routes| routes.has_tls())
}

impl ObjectRoutes {
    /// Interns the policies, because most objects have the same few.
    pub(crate) fn share(&mut self, policies: &mut Shared<Policies>) {
        self.policies = policies.keep(self.policies.clone());
    }

    /// Returns the namespace of the object.
    pub(crate) fn namespace(&self) -> &Arc<str> {
        &self.object.name.namespace
    }

    /// Returns the name of an object in the same namespace.
    pub(crate) fn in_namespace(&self, name: &str) -> NamespacedName {
        NamespacedName { namespace: self.namespace().clone(), name: name.into() }
    }

    /// Returns whether a rule of a host comes from this object.
    pub(crate) fn is_origin_of(&self, origin: &Origin) -> bool {
        origin.object.name == self.object.name && *origin.object.kind == *self.object.kind.as_str()
    }

    /// Returns its claim of a host for this reason.
    pub(crate) fn claim(&self, kind: ClaimKind) -> Claim {
        Claim { kind, object: self.object.clone(), created: self.created }
    }

    /// Returns all hosts that it claims, each once, including those that another object may win.
    pub(crate) fn claims(&self) -> impl Iterator<Item = (HostKey, ClaimKind)> {
        let own = self.hosts.iter().map(|host| (&host.pattern, self.kind));
        let further = self.aliases.iter().map(|(pattern, kind)| (pattern, *kind));
        own.chain(further).flat_map(move |(pattern, kind)| {
            let key = move |(group, listener): &(GroupId, ListenerId)| HostKey {
                group: group.clone(),
                listener: listener.clone(),
                pattern: pattern.clone(),
            };
            self.listeners.iter().map(move |listener| (key(listener), kind))
        })
    }

    /// Returns whether the object is not rejected. A rejected one gets no address in its status.
    pub(crate) fn is_admitted(&self) -> bool {
        self.closed().is_none_or(|deny| deny.status != REJECTED)
    }

    /// Returns the reason why all its routes are closed, if they are.
    pub(crate) fn closed(&self) -> Option<&Deny> {
        self.policies.deny.as_ref()
    }

    /// Returns its rules for a host.
    pub(crate) fn rules_of(&self, pattern: &HostPattern) -> &[RuleRoutes] {
        self.hosts.iter().find(|host| host.pattern == *pattern).map_or(&[], |host| &host.rules)
    }

    /// Returns all its paths.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &RoutePath> {
        self.hosts
            .iter()
            .flat_map(|host| &host.rules)
            .flat_map(|rule| rule.paths.iter().flat_map(|paths| &**paths))
    }

    /// Returns the path that a rule of a host comes from.
    pub(crate) fn path_of(&self, origin: &Origin) -> Option<&RoutePath> {
        let rule = self.hosts.iter().flat_map(|host| &host.rules).find(|rule| rule.index == origin.rule)?;
        rule.paths.as_deref()?.get(origin.match_index as usize)
    }

    /// Returns whether it has paths on a host.
    pub(crate) fn has_paths(&self, pattern: &HostPattern) -> bool {
        self.rules_of(pattern).iter().any(|rule| rule.paths.is_some())
    }

    /// Returns whether it consists of a default backend alone, for the requests of every host.
    pub(crate) fn is_catch_all(&self) -> bool {
        self.default_backend.is_some() && self.hosts.iter().all(|host| host.rules.is_empty())
    }

    /// Returns whether it has TLS settings, for any host.
    pub(crate) fn has_tls(&self) -> bool {
        !self.tls.is_empty()
    }

    /// Returns the host whose rules apply to aliases: the first by name, as in ingress-nginx.
    pub(crate) fn host_of_alias(&self) -> Option<&HostPattern> {
        self.hosts.iter().map(|host| &host.pattern).min()
    }

    /// Returns its host that differs from `name` by a leading `www.` only.
    pub(crate) fn host_of_sibling(&self, name: &HostPattern) -> Option<&HostName> {
        let HostPattern::Exact(name) = name else { return None };
        self.hosts.iter().find_map(|host| match &host.pattern {
            HostPattern::Exact(own) if is_sibling(own.as_str(), name.as_str()) => Some(own),
            _ => None,
        })
    }

    /// Returns whether it turns all paths of a host into regular expressions.
    pub(crate) fn makes_expressions(&self, pattern: &HostPattern) -> bool {
        if self.closed().is_some() {
            return false;
        }
        let mut paths = self.rules_of(pattern).iter().filter_map(|rule| rule.paths.as_deref()).flatten();
        paths.any(|path| self.settings.rewriting.makes_expressions(path))
    }

    /// Returns the rewrite of a path, and the first group number that the path lacks.
    pub(crate) fn rewrite(
        &self,
        path: &str,
        expressions: &Expressions,
    ) -> Result<Option<(Rewrite, Option<usize>)>, RewriteError> {
        self.settings.rewriting.for_path(path, expressions)
    }

    /// Returns the path that `/` of its hosts redirects to.
    pub(crate) fn app_root(&self) -> Option<&Arc<str>> {
        self.settings.rewriting.app_root.as_ref().filter(|_| self.closed().is_none())
    }

    /// Returns the policies of a rule that is closed separately, with the reason `field: reason`.
    pub(crate) fn policies_of_closed(&self, field: &str, reason: &str, status: u16) -> Arc<Policies> {
        if self.closed().is_some() {
            return self.policies.clone();
        }
        let reason = because(&self.object.object_ref(), field, reason);
        let deny = Some(Deny { status, reason });
        Arc::new(Policies { deny, ..(*self.policies).clone() })
    }

    /// Returns the policies of a rule with this path.
    pub(crate) fn policies(&self, path: &str) -> Arc<Policies> {
        match &self.settings.affinity {
            Some(affinity) if path != "/" && !self.settings.rewriting.is_expression(path) => {
                Arc::new(Policies { affinity: affinity.for_path(path), ..(*self.policies).clone() })
            }
            _ => self.policies.clone(),
        }
    }

    /// Returns the policies of the catch-all. It redirects nothing to https, because it also gets
    /// the requests for hosts of other owners.
    pub(crate) fn catch_all_policies(&self) -> Arc<Policies> {
        let https_redirect = HttpsRedirect { ssl: Some(false), force: Some(false) };
        Arc::new(Policies { https_redirect, ..(*self.policies).clone() })
    }

    /// Returns the TLS settings for its endpoints.
    pub(crate) fn endpoint_tls(&self) -> Option<&Arc<UpstreamTls>> {
        self.policies.upstream_tls.as_ref()
    }

    /// Returns how its endpoints are used.
    pub(crate) fn usage(&self) -> BackendUsage {
        match self.policies.affinity {
            Some(_) => BackendUsage { balance: Balance::Ring, ..self.settings.usage.clone() },
            None => self.settings.usage.clone(),
        }
    }

    /// Returns whether it names Services that a host must look up.
    pub(crate) fn has_own_services(&self) -> bool {
        let RouteSettings { external_auth, mirror, error_backend, .. } = &*self.settings;
        external_auth.is_some() || mirror.is_some() || error_backend.is_some()
    }

    /// Returns the resources that it names.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &ResourceKey> {
        let client = self.settings.client_certificates.as_ref();
        let authorities = client.map(|client| &client.verification.authorities);
        self.settings.needs.iter().map(|(key, _)| key).chain(authorities)
    }

    /// Returns the Secrets of its TLS sections. A canary has none, because a host gets its
    /// certificate from the objects that have rules for it.
    pub(crate) fn secrets(&self) -> BTreeSet<NamespacedName> {
        let tls = self.tls.iter().filter(|_| self.kind != ClaimKind::Canary);
        let names = tls.filter_map(|tls| tls.secret.as_deref());
        names.map(|name| self.in_namespace(name)).collect()
    }
}

/// Returns the field of a path for problems.
pub(crate) fn path_field(rule: u32, index: u32) -> String {
    format!("spec.rules[{rule}].http.paths[{index}]")
}

/// Returns whether two host names differ by a leading `www.` only; of two, `name` loses its own
/// first.
fn is_sibling(host: &str, name: &str) -> bool {
    match name.strip_prefix("www.") {
        Some(bare) => host == bare,
        None => host.strip_prefix("www.") == Some(name),
    }
}
