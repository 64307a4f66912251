//! Whether `ssl-redirect` applies to a host.
//!
//! As in ingress-nginx, it applies if a certificate is configured for the name, perhaps only that
//! of a wildcard, with which a host without TLS settings of its own is served.

use sluice_config::{HostKey, HostName, HostPattern, HostTls};

use crate::translate::routes::claim::{Claim, ClaimKind};
use crate::translate::view::View;

/// Returns whether a certificate is configured for a host with these TLS settings.
pub(super) fn is_configured(view: &View<'_>, key: &HostKey, tls: Option<&HostTls>) -> bool {
    tls.is_some() || wildcard(key).is_some_and(|wildcard| has_tls(view, &wildcard))
}

/// Returns the wildcard host that the handshake falls back to.
fn wildcard(key: &HostKey) -> Option<HostKey> {
    let HostPattern::Exact(name) = &key.pattern else { return None };
    let (_, parent) = name.as_str().split_once('.')?;
    Some(HostKey { pattern: HostPattern::OneLabel(HostName::new(parent)), ..key.clone() })
}

/// Returns whether an object that determines the host's TLS settings has any. It does not read the
/// objects: every host below a wildcard would be recomputed with each of their changes.
fn has_tls(view: &View<'_>, key: &HostKey) -> bool {
    let claims = view.claims(key);
    let Some(first) = claims.first() else { return false };
    let of_kind = |claim: &&Claim| claim.kind == first.kind && claim.kind != ClaimKind::Canary;
    claims.iter().filter(of_kind).any(|claim| view.has_tls(&claim.object))
}
