//! The immutable table behind a handshake: names to certificates.

use std::sync::Arc;

use imbl::{HashMap, OrdMap};
use rustls::ServerConfig;
use sluice_config::{CertificateId, GroupId, HostPattern};

use super::certificate::{LoadedCertificate, ServedCertificate};

/// What a name is configured to be served with; `None` is the default certificate.
type Entry = Option<CertificateId>;

/// All names and certificates. Clones share everything.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) certificates: HashMap<CertificateId, Arc<LoadedCertificate>>,
    pub(super) groups: HashMap<GroupId, Names>,
    pub(super) default: Option<CertificateId>,
    pub(super) fallback: Arc<LoadedCertificate>,
    pub(super) base: Arc<ServerConfig>,
    pub(super) http2: bool,
}

/// The names of one listener group.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    exact: HashMap<Arc<str>, Entry>,
    one_label: HashMap<Arc<str>, Entry>,
    suffix: HashMap<Arc<str>, Entry>,
    any: Option<Entry>,
}

impl Names {
    pub(super) fn set(&mut self, pattern: &HostPattern, entry: Option<Entry>) {
        let (map, name) = match pattern {
            HostPattern::Any => {
                self.any = entry;
                return;
            }
            HostPattern::Exact(name) => (&mut self.exact, name),
            HostPattern::OneLabel(name) => (&mut self.one_label, name),
            HostPattern::Suffix(name) => (&mut self.suffix, name),
        };
        match entry {
            Some(entry) => map.insert(name.as_str().into(), entry),
            None => map.remove(name.as_str()),
        };
    }

    pub(super) fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.one_label.is_empty() && self.suffix.is_empty() && self.any.is_none()
    }

    /// The most specific entry for a name in lower case.
    fn find(&self, name: &str) -> Option<&Entry> {
        if let Some(entry) = self.exact.get(name) {
            return Some(entry);
        }
        let parent = name.split_once('.').map(|(_, parent)| parent);
        if let Some(entry) = parent.and_then(|parent| self.one_label.get(parent)) {
            return Some(entry);
        }
        let mut parent = parent;
        while let Some(name) = parent {
            if let Some(entry) = self.suffix.get(name) {
                return Some(entry);
            }
            parent = name.split_once('.').map(|(_, parent)| parent);
        }
        self.any.as_ref()
    }

    fn all(&self) -> impl Iterator<Item = (String, &Entry)> {
        let exact = self.exact.iter().map(|(name, entry)| (name.to_string(), entry));
        let wild = self.one_label.iter().chain(self.suffix.iter());
        let any = self.any.iter().map(|entry| (HostPattern::Any.to_string(), entry));
        exact.chain(wild.map(|(name, entry)| (format!("*.{name}"), entry))).chain(any)
    }
}

impl Table {
    /// The configuration for a client of a group that asks for `name`, in lower case.
    pub(super) fn find(&self, group: &GroupId, name: Option<&str>) -> &Arc<ServerConfig> {
        let names = self.groups.get(group);
        let entry = names.and_then(|names| match name {
            Some(name) => names.find(name),
            None => names.any.as_ref(),
        });
        let named = entry.and_then(|entry| entry.as_ref()).and_then(|id| self.certificates.get(id));
        &named.or_else(|| self.default()).unwrap_or(&self.fallback).config
    }

    fn default(&self) -> Option<&Arc<LoadedCertificate>> {
        self.default.as_ref().and_then(|id| self.certificates.get(id))
    }

    /// Everything, sorted by Secret, the fallback first.
    pub(super) fn list(&self) -> Vec<ServedCertificate> {
        let mut hosts: OrdMap<Option<&CertificateId>, Vec<String>> = OrdMap::new();
        let default = self.default.as_ref().filter(|id| self.certificates.contains_key(*id));
        for (host, entry) in self.groups.values().flat_map(Names::all) {
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
