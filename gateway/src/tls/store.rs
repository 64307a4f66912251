//! The certificates in use: changed by deltas, asked at every handshake.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;
use sluice_config::{Certificate, CertificateId, Change, Delta, HostKey, HostTls, Refusal};

use super::describe::{self, CertificateDescription};
use super::server_config::{certified_key, provider, template, with_key};
use super::table::{Served, Table};
use super::{TlsError, fallback};

/// Server name to TLS configuration.
///
/// Every method may be called from any thread. Readers never wait; writers wait for each other alone.
pub struct CertificateStore {
    table: ArcSwap<Table>,
    provider: Arc<CryptoProvider>,
    /// Held while a writer makes the next table of the current one.
    writers: Mutex<()>,
}

impl CertificateStore {
    /// An empty store, which answers every name with a self-signed certificate made here.
    ///
    /// # Errors
    /// The certificate cannot be made, or the TLS library cannot use it.
    pub fn new() -> Result<Self, TlsError> {
        let provider = provider();
        let fallback = fallback::make()?;
        let key = CertifiedKey::from_der(vec![fallback.certificate], fallback.key, &provider)?;
        let template = Arc::new(template(key, provider.clone())?);
        let served = Served {
            config: template.clone(),
            names: Box::new([fallback::NAME.into()]),
            not_after: fallback.not_after,
        };
        let table = ArcSwap::from_pointee(Table::new(template, Arc::new(served)));
        Ok(Self { table, provider, writers: Mutex::new(()) })
    }

    /// Who answers for this server name (RFC 6066 §3), in any case and with or without a trailing dot: the
    /// exact host, the one-label wildcard, the longest suffix wildcard, the host for any name, the default
    /// certificate, the fallback. A host whose certificate is not there is answered by the default.
    pub fn config_for(&self, sni: Option<&str>) -> Arc<ServerConfig> {
        let name = sni.map(|name| {
            let name = name.strip_suffix('.').unwrap_or(name);
            if name.bytes().any(|octet| octet.is_ascii_uppercase()) {
                Cow::Owned(name.to_ascii_lowercase())
            } else {
                Cow::Borrowed(name)
            }
        });
        self.table.load().find(name.as_deref()).config.clone()
    }

    /// Takes in a new or changed certificate. Handshakes from now on show it; connections that run keep what
    /// they have.
    ///
    /// # Errors
    /// Chain and key cannot be used together. The last good ones of the same Secret stay in use.
    pub fn put(&self, certificate: &Certificate) -> Result<(), TlsError> {
        let key = certified_key(certificate, &self.provider)?;
        self.change(|table| insert(table, certificate, key));
        Ok(())
    }

    /// Forgets a certificate. Hosts that refer to it get the default one.
    pub fn remove(&self, id: &CertificateId) {
        self.change(|table| table.certificates.remove(id));
    }

    /// Says how TLS ends for a host; `None` when the host is gone or asks for no TLS. The certificate it names
    /// may come later.
    pub fn set_host(&self, key: &HostKey, tls: Option<&HostTls>) {
        self.change(|table| table.set_host(key, tls));
    }

    /// Names the certificate for all names without their own (`--default-ssl-certificate`). It may come later.
    pub fn set_default(&self, id: Option<CertificateId>) {
        self.change(|table| table.default = id);
    }

    /// Whether HTTP/2 is offered (`use-http2`). It is at first.
    pub fn set_http2(&self, http2: bool) {
        self.change(|table| table.set_http2(http2));
    }

    /// Takes in what a delta says about TLS, its removals excepted, as one change. Each certificate that
    /// cannot be used is refused by itself.
    pub fn apply(&self, delta: &Delta) -> Vec<Refusal> {
        let mut refused = Vec::new();
        let mut usable = Vec::new();
        for change in &delta.certificates {
            let Change::Put(id, certificate) = change else { continue };
            match certified_key(certificate, &self.provider) {
                Ok(key) => usable.push((certificate, key)),
                Err(error) => {
                    refused.push(Refusal { subject: format!("certificate {id}"), reason: error.to_string() })
                }
            }
        }
        if usable.is_empty() && delta.tuning.is_none() && delta.hosts.is_empty() {
            return refused;
        }
        self.change(|table| {
            if let Some(tuning) = &delta.tuning {
                table.default = tuning.default_certificate.clone();
                table.set_http2(tuning.use_http2);
            }
            for (certificate, key) in usable {
                insert(table, certificate, key);
            }
            for change in &delta.hosts {
                if let Change::Put(key, host) = change {
                    table.set_host(key, host.tls.as_ref());
                }
            }
        });
        refused
    }

    /// Carries out the removals of a delta, as one change.
    pub fn apply_removals(&self, delta: &Delta) {
        if !delta.certificates.iter().any(is_removal) && !delta.hosts.iter().any(is_removal) {
            return;
        }
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

    /// All certificates with the hosts they answer for now, sorted by Secret, the fallback last.
    pub fn describe(&self) -> Vec<CertificateDescription> {
        describe::describe(&self.table.load())
    }

    /// Makes the next table of the current one.
    fn change<R>(&self, change: impl FnOnce(&mut Table) -> R) -> R {
        // The lock guards no data, and a table is published whole or not at all: a writer that panicked has
        // left nothing behind.
        let _writer = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        let mut table = Table::clone(&self.table.load());
        let result = change(&mut table);
        self.table.store(Arc::new(table));
        result
    }
}

impl fmt::Debug for CertificateStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let certificates = self.table.load().certificates.len();
        f.debug_struct("CertificateStore").field("certificates", &certificates).finish_non_exhaustive()
    }
}

fn insert(table: &mut Table, certificate: &Certificate, key: CertifiedKey) {
    let served = Served {
        config: with_key(&table.template, key),
        names: certificate.facts.names.iter().map(|name| name.as_str().into()).collect(),
        not_after: certificate.facts.not_after,
    };
    table.certificates.insert(certificate.id.clone(), Arc::new(served));
}

fn is_removal<K, V>(change: &Change<K, V>) -> bool {
    matches!(change, Change::Remove(_))
}
