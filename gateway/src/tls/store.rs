//! The certificates that are served, and the one place where they change.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use imbl::HashMap;
use rustls::ServerConfig;
use rustls::sign::CertifiedKey;
use sluice_config::{
    Certificate, CertificateId, Change, ClientVerification, Code, Delta, GroupId, Host, HostKey, Refusal,
    ResourceKind, Subject,
};
use tokio::sync::Notify;

use super::Certificates;
use super::certificate::{LoadedCertificate, ServedCertificate};
use super::error::TlsError;
use super::fallback;
use super::profile::{ProfileKey, ProfileSettings};
use super::profiles::Profiles;
use super::table::{NameEntry, Stapling, Table};

/// All certificates and the names they are served for. Handshakes read it without a lock.
#[derive(Debug)]
pub struct CertificateStore {
    table: ArcSwap<Table>,
    /// Held during a change: deltas and OCSP responses come from different tasks.
    changing: Mutex<()>,
    /// Certificates, or whether their OCSP responses are stapled, may have changed.
    changed: Notify,
}

/// What a handshake is made with.
#[derive(Debug)]
pub(crate) struct HandshakeConfig {
    /// For rustls.
    pub(crate) config: Arc<ServerConfig>,
    /// How the client's certificate will be verified; `None` if none is requested.
    pub(crate) verification: Option<Arc<ClientVerification>>,
}

/// What OCSP stapling is to do.
#[derive(Debug)]
pub(super) struct ToStaple {
    /// The current version of each certificate.
    pub(super) certificates: Vec<(CertificateId, Arc<CertifiedKey>)>,
    /// Whether responders at local addresses are asked.
    pub(super) asks_local: bool,
}

impl CertificateStore {
    /// Creates a store with the self-signed fallback only.
    ///
    /// # Errors
    /// The fallback cannot be made.
    pub fn new() -> Result<Arc<Self>, TlsError> {
        let (key, not_after) = fallback::make()?;
        let names = vec![fallback::NAME.to_owned()];
        let fallback = Arc::new(LoadedCertificate::with_key(key, names, not_after));
        let settings = ProfileSettings { http2: true, ..ProfileSettings::default() };
        let table = Table {
            certificates: HashMap::new(),
            groups: HashMap::new(),
            default: None,
            profiles: Profiles::new(settings, fallback.resolver.clone())?,
            fallback,
            stapling: None,
        };
        Ok(Arc::new(Self {
            table: ArcSwap::from_pointee(table),
            changing: Mutex::new(()),
            changed: Notify::new(),
        }))
    }

    /// What is served, for introspection.
    pub fn list(&self) -> Vec<ServedCertificate> {
        self.table.load().list()
    }

    /// The configuration for a client that asks for `name` (RFC 6066 §3), in lower case and without
    /// a final dot, on a socket of `group`. `None` refuses the handshake.
    pub(crate) fn config(&self, group: &GroupId, name: Option<&str>) -> Option<HandshakeConfig> {
        let table = self.table.load();
        let (resolver, profile) = table.find(group, name);
        Some(HandshakeConfig {
            config: profile.with_certificate(resolver)?,
            verification: profile.verification.clone(),
        })
    }

    /// Waits until certificates may have changed since the last call.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Returns the certificates to staple OCSP responses to; `None` if stapling is off.
    pub(super) fn to_staple(&self) -> Option<ToStaple> {
        let table = self.table.load();
        let Stapling { asks_local } = table.stapling?;
        let all = table.certificates.iter().map(|(id, loaded)| (id.clone(), loaded.key.clone()));
        Some(ToStaple { certificates: all.collect(), asks_local })
    }

    /// Staples an OCSP response to a version of a certificate, or removes it. Does nothing if
    /// another version is served.
    pub(super) fn staple(&self, id: &CertificateId, key: &Arc<CertifiedKey>, response: Option<Vec<u8>>) {
        self.change(|table| {
            if let Some(loaded) = table.certificates.get(id).filter(|loaded| Arc::ptr_eq(&loaded.key, key)) {
                let stapled = Arc::new(loaded.with_staple(response));
                table.certificates.insert(id.clone(), stapled);
            }
        });
    }

    fn notify_of(&self, delta: &Delta) {
        if delta.settings.is_some() || !delta.certificates.is_empty() {
            self.changed.notify_one();
        }
    }

    fn change(&self, change: impl FnOnce(&mut Table)) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = Table::clone(&self.table.load());
        change(&mut table);
        self.table.store(Arc::new(table));
    }
}

impl Certificates for CertificateStore {
    /// Takes new settings, certificates and names in, all at once. What cannot be used is refused,
    /// and its last good version stays.
    fn apply(&self, delta: &Delta) -> Vec<Refusal> {
        let mut refused = Vec::new();
        self.change(|table| {
            if let Some(settings) = &delta.settings {
                table.default = settings.default_certificate.clone();
                let asks_local = settings.ask_local_responders;
                table.stapling = settings.staple_ocsp.then_some(Stapling { asks_local });
                ok_or_log(
                    table
                        .profiles
                        .set(ProfileSettings { http2: settings.use_http2, tls: settings.tls.clone() }),
                );
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
            for change in &delta.resources {
                if let Change::Put(key, resource) = change
                    && key.kind == ResourceKind::ClientAuthorities
                {
                    ok_or_log(table.profiles.set_authorities(key, Some(resource)));
                }
            }
            for change in &delta.hosts {
                if let Change::Put(key, host) = change {
                    table.set_host(key, Some(host));
                }
            }
        });
        self.notify_of(delta);
        refused
    }

    fn remove(&self, delta: &Delta) {
        self.change(|table| {
            for change in &delta.hosts {
                if let Change::Remove(key) = change {
                    table.set_host(key, None);
                }
            }
            for change in &delta.resources {
                if let Change::Remove(key) = change
                    && key.kind == ResourceKind::ClientAuthorities
                {
                    ok_or_log(table.profiles.set_authorities(key, None));
                }
            }
            for change in &delta.certificates {
                if let Change::Remove(id) = change {
                    table.certificates.remove(id);
                }
            }
        });
        self.notify_of(delta);
    }
}

impl Table {
    fn put(&mut self, id: &CertificateId, certificate: &Certificate) -> Result<(), TlsError> {
        let served = LoadedCertificate::new(certificate)?;
        self.certificates.insert(id.clone(), Arc::new(served));
        Ok(())
    }

    fn set_host(&mut self, key: &HostKey, host: Option<&Host>) {
        let entry = host.and_then(|host| {
            let tls = host.tls.clone();
            let profile = ok_or_log(self.profiles.take(ProfileKey::of(host))).flatten();
            (tls.is_some() || profile.is_some()).then_some(NameEntry { tls, profile })
        });
        let mut names = self.groups.get(&key.group).cloned().unwrap_or_default();
        let before = names.set(&key.pattern, entry);
        match names.is_empty() {
            true => self.groups.remove(&key.group),
            false => self.groups.insert(key.group.clone(), names),
        };
        if let Some(profile) = before.and_then(|entry| entry.profile) {
            self.profiles.release(&profile);
        }
    }
}

/// Logs that a profile cannot be built, which does not happen with values of the contract. Without
/// it, hosts that verify clients refuse them with 421.
fn ok_or_log<T>(result: Result<T, TlsError>) -> Option<T> {
    result.inspect_err(|error| tracing::error!(%error, "TLS settings cannot be used")).ok()
}

#[cfg(test)]
mod tests;
