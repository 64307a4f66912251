//! The certificate of a host.

use std::sync::Arc;

use sluice_config::certificate::CertificateFacts;
use sluice_config::{Code, HostPattern, HostTls, NamespacedName, Problem};

use super::object_ref;
use crate::problem::{error, warning};
use crate::translate::certificate::{self, CertificateState};
use crate::translate::routes::ObjectRoutes;
use crate::translate::view::View;

/// Selects the TLS section of the oldest object with an entry for the host. Within it, the entry
/// that names the host applies, else one whose certificate is valid for it, else one without hosts.
/// Further entries of the same kind add certificates with keys of other types. If no object has
/// such an entry but one has any entry, the host has TLS with the default certificate, as in
/// ingress-nginx, so that the redirect to https applies to it. A Secret that is missing,
/// has never been usable or is for other hosts leads to the default one, too.
pub(super) fn choose(
    view: &View<'_>,
    pattern: &HostPattern,
    claimants: &[&Arc<ObjectRoutes>],
    problems: &mut Vec<Problem>,
) -> Option<HostTls> {
    let found = claimants.iter().find_map(|routes| Section { view, pattern, routes }.choose(problems));
    found.or_else(|| {
        let routes = claimants.iter().find(|routes| routes.has_tls())?;
        let object = object_ref(routes);
        if has_name(pattern) {
            problems.push(warning(
                Code::HostWithoutCertificate,
                &object,
                "spec.tls",
                format!("no entry is for host {pattern}, which gets the default certificate"),
                "name the host in an entry of spec.tls whose Secret has a certificate for it",
            ));
        }
        Some(HostTls::default())
    })
}

/// Whether certificates can name the host.
fn has_name(pattern: &HostPattern) -> bool {
    !matches!(pattern, HostPattern::Regex(_) | HostPattern::Any)
}

struct Section<'a, 'v> {
    view: &'a View<'v>,
    pattern: &'a HostPattern,
    routes: &'a ObjectRoutes,
}

impl Section<'_, '_> {
    fn choose(&self, problems: &mut Vec<Problem>) -> Option<HostTls> {
        let entries = &self.routes.tls;
        let name = self.pattern.to_string();
        let is_named = |index: &usize| entries[*index].hosts.iter().any(|host| **host == *name);
        let named: Vec<usize> = (0..entries.len()).filter(is_named).collect();
        if !named.is_empty() {
            return Some(self.entries(&named, problems));
        }
        let secrets = entries.iter().filter_map(|tls| tls.secret.as_deref());
        let valid = secrets.filter_map(|secret| {
            let secret = self.routes.in_namespace(secret);
            let CertificateState::Good(certificate) = self.view.certificate(&secret) else { return None };
            certificate::covers(&certificate.facts, self.pattern).then_some((secret, &certificate.facts))
        });
        let valid = with_different_keys(valid);
        if valid.certificate.is_some() {
            return Some(valid);
        }
        let open = entries.iter().position(|tls| tls.hosts.is_empty())?;
        Some(self.entries(&[open], problems))
    }

    /// The certificates of entries. ingress-nginx reads the first only; here further ones add
    /// certificates with keys of other types, and replace those that cannot be served.
    fn entries(&self, indexes: &[usize], problems: &mut Vec<Problem>) -> HostTls {
        // No single object decides the certificate of unknown hosts, and names that match an
        // expression get the default one, as in ingress-nginx.
        let first = indexes.first().and_then(|first| self.routes.tls[*first].secret.as_ref());
        if first.is_none() || !has_name(self.pattern) {
            return HostTls::default();
        }
        let (mut good, mut faults) = (Vec::new(), Vec::new());
        for index in indexes {
            let Some(secret) = self.routes.tls[*index].secret.as_deref() else { continue };
            let secret = self.routes.in_namespace(secret);
            match self.certificate(&secret) {
                Ok(facts) => good.push((secret, facts)),
                Err(fault) => faults.push((index, fault)),
            }
        }
        let served = with_different_keys(good.into_iter());
        let consequence = match served.certificate.is_some() {
            true => "is served with the certificates of its other entries",
            false => "gets the default certificate",
        };
        let object = object_ref(self.routes);
        for (index, Fault { code, reason, remedy }) in faults {
            let message = format!("{reason}; host {} {consequence}", self.pattern);
            problems.push(error(code, &object, format!("spec.tls[{index}].secretName"), message, remedy));
        }
        served
    }

    /// The fields of the certificate of a Secret, if the host can be served with it.
    fn certificate(&self, secret: &NamespacedName) -> Result<&CertificateFacts, Fault> {
        let (code, reason, remedy) = match self.view.certificate(secret) {
            CertificateState::Good(certificate) if certificate::covers(&certificate.facts, self.pattern) => {
                return Ok(&certificate.facts);
            }
            CertificateState::Good(certificate) => (
                Code::CertificateMismatch,
                format!(
                    "the certificate of Secret {secret} is not valid for host {}, only for {}",
                    self.pattern,
                    certificate.facts.names.join(", ")
                ),
                "have a certificate issued that names the host",
            ),
            CertificateState::Missing => {
                let remedy = "create it; it is picked up when it appears";
                (Code::SecretNotFound, format!("Secret {secret} does not exist"), remedy)
            }
            CertificateState::Bad(reason) => {
                (Code::SecretInvalid, format!("Secret {secret} {reason}"), "correct the Secret")
            }
        };
        Err(Fault { code, reason, remedy })
    }
}

/// Returns the first certificate with each type of key.
fn with_different_keys<'c>(
    certificates: impl Iterator<Item = (NamespacedName, &'c CertificateFacts)>,
) -> HostTls {
    let mut served: Vec<(NamespacedName, &str)> = Vec::new();
    for (secret, facts) in certificates {
        let algorithm = &*facts.public_key_algorithm;
        if served.iter().all(|(_, other)| *other != algorithm) {
            served.push((secret, algorithm));
        }
    }
    let mut served = served.into_iter().map(|(secret, _)| secret);
    HostTls { certificate: served.next(), alternatives: served.collect() }
}

/// Why a host cannot be served with a certificate.
struct Fault {
    code: Code,
    reason: String,
    remedy: &'static str,
}
