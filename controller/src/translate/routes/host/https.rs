//! Whether `ssl-redirect` applies to a host.
//!
//! As in ingress-nginx, it applies if a certificate is configured for the name, perhaps only that
//! of a wildcard, with which a host without TLS settings of its own is served. The table of
//! certificates has all hosts of rules with TLS settings, whatever their certificate, and those
//! aliases that the certificate covers. It has neither requests for other hosts nor expressions.

use sluice_config::{HostKey, HostName, HostPattern, HostTls};

use super::{Claimants, tls};
use crate::translate::certificate::{self, CertificateState};
use crate::translate::routes::claim::{Claim, ClaimKind};
use crate::translate::view::View;

/// Returns whether a certificate is configured for a host that an object claims for this reason.
pub(super) fn is_configured(view: &View<'_>, key: &HostKey, kind: ClaimKind, tls: Option<&HostTls>) -> bool {
    let has_own = tls.is_some_and(|tls| match (&key.pattern, kind) {
        (HostPattern::Any, _) => false,
        (pattern, ClaimKind::Alias) => covers(view, pattern, tls),
        _ => true,
    });
    has_own || wildcards(key).iter().flatten().any(|wildcard| has_tls(view, wildcard))
}

/// Returns whether the served certificate is valid for the host.
fn covers(view: &View<'_>, pattern: &HostPattern, tls: &HostTls) -> bool {
    // Other certificates are chosen only if they are.
    tls.certificate.is_some() || default_covers(view, pattern)
}

fn default_covers(view: &View<'_>, pattern: &HostPattern) -> bool {
    let Some(name) = &view.options.default_ssl_certificate else { return false };
    let CertificateState::Good(certificate) = view.certificate(name) else { return false };
    certificate::covers(&certificate.facts, pattern)
}

/// Returns the wildcard hosts that the handshake falls back to: that of a rule and that of an
/// alias.
fn wildcards(key: &HostKey) -> Option<[HostKey; 2]> {
    let HostPattern::Exact(name) = &key.pattern else { return None };
    let parent = HostName::new(name.as_str().split_once('.')?.1);
    let patterns = [HostPattern::OneLabel(parent.clone()), HostPattern::Suffix(parent)];
    Some(patterns.map(|pattern| HostKey { pattern, ..key.clone() }))
}

/// Returns whether a wildcard host has TLS settings. It does not read the objects with rules for
/// it: every host below the wildcard would be recomputed with each of their changes.
fn has_tls(view: &View<'_>, key: &HostKey) -> bool {
    let claims = view.claims(key);
    match claims.first() {
        Some(Claim { kind: ClaimKind::Alias, object, .. }) => {
            let behind = view.object_routes(object).and_then(|alias| Claimants::of_alias(view, alias, key));
            let Some((_, claimants)) = behind else { return false };
            let tls = tls::choose(view, &key.pattern, &claimants.rules, &mut Vec::new());
            tls.is_some_and(|tls| covers(view, &key.pattern, &tls))
        }
        Some(Claim { kind: ClaimKind::Rule, .. }) => {
            let mut rules = claims.iter().filter(|claim| claim.kind == ClaimKind::Rule);
            rules.any(|claim| view.has_tls(&claim.object))
        }
        _ => false,
    }
}
