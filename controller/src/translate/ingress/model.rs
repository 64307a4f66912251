//! What one Ingress asks for: the hosts it claims and the policies of its rules. Reads the Ingress, its class
//! and the limits of annotations, and nothing of other Ingresses, so that one cannot break another here.

use std::collections::BTreeSet;
use std::sync::Arc;

use sluice_config::{
    Authorisation, Balance, Code, Deny, ErrorPages, HashBy, HostKey, HostName, HostPattern, HttpsRedirect,
    Keyed, NamespacedName, ObjectRef, Policies, Problem, Redirect, Replacements, ResourceKey, Rewrite,
    UpstreamProtocol, UpstreamTls,
};

use super::annotations::{
    self, Affinity, AnnotationLimits, BackendProtocol, Canary, HostClosure, REJECTED, RewriteError,
    Rewriting, Treatment,
};
use super::class::{self, Selection};
use super::names;
use crate::problem::{because, error, warning};
use crate::shared::Shared;
use crate::store::{Ingress, IngressBackend, PathType};
use crate::translate::expression::Expressions;
use crate::translate::external_auth::AuthSettings;
use crate::translate::mirror::MirrorSettings;
use crate::translate::routes::backend::Usage;
use crate::translate::routes::claim::ClaimKind;
use crate::translate::routes::host;
use crate::translate::value;
use crate::translate::view::View;

/// An Ingress that is ours. One that is rejected, or asks for what cannot be done, keeps its claims: its
/// policies deny every request, so that nothing it covers is served by a broader rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct IngressModel {
    /// The object.
    pub(crate) ingress: Arc<Ingress>,
    /// The hosts it claims, each with its rules by index.
    hosts: Box<[(HostPattern, Box<[u32]>)]>,
    /// Further names, and why it has each: they count where nobody has a rule for them.
    aliases: Box<[(HostPattern, ClaimKind)]>,
    /// What it wants the hosts of its rules for.
    kind: ClaimKind,
    /// Rules whose host no Ingress may have but requests can: closed under the host that they can only mean.
    misnamed: Box<[u32]>,
    /// What else it closes on its hosts.
    pub(crate) closes_hosts: Option<HostClosure>,
    /// Whether a copy of one of its paths without snippets, of the same namespace, is served in its
    /// place.
    pub(crate) gives_way_to_copies: bool,
    /// What is spoken to its endpoints, where it does not leave that to the Service.
    pub(crate) protocol: Option<UpstreamProtocol>,
    /// How its endpoints are used where no session decides.
    usage: Usage,
    /// `service-upstream`; the ConfigMap's without it.
    service_upstream: Option<bool>,
    /// Whether the paths of a closed Ingress can be meant as regular expressions.
    pub(crate) regex: bool,
    /// What it asks for, also where it is closed.
    rewriting: Option<Box<Rewriting>>,
    /// What all its paths answer with, in place of a backend.
    pub(crate) redirect: Option<Box<Redirect>>,
    /// Which requests a canary takes; none where it is rejected.
    pub(crate) canary: Option<Box<Canary>>,
    has_default_backend: bool,
    policies: Arc<Policies>,
    affinity: Option<Box<Affinity>>,
    /// Who says which requests get in.
    pub(crate) external_auth: Option<Box<AuthSettings>>,
    /// Where its requests are copied to.
    pub(crate) mirror: Option<Box<MirrorSettings>>,
    /// The Service that answers in place of errors.
    pub(crate) error_backend: Option<Box<str>>,
    /// Resources without which its routes are closed, each with the field that names it; also where they are closed in
    /// any case, so that all that is wrong is told at once.
    needs: Box<[(ResourceKey, Box<str>)]>,
}

/// What the node gives: nothing when the Ingress is not ours, or claims nothing.
pub(crate) type Output = (Option<IngressModel>, Vec<Problem>);

/// Computes the node.
pub(crate) fn compute(view: &View<'_>, name: &NamespacedName) -> Output {
    let Some(ingress) = view.ingress(name) else { return (None, Vec::new()) };
    match class::select(view, ingress) {
        Selection::NotOurs(problem) => return (None, problem.into_iter().collect()),
        Selection::Undecided => return (None, vec![class::undecided(ingress)]),
        Selection::Ours => {}
    }
    let object = ObjectRef { kind: "Ingress".into(), name: name.clone() };
    let annotation_limits = view.annotation_limits();
    let prefix = &view.options.annotations_prefix;
    let parsed = annotations::parse(ingress, view.options, annotation_limits);
    let mut problems = parsed.problems;
    let takes_requests = parsed.treatment == Treatment::Canary { rejected: false };
    let (kind, mut deny) = match parsed.treatment {
        Treatment::Canary { .. } => (ClaimKind::Canary, None),
        Treatment::Close(deny) => (ClaimKind::Rule, Some(deny)),
        Treatment::Serve => (ClaimKind::Rule, None),
    };
    let mut gives_way_to_copies = parsed.closed_by_snippets;
    let mut has_default_backend = ingress.default_backend.is_some();
    if view.options.disable_catch_all && has_default_backend && kind == ClaimKind::Rule {
        // Its rules are closed. The catch-all is none of its claims: nobody may have that with this flag.
        has_default_backend = false;
        gives_way_to_copies = false;
        let reason = "--disable-catch-all is set, so an Ingress with a default backend is rejected";
        let message = format!("{reason}; all routes of this Ingress answer {REJECTED}");
        let remedy = "remove spec.defaultBackend, or the flag";
        problems.push(error(Code::CatchAllDisabled, &object, "spec.defaultBackend", message, remedy));
        let reason = because(&object, "spec.defaultBackend", reason);
        deny = Some(Deny { status: REJECTED, reason });
    }
    let mut claims = Claims::read(ingress, kind, &object, annotation_limits, &mut problems);
    if ingress.rules.is_empty() && has_default_backend {
        claims.hosts.push((HostPattern::Any, Vec::new()));
    }
    // Of what is closed, a slip may have meant either.
    let on = |name| ingress.annotation(name).is_some_and(|text| value::truth(text) != Ok(false));
    let regex = deny.is_some() && (on("use-regex") || ingress.annotation("rewrite-target").is_some());
    let settings = parsed.settings;
    let needs = settings.needs().map(|(key, name)| (key, annotations::field(prefix, name).into())).collect();
    let aliases = match (&deny, kind) {
        (_, ClaimKind::Canary) => Box::default(),
        (Some(_), _) => {
            names::further(names::readable_aliases(ingress), on("from-to-www-redirect"), &claims.hosts)
        }
        (None, _) => names::further(settings.aliases.names, settings.redirection.www, &claims.hosts),
    };
    let canary = Some(settings.canary).filter(|_| takes_requests);
    let rewriting = Some(settings.rewriting).filter(|rewriting| !rewriting.is_idle());
    let policies = Policies {
        deny,
        unlogged: settings.unlogged,
        https_redirect: settings.https_redirect,
        locations: settings.locations,
        sources: settings.sources,
        satisfy: settings.satisfy,
        limits: settings.limiting.policy(name),
        cors: settings.cors.policy(),
        headers: settings.heads.policy(),
        upstream_tls: settings.upstream_tls.policy(),
        http_1_0: settings.http_1_0,
        follows_scheme: settings.protocol == BackendProtocol::OfClient,
        replacements: (settings.replacements != Replacements::default())
            .then(|| Arc::new(settings.replacements)),
        timeouts: settings.timeouts,
        retry: settings.retry,
        affinity: settings.affinity.for_path("/"),
        // A session decides before a key does.
        hash_by: match settings.affinity.is_enabled() {
            true => None,
            false => settings.balancing.hash_by().map(Arc::new),
        },
        basic_auth: settings.auth.basic(),
        digest_auth: settings.auth.digest(),
        bodies: settings.bodies,
        authorisation: match settings.global_auth {
            true => Authorisation::Global,
            false => Authorisation::Off,
        },
        error_pages: ErrorPages {
            statuses: settings.errors.statuses,
            keeps_responses: settings.errors.keeps_responses,
            // Its Service is looked up where hosts are made.
            backend: None,
        },
        // Its pool is looked up there too.
        mirror: None,
        // It differs from path to path.
        canaries: Vec::new(),
        rewrite: None,
    };
    let policies = Arc::new(policies);
    let external_auth = settings.external_auth.url.is_some().then(|| Box::new(settings.external_auth));
    let mirror = settings.mirror.target.is_some().then(|| Box::new(settings.mirror));
    let affinity = settings.affinity.depends_on_path().then(|| Box::new(settings.affinity));
    let redirect = settings.redirection.everywhere().filter(|_| policies.deny.is_none());
    let model = IngressModel {
        ingress: ingress.clone(),
        redirect: redirect.map(Box::new),
        hosts: claims.hosts.into_iter().map(|(host, rules)| (host, rules.into())).collect(),
        aliases,
        kind,
        misnamed: claims.misnamed.into(),
        closes_hosts: parsed.closes_hosts,
        gives_way_to_copies,
        protocol: settings.protocol.given(),
        usage: Usage {
            balance: match policies.hash_by.as_deref() {
                Some(HashBy { subset: None, .. }) => Balance::Ring,
                _ => settings.balancing.balance,
            },
            slow_start: settings.balancing.slow_start,
            health_check: settings.health.check(),
        },
        service_upstream: settings.balancing.service_upstream,
        regex,
        rewriting: rewriting.map(Box::new),
        canary: canary.map(Box::new),
        has_default_backend,
        policies,
        affinity,
        external_auth,
        mirror,
        error_backend: settings.errors.backend,
        needs,
    };
    problems.extend(model.without_session_path(&object, prefix));
    (Some(model), problems)
}

impl Keyed for IngressModel {
    type Key = NamespacedName;

    fn key(&self) -> &NamespacedName {
        &self.ingress.name
    }
}

impl IngressModel {
    /// Most Ingresses ask for the same few things, or for nothing: they hold one copy of it.
    pub(crate) fn share(&mut self, policies: &mut Shared<Policies>) {
        self.policies = policies.keep(self.policies.clone());
    }

    /// All hosts that it claims, each once, those that it may yet have to leave to others included.
    pub(crate) fn claims(&self) -> impl Iterator<Item = (HostKey, ClaimKind)> {
        let own = self.hosts.iter().map(|(pattern, _)| (pattern, self.kind));
        let further = self.aliases.iter().map(|(pattern, kind)| (pattern, *kind));
        own.chain(further).map(|(pattern, kind)| (host::key(pattern), kind))
    }

    /// Whether it is not rejected as a whole: an address in the status of a rejected one would say that it is served.
    pub(crate) fn is_admitted(&self) -> bool {
        self.closed().is_none_or(|deny| deny.status != REJECTED)
    }

    /// Why all its routes are closed, if they are.
    pub(crate) fn closed(&self) -> Option<&Deny> {
        self.policies.deny.as_ref()
    }

    /// `spec.defaultBackend`, unless it may have none.
    pub(crate) fn default_backend(&self) -> Option<&IngressBackend> {
        self.ingress.default_backend.as_ref().filter(|_| self.has_default_backend)
    }

    /// Whether the host of a rule is none that an Ingress may have.
    pub(crate) fn is_misnamed(&self, rule: u32) -> bool {
        self.misnamed.contains(&rule)
    }

    /// The host whose rules hold under a further name. Of several it is the first by name, as in ingress-nginx.
    pub(crate) fn host_of_alias(&self) -> Option<&HostPattern> {
        self.hosts.iter().map(|(host, _)| host).min()
    }

    /// The host that a name is redirected to which differs by its `www.`.
    pub(crate) fn host_of_sibling(&self, name: &HostPattern) -> Option<&HostName> {
        let host = names::sibling(name)?;
        self.hosts.iter().find_map(|(own, _)| match own {
            HostPattern::Exact(name) if *own == host => Some(name),
            _ => None,
        })
    }

    /// Whether it makes all paths of a host regular expressions.
    pub(crate) fn makes_expressions(&self, pattern: &HostPattern) -> bool {
        let Some(rewriting) = self.rewriting.as_ref().filter(|_| self.closed().is_none()) else {
            return false;
        };
        self.rules_of(pattern).iter().any(|rule| {
            let paths = self.ingress.rules[*rule as usize].paths.iter().flatten();
            paths.into_iter().any(|path| rewriting.makes_expressions(&path.path))
        })
    }

    /// What a path becomes on its way to an endpoint, and the first number of a group that it lacks.
    pub(crate) fn rewrite(
        &self,
        path: &str,
        expressions: &Expressions,
    ) -> Result<Option<(Rewrite, Option<usize>)>, RewriteError> {
        self.rewriting.as_ref().map_or(Ok(None), |rewriting| rewriting.for_path(path, expressions))
    }

    /// Where `/` of its hosts is redirected to.
    pub(crate) fn app_root(&self) -> Option<&Arc<str>> {
        self.rewriting.as_ref().filter(|_| self.closed().is_none())?.app_root.as_ref()
    }

    /// No browser sends a cookie back whose path is an expression.
    fn without_session_path(&self, object: &ObjectRef, prefix: &str) -> Option<Problem> {
        self.affinity.as_ref()?;
        self.hosts.iter().any(|(host, _)| self.makes_expressions(host)).then(|| {
            warning(
                Code::SessionPathMissing,
                object,
                format!("metadata.annotations[{prefix}/session-cookie-path]"),
                "is not given, and the paths are regular expressions, so the session cookie holds for all paths of \
                 the host",
                "say for which path the cookie is",
            )
        })
    }

    /// The policies of a rule that is closed by itself, with the reason `field: reason`.
    pub(crate) fn policies_of_closed(&self, field: &str, reason: &str, status: u16) -> Arc<Policies> {
        if self.closed().is_some() {
            return self.policies.clone();
        }
        let object = ObjectRef { kind: "Ingress".into(), name: self.ingress.name.clone() };
        let reason = because(&object, field, reason);
        let deny = Some(Deny { status, reason });
        Arc::new(Policies { deny, ..(*self.policies).clone() })
    }

    /// The policies of a rule with this path.
    pub(crate) fn policies(&self, path: &str) -> Arc<Policies> {
        match &self.affinity {
            Some(affinity) if path != "/" && !self.has_expression(path) => {
                Arc::new(Policies { affinity: affinity.for_path(path), ..(*self.policies).clone() })
            }
            _ => self.policies.clone(),
        }
    }

    fn has_expression(&self, path: &str) -> bool {
        self.rewriting.as_ref().is_some_and(|rewriting| rewriting.makes_expressions(path))
    }

    /// The policies where the Ingress is the catch-all: there it redirects nothing to https, since the hosts
    /// of other people end there too.
    pub(crate) fn catch_all_policies(&self) -> Arc<Policies> {
        let https_redirect = HttpsRedirect { ssl: Some(false), force: Some(false) };
        Arc::new(Policies { https_redirect, ..(*self.policies).clone() })
    }

    /// TLS towards its endpoints.
    pub(crate) fn endpoint_tls(&self) -> Option<&Arc<UpstreamTls>> {
        self.policies.upstream_tls.as_ref()
    }

    /// Whether it has paths on a host.
    pub(crate) fn has_paths(&self, pattern: &HostPattern) -> bool {
        self.rules_of(pattern).iter().any(|rule| self.ingress.rules[*rule as usize].paths.is_some())
    }

    /// How its endpoints are used.
    pub(crate) fn usage(&self) -> Usage {
        match self.policies.affinity {
            Some(_) => Usage { balance: Balance::Ring, ..self.usage.clone() },
            None => self.usage.clone(),
        }
    }

    /// The same by a canary for which sessions do not count.
    pub(crate) fn usage_without_sessions(&self) -> Usage {
        self.usage.clone()
    }

    /// Whether its requests go to the addresses of Services in place of endpoints.
    pub(crate) fn goes_by_address(&self, view: &View<'_>) -> bool {
        self.service_upstream.unwrap_or_else(|| view.service_upstream())
    }

    /// The rules for a host, by index.
    pub(crate) fn rules_of(&self, pattern: &HostPattern) -> &[u32] {
        self.hosts.iter().find(|(host, _)| host == pattern).map_or(&[], |(_, rules)| rules)
    }

    /// Resources without which its routes are closed, each with the field that names it.
    pub(crate) fn needs(&self) -> &[(ResourceKey, Box<str>)] {
        &self.needs
    }

    /// The resources that it names.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &ResourceKey> {
        self.needs().iter().map(|(key, _)| key)
    }

    /// The Secrets that its TLS section names. Hosts get their certificates from those who have rules for them.
    pub(crate) fn secrets(&self) -> BTreeSet<NamespacedName> {
        let tls = self.ingress.tls.iter().filter(|_| self.kind != ClaimKind::Canary);
        let names = tls.filter_map(|tls| tls.secret.as_deref());
        names.map(|name| self.in_namespace(name)).collect()
    }

    /// An object of that name in the namespace of the Ingress.
    pub(crate) fn in_namespace(&self, name: &str) -> NamespacedName {
        NamespacedName { namespace: self.ingress.name.namespace.clone(), name: name.into() }
    }
}

/// What the rules of an Ingress claim.
#[derive(Default)]
struct Claims {
    hosts: Vec<(HostPattern, Vec<u32>)>,
    misnamed: Vec<u32>,
}

impl Claims {
    fn read(
        ingress: &Ingress,
        kind: ClaimKind,
        object: &ObjectRef,
        annotation_limits: &AnnotationLimits,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let mut claims = Self::default();
        for (index, rule) in (0u32..).zip(&ingress.rules) {
            let host = rule.host.as_deref().unwrap_or_default();
            let pattern = match rule.host.as_deref().map(names::host_pattern) {
                None => HostPattern::Any,
                Some(Ok(pattern)) => pattern,
                Some(Err(reason)) => {
                    // What changes others' rules closes nothing.
                    let meant = names::meant_by(host).filter(|_| kind == ClaimKind::Rule);
                    let fate = match &meant {
                        Some(meant) => format!("its paths answer {REJECTED} on host {meant}"),
                        None => "the rule is left out".to_owned(),
                    };
                    let remedy =
                        "write a DNS name such as shop.example, or *.shop.example for one more label";
                    let field = format!("spec.rules[{index}].host");
                    problems.push(error(
                        Code::HostInvalid,
                        object,
                        field,
                        format!("{host:?} {reason}; {fate}"),
                        remedy,
                    ));
                    let Some(meant) = meant else { continue };
                    claims.misnamed.push(index);
                    meant
                }
            };
            if annotation_limits.strict_paths {
                let unusual = rule.paths.iter().flatten().enumerate().filter(|(_, path)| {
                    path.path_type != PathType::ImplementationSpecific && !is_plain(&path.path)
                });
                for (at, path) in unusual {
                    problems.push(warning(
                        Code::PathUnusual,
                        object,
                        format!("spec.rules[{index}].http.paths[{at}].path"),
                        format!(
                            "path {:?} cannot be used with pathType {:?}: it has characters beyond letters, digits and . _ - /",
                            path.path, path.path_type
                        ),
                        "give an expression the pathType ImplementationSpecific; any other path is compared as it stands with \
                         decoded request paths, so check that this is meant",
                    ));
                }
            }
            match claims.hosts.iter_mut().find(|(host, _)| *host == pattern) {
                Some((_, rules)) => rules.push(index),
                None => claims.hosts.push((pattern, vec![index])),
            }
        }
        claims
    }
}

fn is_plain(path: &str) -> bool {
    path.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b))
}
