//! Conversion of TLS Secrets to certificates.

pub(super) mod pem;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use sluice_config::certificate::CertificateFacts;
use sluice_config::{Certificate, Code, HostPattern, NamespacedName, ObjectRef, Problem};

use super::view::View;
use crate::problem::error;
use crate::store::DataFields;

/// The state of a Secret that is named as a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CertificateState {
    /// The Secret does not exist.
    Missing,
    /// It is unusable, for this reason, and has not been usable before.
    Bad(Arc<str>),
    /// It is usable, or was before.
    Good(Arc<Certificate>),
}

impl CertificateState {
    /// Returns the certificate, if there is one.
    pub(crate) fn good(&self) -> Option<&Arc<Certificate>> {
        match self {
            Self::Good(certificate) => Some(certificate),
            Self::Missing | Self::Bad(_) => None,
        }
    }
}

/// Computes the node. A Secret that becomes unusable keeps its last certificate, as in
/// ingress-nginx, which forgets a certificate only with its Secret.
pub(crate) fn compute(view: &View<'_>, name: &NamespacedName) -> (CertificateState, Vec<Problem>) {
    let Some(secret) = view.secret(name, DataFields::named(pem::FIELDS)) else {
        return (CertificateState::Missing, Vec::new());
    };
    match pem::read(name, secret) {
        Ok(certificate) => (CertificateState::Good(Arc::new(certificate)), Vec::new()),
        Err(fault) => {
            let previous = view.certificate_in_force(name);
            let stays = if previous.is_some() { "; its previous certificate stays in force" } else { "" };
            let object = ObjectRef { kind: "Secret".into(), name: name.clone() };
            let problem = error(
                Code::CertificateInvalid,
                &object,
                fault.field(),
                format!("{name}: {fault}{stays}"),
                fault.remedy(),
            );
            let state = match previous {
                Some(previous) => CertificateState::Good(previous.clone()),
                None => CertificateState::Bad(fault.to_string().into()),
            };
            (state, vec![problem])
        }
    }
}

/// Returns whether a certificate is valid for a host, by its subject alternative names, or by its
/// common name if it has none.
pub(crate) fn covers(facts: &CertificateFacts, host: &HostPattern) -> bool {
    let common = facts.common_name.as_deref().filter(|_| facts.names.is_empty());
    facts.names.iter().map(String::as_str).chain(common).any(|name| {
        let name = name.strip_suffix('.').unwrap_or(name);
        match host {
            HostPattern::Exact(host) => {
                name.eq_ignore_ascii_case(host.as_str())
                    || match (name.strip_prefix("*."), host.as_str().split_once('.')) {
                        (Some(parent), Some((_, rest))) => parent.eq_ignore_ascii_case(rest),
                        _ => false,
                    }
            }
            HostPattern::OneLabel(parent) | HostPattern::Suffix(parent) => {
                name.strip_prefix("*.").is_some_and(|name| name.eq_ignore_ascii_case(parent.as_str()))
            }
            HostPattern::Regex(_) | HostPattern::Any => false,
        }
    })
}
