//! The immutable table behind a handshake: names to certificates.

use std::sync::Arc;

use imbl::{HashMap, OrdMap};
use rustls::server::ResolvesServerCert;
use sluice_config::{CertificateId, GroupId, HostPattern, HostTls};

use super::certificate::{LoadedCertificate, ServedCertificate};
use super::first_supported::FirstSupported;
use super::profile::{Profile, ProfileKey};
use super::profiles::Profiles;
use crate::expression::ByExpression;

/// What a name is configured to be served with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NameEntry {
    /// The certificates. `None` if a less specific name decides.
    pub(super) tls: Option<HostTls>,
    /// `None` for the default profile.
    pub(super) profile: Option<Arc<ProfileKey>>,
}

/// All names and certificates. Clones share everything.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) certificates: HashMap<CertificateId, Arc<LoadedCertificate>>,
    pub(super) groups: HashMap<GroupId, Names>,
    pub(super) default: Option<CertificateId>,
    pub(super) fallback: Arc<LoadedCertificate>,
    pub(super) profiles: Profiles,
    /// `None` if no OCSP responses are stapled.
    pub(super) stapling: Option<Stapling>,
}

/// How OCSP responses are fetched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stapling {
    /// Whether responders at local addresses are asked.
    pub(super) asks_local: bool,
}

/// The names of one listener group.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    exact: HashMap<Arc<str>, NameEntry>,
    one_label: HashMap<Arc<str>, NameEntry>,
    suffix: HashMap<Arc<str>, NameEntry>,
    expressions: ByExpression<NameEntry>,
    any: Option<NameEntry>,
}

impl Names {
    /// Sets the entry of a name. Returns the previous one.
    pub(super) fn set(&mut self, pattern: &HostPattern, entry: Option<NameEntry>) -> Option<NameEntry> {
        let (map, name) = match pattern {
            HostPattern::Any => return std::mem::replace(&mut self.any, entry),
            HostPattern::Regex(regex) => return self.expressions.set(regex, entry),
            HostPattern::Exact(name) => (&mut self.exact, name),
            HostPattern::OneLabel(name) => (&mut self.one_label, name),
            HostPattern::Suffix(name) => (&mut self.suffix, name),
        };
        match entry {
            Some(entry) => map.insert(name.as_str().into(), entry),
            None => map.remove(name.as_str()),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.exact.is_empty()
            && self.one_label.is_empty()
            && self.suffix.is_empty()
            && self.expressions.is_empty()
            && self.any.is_none()
    }

    /// The most specific entry for a name in lower case of those that `fits` accepts.
    fn find(&self, name: Option<&str>, fits: impl Fn(&&NameEntry) -> bool) -> Option<&NameEntry> {
        let Some(name) = name else { return self.any.as_ref().filter(&fits) };
        if let Some(entry) = self.exact.get(name).filter(&fits) {
            return Some(entry);
        }
        let parent = name.split_once('.').map(|(_, parent)| parent);
        if let Some(entry) = parent.and_then(|parent| self.one_label.get(parent)).filter(&fits) {
            return Some(entry);
        }
        let mut parent = parent;
        while let Some(name) = parent {
            if let Some(entry) = self.suffix.get(name).filter(&fits) {
                return Some(entry);
            }
            parent = name.split_once('.').map(|(_, parent)| parent);
        }
        let mut from = 0;
        while let Some((entry, next)) = self.expressions.next_match(from, name) {
            if fits(&entry) {
                return Some(entry);
            }
            from = next;
        }
        self.any.as_ref().filter(&fits)
    }

    fn all(&self) -> impl Iterator<Item = (String, &NameEntry)> {
        let exact = self.exact.iter().map(|(name, entry)| (name.to_string(), entry));
        let wild = self.one_label.iter().chain(self.suffix.iter());
        let any = self.any.iter().map(|entry| (HostPattern::Any.to_string(), entry));
        let expressions = self.expressions.iter().map(|(regex, entry)| (regex.text.to_string(), entry));
        exact.chain(wild.map(|(name, entry)| (format!("*.{name}"), entry))).chain(expressions).chain(any)
    }
}

impl Table {
    /// The certificate and the profile for a client of a group that asks for `name`, in lower case.
    pub(super) fn find(
        &self,
        group: &GroupId,
        name: Option<&str>,
    ) -> (Arc<dyn ResolvesServerCert>, &Profile) {
        let names = self.groups.get(group);
        let most_specific = names.and_then(|names| names.find(name, |_| true));
        let with_certificate = match most_specific {
            Some(entry) if entry.tls.is_none() => {
                names.and_then(|names| names.find(name, |entry| entry.tls.is_some()))
            }
            entry => entry,
        };
        let tls = with_certificate.and_then(|entry| entry.tls.as_ref());
        let mut named =
            tls.into_iter().flat_map(HostTls::certificates).filter_map(|id| self.certificates.get(id));
        let resolver: Arc<dyn ResolvesServerCert> = match (named.next(), named.next()) {
            (Some(first), Some(second)) => {
                let keys = [first, second].into_iter().chain(named).map(|one| one.served.clone());
                Arc::new(FirstSupported(keys.collect()))
            }
            (only, _) => only.or_else(|| self.default()).unwrap_or(&self.fallback).resolver.clone(),
        };
        (resolver, self.profiles.get(most_specific.and_then(|entry| entry.profile.as_deref())))
    }

    fn default(&self) -> Option<&Arc<LoadedCertificate>> {
        self.default.as_ref().and_then(|id| self.certificates.get(id))
    }

    /// Everything, sorted by Secret, the fallback first.
    pub(super) fn list(&self) -> Vec<ServedCertificate> {
        let mut hosts: OrdMap<Option<&CertificateId>, Vec<String>> = OrdMap::new();
        let default = self.default.as_ref().filter(|id| self.certificates.contains_key(*id));
        let all = self.groups.values().flat_map(Names::all);
        for (host, tls) in all.filter_map(|(host, entry)| Some((host, entry.tls.as_ref()?))) {
            let mut named = tls.certificates().filter(|id| self.certificates.contains_key(*id)).peekable();
            if named.peek().is_none() {
                hosts.entry(default).or_default().push(host.clone());
            }
            named.for_each(|id| hosts.entry(Some(id)).or_default().push(host.clone()));
        }
        let describe = |id: Option<&CertificateId>, served: &LoadedCertificate| {
            let mut hosts = hosts.get(&id).cloned().unwrap_or_default();
            hosts.sort();
            ServedCertificate {
                id: id.cloned(),
                names: served.names.clone(),
                hosts,
                default: id == default,
                not_after: served.not_after,
            }
        };
        let mut all: Vec<_> =
            self.certificates.iter().map(|(id, served)| describe(Some(id), served)).collect();
        all.push(describe(None, &self.fallback));
        all.sort_by(|one, other| one.id.cmp(&other.id));
        all
    }
}
