//! Claims of objects on hosts: their kinds and their order.
//!
//! A claim is identified by the key of its object including the kind, because objects of two kinds
//! may have the same name.

use std::cmp::Ordering;

use sluice_config::NamespacedName;

use crate::store::ObjectKey;

/// The reason for a claim. Earlier variants take precedence, whatever the age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClaimKind {
    /// The object has rules for the host, or its default backend applies to it.
    Rule,
    /// The host is an alias of one for which the object has rules.
    Alias,
    /// The host differs by `www.` from one for which the object has rules.
    WwwRedirect,
    /// The object is a canary of other objects' rules.
    Canary,
}

/// A claim of a host. Claims are sorted: of two that request the same, the first one wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The reason.
    pub(crate) kind: ClaimKind,
    /// The object.
    pub(crate) object: ObjectKey,
    /// Creation time in Unix seconds; `None` is older than all.
    pub(super) created: Option<i64>,
}

/// Adds a claim to the sorted claims of a host, replacing that of the same object. Returns whether
/// they changed.
pub(crate) fn add(claims: &mut Vec<Claim>, claim: Claim) -> bool {
    if claims.contains(&claim) {
        return false;
    }
    withdraw(claims, &claim.object);
    let at = claims.binary_search(&claim).unwrap_or_else(|at| at);
    // Nearly every host has one claim.
    claims.reserve_exact(1);
    claims.insert(at, claim);
    true
}

/// Removes the claims of an object.
pub(crate) fn withdraw(claims: &mut Vec<Claim>, object: &ObjectKey) {
    claims.retain(|claim| claim.object != *object);
}

impl Ord for Claim {
    /// Sorts by kind, then the older first; of equal age, the later `namespace/name` first, as in
    /// ingress-nginx.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_age = |claim: &Self| (claim.kind, claim.created);
        let (a, b) = (&self.object, &other.object);
        by_age(self)
            .cmp(&by_age(other))
            .then_with(|| text(&b.name).cmp(text(&a.name)))
            .then_with(|| a.kind.cmp(&b.kind))
    }
}

impl PartialOrd for Claim {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

fn text(name: &NamespacedName) -> impl Iterator<Item = u8> {
    name.namespace.bytes().chain(*b"/").chain(name.name.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Kind;

    fn claim(kind: ClaimKind, created: Option<i64>, name: &str) -> Claim {
        Claim {
            kind,
            object: ObjectKey { kind: Kind::Ingress, name: NamespacedName::new("n", name) },
            created,
        }
    }

    #[test]
    fn rules_come_before_further_names_and_the_older_before_the_younger() {
        let sorted = [
            claim(ClaimKind::Rule, None, "x"),
            claim(ClaimKind::Rule, Some(1), "b"),
            claim(ClaimKind::Rule, Some(1), "a"),
            claim(ClaimKind::Rule, Some(2), "z"),
            claim(ClaimKind::Alias, None, "x"),
            claim(ClaimKind::WwwRedirect, None, "x"),
            claim(ClaimKind::Canary, None, "x"),
        ];
        assert!(sorted.is_sorted());
    }

    #[test]
    fn objects_of_two_kinds_with_one_name_keep_their_own_claims() {
        let ingress = claim(ClaimKind::Rule, Some(1), "web");
        let mut other = ingress.clone();
        other.object.kind = Kind::Service;
        let mut claims = Vec::new();
        assert!(add(&mut claims, ingress.clone()) && add(&mut claims, other.clone()));
        assert!(!add(&mut claims, other.clone()), "it is there already");
        assert_eq!(claims.len(), 2);
        withdraw(&mut claims, &ingress.object);
        assert_eq!(claims, [other]);
    }

    #[test]
    fn an_object_has_one_claim_of_a_host() {
        let mut claims = vec![claim(ClaimKind::Rule, Some(1), "b"), claim(ClaimKind::Rule, Some(2), "a")];
        assert!(add(&mut claims, claim(ClaimKind::Alias, Some(1), "b")));
        assert_eq!(claims, [claim(ClaimKind::Rule, Some(2), "a"), claim(ClaimKind::Alias, Some(1), "b")]);
    }
}
