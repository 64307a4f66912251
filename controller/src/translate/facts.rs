//! What one Ingress asks for: the hosts it claims and the policies of its rules. Reads the Ingress, its class
//! and the gates for annotations, and nothing of other Ingresses, so that one cannot break another here.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use sluice_config::{
    Balance, HostName, HostPattern, HttpsRedirect, Keyed, NamespacedName, ObjectRef, Policies, Problem,
    UpstreamProtocol,
};

use super::annotations::{self, Affinity, Gates, Verdict};
use super::class::{self, Selection};
use super::selector::Selector;
use super::view::View;
use crate::problem::{error, warning};
use crate::shared::Shared;
use crate::store::{Ingress, PathType};

/// An Ingress that is served.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The object.
    pub(crate) ingress: Arc<Ingress>,
    /// The hosts it claims, each with its rules by index.
    pub(crate) hosts: Box<[(HostPattern, Box<[u32]>)]>,
    /// What is spoken to its endpoints.
    pub(crate) protocol: UpstreamProtocol,
    policies: Arc<Policies>,
    affinity: Option<Box<Affinity>>,
}

/// What the node gives: nothing when the Ingress is not served.
pub(crate) type Output = (Option<Facts>, Vec<Problem>);

/// Computes the node.
pub(crate) fn compute(view: &View<'_>, name: &NamespacedName, selector: Option<&Selector>) -> Output {
    let Some(ingress) = view.ingress(name) else { return (None, Vec::new()) };
    match class::select(view, ingress, selector) {
        Selection::NotOurs(problem) => return (None, problem.into_iter().collect()),
        Selection::Ours => {}
    }
    let object = ObjectRef { kind: "Ingress".into(), name: name.clone() };
    if view.options.disable_catch_all && ingress.default_backend.is_some() {
        let message = "--disable-catch-all is set, so an Ingress with a default backend is not served at all";
        let remedy = "remove spec.defaultBackend, or the flag";
        return (None, vec![error(&object, "spec.defaultBackend", message, remedy)]);
    }
    let gates = view.gates();
    let (prefix, validate) = (&view.options.annotations_prefix, view.options.enable_annotation_validation);
    let parsed = annotations::parse(ingress, prefix, validate, gates);
    let mut problems = parsed.problems;
    let deny = match parsed.verdict {
        Verdict::Drop => return (None, problems),
        Verdict::Deny(deny) => Some(deny),
        Verdict::Serve => None,
    };
    let hosts = claims(ingress, &object, gates, &mut problems);
    let settings = parsed.settings;
    let policies = Policies {
        deny,
        https_redirect: settings.https_redirect,
        timeouts: settings.timeouts,
        retry: settings.retry,
        affinity: settings.affinity.for_path("/"),
    };
    let policies = Arc::new(policies);
    let affinity = settings.affinity.depends_on_path().then(|| Box::new(settings.affinity));
    let facts = Facts { ingress: ingress.clone(), hosts, protocol: settings.protocol, policies, affinity };
    (Some(facts), problems)
}

impl Keyed for Facts {
    type Key = NamespacedName;

    fn key(&self) -> &NamespacedName {
        &self.ingress.name
    }
}

impl Facts {
    /// Most Ingresses ask for the same few things, or for nothing: they hold one copy of it.
    pub(crate) fn share(&mut self, policies: &mut Shared<Policies>) {
        self.policies = policies.keep(self.policies.clone());
    }

    /// The policies of a rule with this path.
    pub(crate) fn policies(&self, path: &str) -> Arc<Policies> {
        match &self.affinity {
            Some(affinity) if path != "/" => {
                Arc::new(Policies { affinity: affinity.for_path(path), ..(*self.policies).clone() })
            }
            _ => self.policies.clone(),
        }
    }

    /// The policies where the Ingress is the catch-all: there it redirects nothing to https, since the hosts
    /// of other people end there too.
    pub(crate) fn catch_all_policies(&self) -> Arc<Policies> {
        let https_redirect = HttpsRedirect { ssl: Some(false), force: Some(false) };
        Arc::new(Policies { https_redirect, ..(*self.policies).clone() })
    }

    /// How endpoints are chosen.
    pub(crate) fn balance(&self) -> Balance {
        if self.policies.affinity.is_some() { Balance::Ring } else { Balance::RoundRobin }
    }

    /// The rules for a host, by index.
    pub(crate) fn rules_of(&self, pattern: &HostPattern) -> &[u32] {
        self.hosts.iter().find(|(host, _)| host == pattern).map_or(&[], |(_, rules)| rules)
    }

    /// The Secrets that its TLS section names.
    pub(crate) fn secrets(&self) -> BTreeSet<NamespacedName> {
        let names = self.ingress.tls.iter().filter_map(|tls| tls.secret.as_deref());
        names.map(|name| self.in_namespace(name)).collect()
    }

    /// An object of that name in the namespace of the Ingress.
    pub(crate) fn in_namespace(&self, name: &str) -> NamespacedName {
        NamespacedName { namespace: self.ingress.name.namespace.clone(), name: name.into() }
    }

    /// Older first; of one age, the later `namespace/name` first, as in ingress-nginx.
    pub(crate) fn by_age(&self, other: &Self) -> Ordering {
        fn text(name: &NamespacedName) -> impl Iterator<Item = u8> {
            name.namespace.bytes().chain(*b"/").chain(name.name.bytes())
        }
        let (a, b) = (&self.ingress, &other.ingress);
        a.created.cmp(&b.created).then_with(|| text(&b.name).cmp(text(&a.name)))
    }
}

fn claims(
    ingress: &Ingress,
    object: &ObjectRef,
    gates: &Gates,
    problems: &mut Vec<Problem>,
) -> Box<[(HostPattern, Box<[u32]>)]> {
    let mut hosts: Vec<(HostPattern, Vec<u32>)> = Vec::new();
    for (index, rule) in (0u32..).zip(&ingress.rules) {
        let pattern = match rule.host.as_deref().map(host_pattern) {
            None => HostPattern::Any,
            Some(Ok(pattern)) => pattern,
            Some(Err(reason)) => {
                let host = rule.host.as_deref().unwrap_or_default();
                problems.push(error(
                    object,
                    format!("spec.rules[{index}].host"),
                    format!("{host:?} {reason}; the rule is left out"),
                    "write a DNS name such as shop.example, or *.shop.example for one more label",
                ));
                continue;
            }
        };
        if gates.strict_paths {
            let unusual = rule.paths.iter().flatten().enumerate().filter(|(_, path)| {
                path.path_type != PathType::ImplementationSpecific && !is_plain(&path.path)
            });
            for (at, path) in unusual {
                problems.push(warning(
                    object,
                    format!("spec.rules[{index}].http.paths[{at}].path"),
                    format!("{:?} has characters beyond letters, digits and . _ - /", path.path),
                    "it is compared as it stands with decoded request paths; check that this is meant",
                ));
            }
        }
        match hosts.iter_mut().find(|(host, _)| *host == pattern) {
            Some((_, rules)) => rules.push(index),
            None => hosts.push((pattern, vec![index])),
        }
    }
    if ingress.rules.is_empty() && ingress.default_backend.is_some() {
        hosts.push((HostPattern::Any, Vec::new()));
    }
    hosts.into_iter().map(|(host, rules)| (host, rules.into())).collect()
}

fn is_plain(path: &str) -> bool {
    path.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b))
}

/// Reads `spec.rules[].host`.
fn host_pattern(text: &str) -> Result<HostPattern, &'static str> {
    let (name, wildcard) = match text.strip_prefix("*.") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.contains('*') {
        return Err("has a * that is not its whole first label");
    }
    if name.parse::<std::net::IpAddr>().is_ok() {
        return Err("is an IP address");
    }
    if name.contains(':') {
        return Err("has a port, which a host name cannot have");
    }
    let label = |label: &str| {
        let good = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(good)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() > 253 || !name.split('.').all(label) {
        return Err("is no DNS name");
    }
    let name = HostName::new(name);
    Ok(if wildcard { HostPattern::OneLabel(name) } else { HostPattern::Exact(name) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_exact_names_or_one_label_wildcards() {
        let exact = |name| Ok(HostPattern::Exact(HostName::new(name)));
        assert_eq!(host_pattern("Shop.Example."), exact("shop.example"));
        assert_eq!(host_pattern("a_b.example"), exact("a_b.example"));
        assert_eq!(host_pattern("*.Shop.example"), Ok(HostPattern::OneLabel(HostName::new("shop.example"))));
        for bad in
            ["*", "*.", "a.*.b", "*a.b", "1.2.3.4", "::1", "a:80", "a..b", "-a.b", "a b", "é.example", "."]
        {
            assert!(host_pattern(bad).is_err(), "{bad:?}");
        }
    }
}
