//! The certificates that are served, and the one place where they change.

use std::sync::Arc;

use arc_swap::ArcSwap;
use imbl::HashMap;
use rustls::ServerConfig;
use sluice_config::{
    Certificate, CertificateId, Change, Code, Delta, GroupId, HostKey, HostTls, Refusal, Subject,
};

use super::Certificates;
use super::certificate::{LoadedCertificate, ServedCertificate, base, protocols};
use super::error::TlsError;
use super::fallback;
use super::table::Table;

/// All certificates and the names they are served for. Read without a lock; changed by one caller.
#[derive(Debug)]
pub struct CertificateStore {
    table: ArcSwap<Table>,
}

impl CertificateStore {
    /// A store with nothing but the self-signed fallback.
    pub fn new() -> Result<Arc<Self>, TlsError> {
        let (key, not_after) = fallback::make()?;
        let base = base(true, key.clone())?;
        let names = vec![fallback::NAME.to_owned()];
        let fallback = Arc::new(LoadedCertificate::with_key(key, names, not_after, &base));
        let table = Table {
            certificates: HashMap::new(),
            groups: HashMap::new(),
            default: None,
            fallback,
            base: Arc::new(base),
            http2: true,
        };
        Ok(Arc::new(Self { table: ArcSwap::from_pointee(table) }))
    }

    /// What is served, for introspection.
    pub fn list(&self) -> Vec<ServedCertificate> {
        self.table.load().list()
    }

    /// The configuration for a client that asks for `name` (RFC 6066 §3), in lower case and without a final
    /// dot, on a socket of `group`.
    pub(crate) fn config(&self, group: &GroupId, name: Option<&str>) -> Arc<ServerConfig> {
        self.table.load().find(group, name).clone()
    }

    fn change(&self, change: impl FnOnce(&mut Table)) {
        let mut table = Table::clone(&self.table.load());
        change(&mut table);
        self.table.store(Arc::new(table));
    }
}

impl Certificates for CertificateStore {
    /// Takes new settings, certificates and names in, all at once. What cannot be used is refused, and its last
    /// good version stays.
    fn apply(&self, delta: &Delta) -> Vec<Refusal> {
        let mut refused = Vec::new();
        self.change(|table| {
            if let Some(settings) = &delta.settings {
                table.default = settings.default_certificate.clone();
                table.set_http2(settings.use_http2);
            }
            for change in &delta.certificates {
                if let Change::Put(id, certificate) = change
                    && let Err(error) = table.put(id, certificate)
                {
                    refused.push(Refusal {
                        subject: Subject::Certificate(id.clone()),
                        origin: None,
                        code: Code::CertificateRefused,
                        reason: error.to_string(),
                    });
                }
            }
            for change in &delta.hosts {
                if let Change::Put(key, host) = change {
                    table.set_host(key, host.tls.as_ref());
                }
            }
        });
        refused
    }

    fn remove(&self, delta: &Delta) {
        self.change(|table| {
            for change in &delta.hosts {
                if let Change::Remove(key) = change {
                    table.set_host(key, None);
                }
            }
            for change in &delta.certificates {
                if let Change::Remove(id) = change {
                    table.certificates.remove(id);
                }
            }
        });
    }
}

impl Table {
    fn put(&mut self, id: &CertificateId, certificate: &Certificate) -> Result<(), TlsError> {
        let served = LoadedCertificate::new(certificate, &self.base)?;
        self.certificates.insert(id.clone(), Arc::new(served));
        Ok(())
    }

    fn set_host(&mut self, key: &HostKey, tls: Option<&HostTls>) {
        let mut names = self.groups.get(&key.group).cloned().unwrap_or_default();
        names.set(&key.pattern, tls.map(|tls| tls.certificate.clone()));
        match names.is_empty() {
            true => self.groups.remove(&key.group),
            false => self.groups.insert(key.group.clone(), names),
        };
    }

    /// ALPN is part of every certificate's configuration: this setting alone touches all of them.
    fn set_http2(&mut self, http2: bool) {
        if self.http2 == http2 {
            return;
        }
        let mut base = ServerConfig::clone(&self.base);
        base.alpn_protocols = protocols(http2);
        self.fallback = Arc::new(self.fallback.rebased(&base));
        self.certificates = self
            .certificates
            .iter()
            .map(|(id, served)| (id.clone(), Arc::new(served.rebased(&base))))
            .collect();
        self.base = Arc::new(base);
        self.http2 = http2;
    }
}

#[cfg(test)]
mod tests;
