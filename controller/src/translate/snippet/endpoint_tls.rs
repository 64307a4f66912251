//! `proxy_ssl_*`: TLS to endpoints, without files. The annotations `proxy-ssl-*` have the same
//! meanings.

use std::sync::Arc;

use sluice_config::{Policies, TlsVersions};

use super::arguments::{parsed, put, word};
use super::fault::Fault;
use crate::translate::endpoint_name::read_endpoint_name;
use crate::translate::value;

/// Settings of TLS to endpoints; `None` leaves that of the annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct EndpointTlsOverrides {
    name: Option<Arc<str>>,
    sends_name: Option<bool>,
    versions: Option<TlsVersions>,
    ciphers: Option<Arc<[u16]>>,
    verifies: Option<bool>,
}

impl EndpointTlsOverrides {
    /// Reads a directive. Returns whether it is the first one of its name, and the translation in
    /// words; `None` if the directive has no effect.
    pub(super) fn read(&mut self, name: &str, arguments: &[String]) -> Result<Option<bool>, Fault> {
        const SECRET: &str = "the annotations proxy-ssl-secret and proxy-ssl-verify";
        Ok(Some(match name {
            "proxy_ssl_name" => {
                let kind = value::text().called("a DNS name or an address").and_then(read_endpoint_name);
                put(&mut self.name, parsed(&kind, arguments)?)
            }
            "proxy_ssl_server_name" => {
                put(&mut self.sends_name, word(arguments, &[("on", true), ("off", false)])?)
            }
            "proxy_ssl_protocols" => {
                put(&mut self.versions, parsed(&value::tls_versions(), &[arguments.join(" ")])?)
            }
            "proxy_ssl_ciphers" => put(&mut self.ciphers, parsed(&value::tls_ciphers(), arguments)?),
            "proxy_ssl_verify" if arguments == ["on"] => {
                return Err(Fault::with("it needs authorities, which nginx reads from a file", SECRET));
            }
            "proxy_ssl_verify" => put(&mut self.verifies, word(arguments, &[("off", false)])?),
            "proxy_ssl_session_reuse" => {
                word(arguments, &[("on", true), ("off", false)])?;
                return Ok(None);
            }
            _ => return Err(Fault::with("snippets reach no files", SECRET)),
        }))
    }

    /// Takes over the settings of a text of the same level that are not set yet.
    pub(super) fn extend(&mut self, other: &Self) {
        let Self { name, sends_name, versions, ciphers, verifies } = other;
        self.name = self.name.take().or_else(|| name.clone());
        self.sends_name = self.sends_name.or(*sends_name);
        self.versions = self.versions.or(*versions);
        self.ciphers = self.ciphers.take().or_else(|| ciphers.clone());
        self.verifies = self.verifies.or(*verifies);
    }

    /// Replaces the settings of the policies.
    pub(super) fn apply(&self, policies: &mut Policies) {
        if *self == Self::default() {
            return;
        }
        let mut tls = policies.upstream_tls.as_deref().cloned().unwrap_or_default();
        tls.name = self.name.clone().or(tls.name);
        tls.sends_name = self.sends_name.unwrap_or(tls.sends_name);
        tls.versions = self.versions.unwrap_or(tls.versions);
        tls.ciphers = self.ciphers.clone().or(tls.ciphers);
        tls.verify_depth = tls.verify_depth.filter(|_| self.verifies != Some(false));
        policies.upstream_tls = Some(tls.into());
    }
}
