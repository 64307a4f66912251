//! The certificate of a host.

use std::sync::Arc;

use sluice_config::{Code, HostPattern, HostTls, Problem};

use super::object_ref;
use crate::problem::{error, warning};
use crate::store::TlsSection;
use crate::translate::certificate::{self, CertificateState};
use crate::translate::routes::ObjectRoutes;
use crate::translate::view::View;

/// Selects the TLS section of the oldest object with an entry for the host. Within it, the entry
/// that names the host applies, else one whose certificate is valid for it, else one without hosts.
/// If no object has such an entry but one has any entry, the host has TLS with the default
/// certificate, as in ingress-nginx, so that the redirect to https applies to it. A certificate
/// that is missing, invalid or for other hosts leads to the default one, too.
pub(super) fn choose(
    view: &View<'_>,
    pattern: &HostPattern,
    claimants: &[&Arc<ObjectRoutes>],
    problems: &mut Vec<Problem>,
) -> Option<HostTls> {
    let found = claimants.iter().find_map(|routes| Section { view, pattern, routes }.choose(problems));
    found.or_else(|| {
        let routes = claimants.iter().find(|routes| !routes.tls.is_empty())?;
        let object = object_ref(routes);
        if *pattern != HostPattern::Any {
            problems.push(warning(
                Code::HostWithoutCertificate,
                &object,
                "spec.tls",
                format!("no entry is for host {pattern}, which gets the default certificate"),
                "name the host in an entry of spec.tls whose Secret has a certificate for it",
            ));
        }
        Some(HostTls { certificate: None })
    })
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
        let named = entries.iter().position(|tls| tls.hosts.iter().any(|host| **host == *name));
        if let Some(index) = named {
            return Some(self.entry(index, &entries[index], problems));
        }
        let valid = entries.iter().filter_map(|tls| tls.secret.as_deref()).find_map(|secret| {
            let secret = self.routes.in_namespace(secret);
            let certificate = self.view.certificate(&secret).good()?;
            certificate::covers(&certificate.facts, self.pattern).then_some(secret)
        });
        if valid.is_some() {
            return Some(HostTls { certificate: valid });
        }
        let open = entries.iter().position(|tls| tls.hosts.is_empty())?;
        Some(self.entry(open, &entries[open], problems))
    }

    fn entry(&self, index: usize, tls: &TlsSection, problems: &mut Vec<Problem>) -> HostTls {
        let none = HostTls { certificate: None };
        // For the catch-all, no single object decides the certificate of unknown hosts.
        let Some(secret) = tls.secret.as_deref().filter(|_| *self.pattern != HostPattern::Any) else {
            return none;
        };
        let secret = self.routes.in_namespace(secret);
        let (code, fault, remedy) = match self.view.certificate(&secret) {
            CertificateState::Good(certificate) if certificate::covers(&certificate.facts, self.pattern) => {
                return HostTls { certificate: Some(secret) };
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
        let object = object_ref(self.routes);
        let message = format!("{fault}; host {} gets the default certificate", self.pattern);
        problems.push(error(code, &object, format!("spec.tls[{index}].secretName"), message, remedy));
        none
    }
}
