//! Computes the routes of an Ingress: the hosts that it claims and the policies of its rules. Reads
//! the Ingress, its class and the annotation limits, and no other Ingress, so that none can break
//! another.

use std::sync::{Arc, LazyLock};

use sluice_config::{
    Code, Deny, GroupId, HostPattern, ListenerId, NamespacedName, ObjectRef, Problem, UpstreamProtocol,
};

use super::annotations::{self, Treatment};
use super::class::{self, Selection};
use super::names;
use crate::options::Options;
use crate::problem::{because, error, warning};
use crate::store::{Ingress, IngressRule, Kind, ObjectKey, PathType};
use crate::translate::routes::claim::ClaimKind;
use crate::translate::routes::{HostRoutes, ObjectRoutes, REJECTED, RuleRoutes};
use crate::translate::setting::{AnnotationLimits, annotation_field};
use crate::translate::value;
use crate::translate::view::View;

/// All Ingresses share one listener for every host.
static LISTENERS: LazyLock<Arc<[(GroupId, ListenerId)]>> =
    LazyLock::new(|| [(GroupId::ingress(), ListenerId::any())].into());

/// Computes the node. The value is `None` for an Ingress that is not served.
pub(crate) fn compute(view: &View<'_>, name: &NamespacedName) -> (Option<ObjectRoutes>, Vec<Problem>) {
    let Some(ingress) = view.ingress(name) else { return (None, Vec::new()) };
    let class_problem = match class::select(view, ingress) {
        Selection::OutOfScope => return (None, Vec::new()),
        Selection::NotOurs(problem) => return (None, problem.into_iter().collect()),
        Selection::Undecided => return (None, vec![class::undecided(ingress)]),
        Selection::Ours(problem) => problem,
    };
    let key = ObjectKey { kind: Kind::Ingress, name: name.clone() };
    let object = key.object_ref();
    let annotation_limits = view.annotation_limits();
    let http = view.http_declarations();
    let parsed = annotations::parse(ingress, view.options, annotation_limits, http);
    let mut problems = parsed.problems;
    problems.extend(class_problem);
    let takes_requests = parsed.treatment == Treatment::Canary { rejected: false };
    let (kind, mut deny) = match parsed.treatment {
        Treatment::Canary { .. } => (ClaimKind::Canary, None),
        Treatment::Close(deny) => (ClaimKind::Rule, Some(deny)),
        Treatment::Serve => (ClaimKind::Rule, None),
    };
    let mut gives_way_to_copies = parsed.closed_by_snippets;
    let mut default_backend = ingress.default_backend.clone();
    if view.options.disable_catch_all && default_backend.is_some() && kind == ClaimKind::Rule {
        // Closes its rules. The catch-all is not claimed: with this flag no Ingress may have it.
        default_backend = None;
        gives_way_to_copies = false;
        deny = Some(without_catch_all(&object, &mut problems));
    }
    let mut hosts = hosts(ingress, kind, &object, annotation_limits, &mut problems);
    if ingress.rules.is_empty() && default_backend.is_some() {
        hosts.push((HostPattern::Any, Vec::new()));
    }
    // For a closed Ingress, an unreadable value may have meant true.
    let on = |name| ingress.annotation(name).is_some_and(|text| value::truth(text) != Ok(false));
    let regex = deny.is_some() && (on("use-regex") || ingress.annotation("rewrite-target").is_some());
    let mut settings = parsed.settings;
    let aliases = match (&deny, kind) {
        (_, ClaimKind::Canary) => Box::default(),
        (Some(_), _) => names::further(names::readable_aliases(ingress), on("from-to-www-redirect"), &hosts),
        (None, _) => {
            let (aliases, www) = settings.take_further_names();
            names::further(aliases, www, &hosts)
        }
    };
    let is_closed = deny.is_some();
    let (policies, mut settings) = settings.into_routes(deny, &view.options.annotations_prefix);
    settings.closes_hosts = parsed.closes_hosts;
    settings.passthrough &= view.options.enable_ssl_passthrough && kind == ClaimKind::Rule;
    settings.protocol = match settings.protocol {
        // As in ingress-nginx: its endpoints expect TLS on the plain port, too.
        None | Some(UpstreamProtocol::Http) if settings.passthrough => {
            Some(UpstreamProtocol::HttpsUnverified)
        }
        Some(UpstreamProtocol::Grpc) if settings.passthrough => Some(UpstreamProtocol::GrpcsUnverified),
        given => given,
    };
    settings.canary = takes_requests.then(|| settings.canary.unwrap_or_default());
    settings.redirect = settings.redirect.filter(|_| !is_closed);
    let routes = ObjectRoutes {
        object: key,
        created: ingress.created,
        kind,
        listeners: LISTENERS.clone(),
        hosts: hosts
            .into_iter()
            .map(|(pattern, rules)| HostRoutes { pattern, rules: rules.into() })
            .collect(),
        aliases,
        default_backend: default_backend.map(Box::new),
        tls: ingress.tls.clone(),
        gives_way_to_copies,
        regex,
        policies: Arc::new(policies),
        settings: settings.share(),
    };
    problems.extend(without_session_path(&routes, &object, view.options));
    (Some(routes), problems)
}

/// Reports a default backend of an Ingress while the flags permit no catch-all.
fn without_catch_all(object: &ObjectRef, problems: &mut Vec<Problem>) -> Deny {
    let reason = "--disable-catch-all is set, so an Ingress with a default backend is rejected";
    let message = format!("{reason}; all routes of this Ingress answer {REJECTED}");
    let remedy = "remove spec.defaultBackend, or the flag";
    problems.push(error(Code::CatchAllDisabled, object, "spec.defaultBackend", message, remedy));
    Deny { status: REJECTED, reason: because(object, "spec.defaultBackend", reason) }
}

/// Reports sessions on paths that are expressions, to which no browser returns a cookie.
fn without_session_path(routes: &ObjectRoutes, object: &ObjectRef, options: &Options) -> Option<Problem> {
    routes.settings.affinity.as_ref()?;
    routes.hosts.iter().any(|host| routes.makes_expressions(&host.pattern)).then(|| {
        warning(
            Code::SessionPathMissing,
            object,
            annotation_field(&options.annotations_prefix, "session-cookie-path"),
            "is not given, and the paths are regular expressions, so the session cookie holds for all paths of \
             the host",
            "set the path of the cookie",
        )
    })
}

/// Returns the hosts of the rules of an Ingress, each with its rules.
fn hosts(
    ingress: &Ingress,
    kind: ClaimKind,
    object: &ObjectRef,
    annotation_limits: &AnnotationLimits,
    problems: &mut Vec<Problem>,
) -> Vec<(HostPattern, Vec<RuleRoutes>)> {
    let mut hosts: Vec<(HostPattern, Vec<RuleRoutes>)> = Vec::new();
    for (index, rule) in (0u32..).zip(&ingress.rules) {
        let pattern = rule.host.as_deref().map(names::host_pattern).transpose();
        let is_misnamed = pattern.is_err();
        let pattern = match pattern {
            Ok(pattern) => pattern.unwrap_or(HostPattern::Any),
            Err(reason) => {
                let Some(meant) = misnamed(index, rule, kind, reason, object, problems) else { continue };
                meant
            }
        };
        if annotation_limits.strict_paths {
            unusual_paths(index, rule, object, problems);
        }
        let rule = RuleRoutes { index, paths: rule.paths.clone(), is_misnamed };
        match hosts.iter_mut().find(|(host, _)| *host == pattern) {
            Some((_, rules)) => rules.push(rule),
            None => hosts.push((pattern, vec![rule])),
        }
    }
    hosts
}

/// Reports an invalid host. Returns the host that requests for it would have.
fn misnamed(
    index: u32,
    rule: &IngressRule,
    kind: ClaimKind,
    reason: &str,
    object: &ObjectRef,
    problems: &mut Vec<Problem>,
) -> Option<HostPattern> {
    let host = rule.host.as_deref().unwrap_or_default();
    // Claims that change other Ingresses' rules close nothing.
    let meant = names::meant_by(host).filter(|_| kind == ClaimKind::Rule);
    let fate = match &meant {
        Some(meant) => format!("its paths answer {REJECTED} on host {meant}"),
        None => "the rule is left out".to_owned(),
    };
    problems.push(error(
        Code::HostInvalid,
        object,
        format!("spec.rules[{index}].host"),
        format!("{host:?} {reason}; {fate}"),
        "write a DNS name such as shop.example, or *.shop.example for one more label",
    ));
    meant
}

/// Reports paths that an API server with strict path validation rejects.
fn unusual_paths(index: u32, rule: &IngressRule, object: &ObjectRef, problems: &mut Vec<Problem>) {
    let paths = rule.paths.iter().flat_map(|paths| paths.iter()).enumerate();
    let is_unusual = |path_type, path: &str| path_type != PathType::ImplementationSpecific && !is_plain(path);
    for (at, path) in paths.filter(|(_, path)| is_unusual(path.path_type, &path.path)) {
        problems.push(warning(
            Code::PathUnusual,
            object,
            format!("spec.rules[{index}].http.paths[{at}].path"),
            format!(
                "path {:?} cannot be used with pathType {:?}: it has characters beyond letters, digits and . _ - /",
                path.path, path.path_type
            ),
            "give an expression the pathType ImplementationSpecific; any other path is compared literally with \
             decoded request paths, so check that this is meant",
        ));
    }
}

fn is_plain(path: &str) -> bool {
    path.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b))
}
