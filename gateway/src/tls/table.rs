//! The immutable table behind the store: names to certificates, certificates to configurations.
//!
//! Hosts refer to certificates by identity and are resolved at each handshake, so the two may arrive and leave
//! in any order. All maps are persistent: a clone is a few reference counts, and a change to a clone copies
//! O(log n) of it.

use std::sync::Arc;

use imbl::HashMap;
use rustls::ServerConfig;
use sluice_config::{CertificateId, GroupId, HostKey, HostPattern, HostTls, ListenerId};

use super::server_config::{offers_http2, set_http2};

/// Who answers for which name.
#[derive(Clone)]
pub(super) struct Table {
    /// What new configurations are made of; its ALPN is the one in force.
    pub(super) template: Arc<ServerConfig>,
    pub(super) certificates: HashMap<CertificateId, Arc<Served>>,
    exact: HashMap<Arc<str>, Claims>,
    one_label: HashMap<Arc<str>, Claims>,
    suffix: HashMap<Arc<str>, Claims>,
    any: Option<Claims>,
    pub(super) default: Option<CertificateId>,
    pub(super) fallback: Arc<Served>,
}

/// A certificate in use.
pub(super) struct Served {
    pub(super) config: Arc<ServerConfig>,
    pub(super) names: Box<[Box<str>]>,
    /// Unix seconds.
    pub(super) not_after: i64,
}

/// Everyone who says how TLS ends for one pattern, in order of group and listener; never empty. A handshake
/// comes before the request, so where two listeners differ the first whose certificate is there decides.
type Claims = Arc<[Claim]>;

/// What one listener says about a pattern.
#[derive(Clone)]
struct Claim {
    group: GroupId,
    listener: ListenerId,
    /// `None` asks for the default certificate.
    certificate: Option<CertificateId>,
}

impl Table {
    pub(super) fn new(template: Arc<ServerConfig>, fallback: Arc<Served>) -> Self {
        Self {
            template,
            certificates: HashMap::default(),
            exact: HashMap::default(),
            one_label: HashMap::default(),
            suffix: HashMap::default(),
            any: None,
            default: None,
            fallback,
        }
    }

    /// Who answers for a name in lower case without a trailing dot.
    pub(super) fn find(&self, name: Option<&str>) -> &Arc<Served> {
        match name.and_then(|name| self.named(name)).or(self.any.as_ref()) {
            Some(claims) => self.claimed(claims).1,
            None => self.unclaimed().1,
        }
    }

    /// Takes in what one listener says about one pattern; `None` is nothing (any more).
    pub(super) fn set_host(&mut self, key: &HostKey, tls: Option<&HostTls>) {
        let (map, name) = match &key.pattern {
            HostPattern::Exact(name) => (&mut self.exact, name.as_str()),
            HostPattern::OneLabel(name) => (&mut self.one_label, name.as_str()),
            HostPattern::Suffix(name) => (&mut self.suffix, name.as_str()),
            HostPattern::Any => {
                self.any = changed(self.any.as_ref(), key, tls);
                return;
            }
        };
        match changed(map.get(name), key, tls) {
            Some(claims) => map.insert(name.into(), claims),
            None => map.remove(name),
        };
    }

    /// Offers HTTP/2 or not. Every configuration says which, so all are made anew; keys are shared.
    pub(super) fn set_http2(&mut self, http2: bool) {
        if offers_http2(&self.template) == http2 {
            return;
        }
        let with_alpn = |config: &ServerConfig| {
            let mut config = config.clone();
            set_http2(&mut config, http2);
            Arc::new(config)
        };
        let again = |served: &Served| {
            Arc::new(Served {
                config: with_alpn(&served.config),
                names: served.names.clone(),
                not_after: served.not_after,
            })
        };
        self.template = with_alpn(&self.template);
        self.fallback = again(&self.fallback);
        self.certificates =
            self.certificates.iter().map(|(id, served)| (id.clone(), again(served))).collect();
    }

    /// Every pattern as it prints, with the certificate that answers for it now; `None` is the fallback.
    pub(super) fn patterns(&self) -> impl Iterator<Item = (String, Option<&CertificateId>)> {
        let wildcard = |(name, claims)| (format!("*.{name}"), claims);
        self.exact
            .iter()
            .map(|(name, claims)| (name.to_string(), claims))
            .chain(self.one_label.iter().chain(self.suffix.iter()).map(wildcard))
            .chain(self.any.iter().map(|claims| ("_".to_owned(), claims)))
            .map(|(pattern, claims)| (pattern, self.claimed(claims).0))
    }

    fn named(&self, name: &str) -> Option<&Claims> {
        self.exact.get(name).or_else(|| {
            let mut parents = std::iter::successors(parent(name), |name| parent(name));
            let first = parents.next()?;
            self.one_label
                .get(first)
                .or_else(|| self.suffix.get(first))
                .or_else(|| parents.find_map(|name| self.suffix.get(name)))
        })
    }

    fn claimed<'a>(&'a self, claims: &'a [Claim]) -> (Option<&'a CertificateId>, &'a Arc<Served>) {
        claims
            .iter()
            .filter_map(|claim| claim.certificate.as_ref())
            .find_map(|id| self.present(id))
            .unwrap_or_else(|| self.unclaimed())
    }

    fn unclaimed(&self) -> (Option<&CertificateId>, &Arc<Served>) {
        self.default.as_ref().and_then(|id| self.present(id)).unwrap_or((None, &self.fallback))
    }

    fn present<'a>(&'a self, id: &'a CertificateId) -> Option<(Option<&'a CertificateId>, &'a Arc<Served>)> {
        self.certificates.get(id).map(|served| (Some(id), served))
    }
}

/// The name without its first label; `None` when that was the last.
fn parent(name: &str) -> Option<&str> {
    name.split_once('.').map(|(_, parent)| parent)
}

fn changed(old: Option<&Claims>, key: &HostKey, tls: Option<&HostTls>) -> Option<Claims> {
    let others = old.into_iter().flat_map(|claims| claims.iter());
    let mut claims: Vec<Claim> = others
        .filter(|claim| (&claim.group, &claim.listener) != (&key.group, &key.listener))
        .cloned()
        .collect();
    claims.extend(tls.map(|tls| Claim {
        group: key.group.clone(),
        listener: key.listener.clone(),
        certificate: tls.certificate.clone(),
    }));
    claims.sort_by(|a, b| (&a.group, &a.listener).cmp(&(&b.group, &b.listener)));
    (!claims.is_empty()).then(|| claims.into())
}
