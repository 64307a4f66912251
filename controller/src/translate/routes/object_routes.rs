//! The routes of one object: what it contributes to the hosts that it claims.
//!
//! Hosts are built of these values, whatever kind of object they are made of. A value depends on its own object
//! alone, so one object cannot break another here.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use sluice_config::{
    Balance, Deny, GroupId, HostKey, HostName, HostPattern, HttpsRedirect, Keyed, ListenerId, NamespacedName,
    Origin, Policies, Redirect, ResourceKey, Rewrite, UpstreamProtocol, UpstreamTls,
};

use super::backend::Usage;
use super::claim::ClaimKind;
use super::closure::{HostClosure, REJECTED};
use super::{Affinity, CanarySettings, RewriteError, Rewriting};
use crate::problem::because;
use crate::shared::Shared;
use crate::store::{BackendRef, ObjectKey, RoutePath, TlsSection};
use crate::translate::expression::Expressions;
use crate::translate::external_auth::AuthSettings;
use crate::translate::mirror::MirrorSettings;

/// The routes of one object. One that is rejected, or asks for what cannot be done, keeps its claims: its policies
/// deny every request, so that nothing it covers is served by a broader rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ObjectRoutes {
    /// The object.
    pub(crate) object: ObjectKey,
    /// When it was made, in Unix seconds; without an answer it is older than all.
    pub(crate) created: Option<i64>,
    /// Why it claims the hosts of its rules.
    pub(crate) kind: ClaimKind,
    /// The listeners that serve its hosts.
    pub(crate) listeners: Arc<[(GroupId, ListenerId)]>,
    /// The hosts that it claims, each with its rules.
    pub(crate) hosts: Box<[HostRoutes]>,
    /// Further names, and why it has each: they count where no object has a rule for them.
    pub(crate) aliases: Box<[(HostPattern, ClaimKind)]>,
    /// The backend of requests that no path takes.
    pub(crate) default_backend: Option<Box<BackendRef>>,
    /// Certificates of its hosts.
    pub(crate) tls: Arc<[TlsSection]>,
    /// Whether a copy of one of its paths without snippets, of the same namespace, is served in its
    /// place.
    pub(crate) gives_way_to_copies: bool,
    /// Whether the paths of a closed object can be meant as regular expressions.
    pub(crate) regex: bool,
    /// The policies of its rules, as far as they depend on nothing else.
    pub(crate) policies: Arc<Policies>,
    /// What else it asks for.
    pub(crate) settings: Arc<RouteSettings>,
}

/// A host that an object claims.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HostRoutes {
    pub(crate) pattern: HostPattern,
    /// None where its default backend takes every request.
    pub(crate) rules: Box<[RuleRoutes]>,
}

/// A rule of an object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RuleRoutes {
    /// Its index within the object.
    pub(crate) index: u32,
    /// Its paths; `None` when it has no section for them.
    pub(crate) paths: Option<Arc<[RoutePath]>>,
    /// The object names a host that no object may have but requests can: the rule is closed under the host that it
    /// can only mean.
    pub(crate) is_misnamed: bool,
}

/// What an object asks for beside its policies: hosts make policies of it, with the objects that it names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RouteSettings {
    /// What else it closes on its hosts.
    pub(crate) closes_hosts: Option<HostClosure>,
    /// What is spoken to its endpoints, where it does not leave that to the Service.
    pub(crate) protocol: Option<UpstreamProtocol>,
    /// How its endpoints are used where no session decides.
    pub(crate) usage: Usage,
    /// `service-upstream`; the ConfigMap's without it.
    pub(crate) service_upstream: Option<bool>,
    /// How its paths are read and rewritten, also where it is closed.
    pub(crate) rewriting: Rewriting,
    /// What all its paths answer with, in place of a backend.
    pub(crate) redirect: Option<Redirect>,
    /// Which requests a canary takes; none where it is rejected.
    pub(crate) canary: Option<CanarySettings>,
    /// Sessions whose cookie differs from path to path.
    pub(crate) affinity: Option<Affinity>,
    /// Authorisation by another service.
    pub(crate) external_auth: Option<AuthSettings>,
    /// Where its requests are copied to.
    pub(crate) mirror: Option<MirrorSettings>,
    /// The Service that answers in place of errors.
    pub(crate) error_backend: Option<Box<str>>,
    /// Resources without which its routes are closed, each with the field that names it; also where they are closed in
    /// any case, so that all that is wrong is told at once.
    pub(crate) needs: Vec<(ResourceKey, Box<str>)>,
}

impl RouteSettings {
    /// Most objects ask for nothing: they hold one copy of it.
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

impl ObjectRoutes {
    /// Most objects have the same few policies: they hold one copy of them.
    pub(crate) fn share(&mut self, policies: &mut Shared<Policies>) {
        self.policies = policies.keep(self.policies.clone());
    }

    /// Namespace of the object.
    pub(crate) fn namespace(&self) -> &Arc<str> {
        &self.object.name.namespace
    }

    /// An object of that name in the same namespace.
    pub(crate) fn in_namespace(&self, name: &str) -> NamespacedName {
        NamespacedName { namespace: self.namespace().clone(), name: name.into() }
    }

    /// Whether a rule of a host was made of this object.
    pub(crate) fn is_origin_of(&self, origin: &Origin) -> bool {
        origin.object.name == self.object.name && *origin.object.kind == *self.object.kind.as_str()
    }

    /// All hosts that it claims, each once, those that it may yet have to leave to others included.
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

    /// Whether it is not rejected as a whole: an address in the status of a rejected one would say that it is served.
    pub(crate) fn is_admitted(&self) -> bool {
        self.closed().is_none_or(|deny| deny.status != REJECTED)
    }

    /// Why all its routes are closed, if they are.
    pub(crate) fn closed(&self) -> Option<&Deny> {
        self.policies.deny.as_ref()
    }

    /// The rules for a host.
    pub(crate) fn rules_of(&self, pattern: &HostPattern) -> &[RuleRoutes] {
        self.hosts.iter().find(|host| host.pattern == *pattern).map_or(&[], |host| &host.rules)
    }

    /// All its paths.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &RoutePath> {
        self.hosts
            .iter()
            .flat_map(|host| &host.rules)
            .flat_map(|rule| rule.paths.iter().flat_map(|paths| &**paths))
    }

    /// The path that a rule of a host was made of.
    pub(crate) fn path_of(&self, origin: &Origin) -> Option<&RoutePath> {
        let rule = self.hosts.iter().flat_map(|host| &host.rules).find(|rule| rule.index == origin.rule)?;
        rule.paths.as_deref()?.get(origin.match_index as usize)
    }

    /// Whether it has paths on a host.
    pub(crate) fn has_paths(&self, pattern: &HostPattern) -> bool {
        self.rules_of(pattern).iter().any(|rule| rule.paths.is_some())
    }

    /// Whether it is nothing but a default backend, which takes the requests of every host.
    pub(crate) fn is_catch_all(&self) -> bool {
        self.default_backend.is_some() && self.hosts.iter().all(|host| host.rules.is_empty())
    }

    /// The host whose rules hold under a further name. Of several it is the first by name, as in ingress-nginx.
    pub(crate) fn host_of_alias(&self) -> Option<&HostPattern> {
        self.hosts.iter().map(|host| &host.pattern).min()
    }

    /// The host that a name is redirected to which differs by its `www.`.
    pub(crate) fn host_of_sibling(&self, name: &HostPattern) -> Option<&HostName> {
        let HostPattern::Exact(name) = name else { return None };
        self.hosts.iter().find_map(|host| match &host.pattern {
            HostPattern::Exact(own) if is_sibling(own.as_str(), name.as_str()) => Some(own),
            _ => None,
        })
    }

    /// Whether it makes all paths of a host regular expressions.
    pub(crate) fn makes_expressions(&self, pattern: &HostPattern) -> bool {
        if self.closed().is_some() {
            return false;
        }
        let mut paths = self.rules_of(pattern).iter().filter_map(|rule| rule.paths.as_deref()).flatten();
        paths.any(|path| self.settings.rewriting.makes_expressions(&path.path))
    }

    /// What a path becomes on its way to an endpoint, and the first number of a group that it lacks.
    pub(crate) fn rewrite(
        &self,
        path: &str,
        expressions: &Expressions,
    ) -> Result<Option<(Rewrite, Option<usize>)>, RewriteError> {
        self.settings.rewriting.for_path(path, expressions)
    }

    /// Where `/` of its hosts is redirected to.
    pub(crate) fn app_root(&self) -> Option<&Arc<str>> {
        self.settings.rewriting.app_root.as_ref().filter(|_| self.closed().is_none())
    }

    /// The policies of a rule that is closed by itself, with the reason `field: reason`.
    pub(crate) fn policies_of_closed(&self, field: &str, reason: &str, status: u16) -> Arc<Policies> {
        if self.closed().is_some() {
            return self.policies.clone();
        }
        let reason = because(&self.object.object_ref(), field, reason);
        let deny = Some(Deny { status, reason });
        Arc::new(Policies { deny, ..(*self.policies).clone() })
    }

    /// The policies of a rule with this path.
    pub(crate) fn policies(&self, path: &str) -> Arc<Policies> {
        match &self.settings.affinity {
            Some(affinity) if path != "/" && !self.settings.rewriting.makes_expressions(path) => {
                Arc::new(Policies { affinity: affinity.for_path(path), ..(*self.policies).clone() })
            }
            _ => self.policies.clone(),
        }
    }

    /// The policies where the object is the catch-all: there it redirects nothing to https, since the hosts
    /// of other people end there too.
    pub(crate) fn catch_all_policies(&self) -> Arc<Policies> {
        let https_redirect = HttpsRedirect { ssl: Some(false), force: Some(false) };
        Arc::new(Policies { https_redirect, ..(*self.policies).clone() })
    }

    /// TLS towards its endpoints.
    pub(crate) fn endpoint_tls(&self) -> Option<&Arc<UpstreamTls>> {
        self.policies.upstream_tls.as_ref()
    }

    /// How its endpoints are used.
    pub(crate) fn usage(&self) -> Usage {
        match self.policies.affinity {
            Some(_) => Usage { balance: Balance::Ring, ..self.settings.usage.clone() },
            None => self.settings.usage.clone(),
        }
    }

    /// Whether hosts have to look up what its policies name.
    pub(crate) fn has_own_services(&self) -> bool {
        let RouteSettings { external_auth, mirror, error_backend, .. } = &*self.settings;
        external_auth.is_some() || mirror.is_some() || error_backend.is_some()
    }

    /// The resources that it names.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &ResourceKey> {
        self.settings.needs.iter().map(|(key, _)| key)
    }

    /// The Secrets that its TLS sections name. Hosts get their certificates from those who have rules for them.
    pub(crate) fn secrets(&self) -> BTreeSet<NamespacedName> {
        let tls = self.tls.iter().filter(|_| self.kind != ClaimKind::Canary);
        let names = tls.filter_map(|tls| tls.secret.as_deref());
        names.map(|name| self.in_namespace(name)).collect()
    }
}

/// The field of a path in problems.
pub(crate) fn path_field(rule: u32, index: u32) -> String {
    format!("spec.rules[{rule}].http.paths[{index}]")
}

/// Whether a host is the one that a name means which differs by its `www.`.
fn is_sibling(host: &str, name: &str) -> bool {
    match name.strip_prefix("www.") {
        Some(bare) => host == bare,
        None => host.strip_prefix("www.") == Some(name),
    }
}
