//! The immutable table behind a handshake: names to certificates.

use std::sync::Arc;

use imbl::{HashMap, OrdMap};
use sluice_config::{CertificateId, GroupId, HostPattern};

use super::certificate::{LoadedCertificate, ServedCertificate};
use super::profile::{Profile, ProfileKey};
use super::profiles::Profiles;

/// What a name is configured to be served with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NameEntry {
    /// The certificate, `Some(None)` for the default one. Without any, a less specific name decides.
    pub(super) certificate: Option<Option<CertificateId>>,
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
}

/// The names of one listener group.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    exact: HashMap<Arc<str>, NameEntry>,
    one_label: HashMap<Arc<str>, NameEntry>,
    suffix: HashMap<Arc<str>, NameEntry>,
    any: Option<NameEntry>,
}

impl Names {
    /// Sets the entry of a name; gives the one before.
    pub(super) fn set(&mut self, pattern: &HostPattern, entry: Option<NameEntry>) -> Option<NameEntry> {
        let (map, name) = match pattern {
            HostPattern::Any => return std::mem::replace(&mut self.any, entry),
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
        self.exact.is_empty() && self.one_label.is_empty() && self.suffix.is_empty() && self.any.is_none()
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
        self.any.as_ref().filter(&fits)
    }

    fn all(&self) -> impl Iterator<Item = (String, &NameEntry)> {
        let exact = self.exact.iter().map(|(name, entry)| (name.to_string(), entry));
        let wild = self.one_label.iter().chain(self.suffix.iter());
        let any = self.any.iter().map(|entry| (HostPattern::Any.to_string(), entry));
        exact.chain(wild.map(|(name, entry)| (format!("*.{name}"), entry))).chain(any)
    }
}

impl Table {
    /// The certificate and the profile for a client of a group that asks for `name`, in lower case.
    pub(super) fn find(&self, group: &GroupId, name: Option<&str>) -> (&Arc<LoadedCertificate>, &Profile) {
        let names = self.groups.get(group);
        let most_specific = names.and_then(|names| names.find(name, |_| true));
        let with_certificate = match most_specific {
            Some(entry) if entry.certificate.is_none() => {
                names.and_then(|names| names.find(name, |entry| entry.certificate.is_some()))
            }
            entry => entry,
        };
        let id = with_certificate.and_then(|entry| entry.certificate.as_ref()).and_then(Option::as_ref);
        let named = id.and_then(|id| self.certificates.get(id));
        let certificate = named.or_else(|| self.default()).unwrap_or(&self.fallback);
        (certificate, self.profiles.get(most_specific.and_then(|entry| entry.profile.as_deref())))
    }

    fn default(&self) -> Option<&Arc<LoadedCertificate>> {
        self.default.as_ref().and_then(|id| self.certificates.get(id))
    }

    /// Everything, sorted by Secret, the fallback first.
    pub(super) fn list(&self) -> Vec<ServedCertificate> {
        let mut hosts: OrdMap<Option<&CertificateId>, Vec<String>> = OrdMap::new();
        let default = self.default.as_ref().filter(|id| self.certificates.contains_key(*id));
        let all = self.groups.values().flat_map(Names::all);
        for (host, entry) in all.filter_map(|(host, entry)| Some((host, entry.certificate.as_ref()?))) {
            let id = entry.as_ref().filter(|id| self.certificates.contains_key(*id)).or(default);
            hosts.entry(id).or_default().push(host);
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
