//! Validation of the certificate in the Secret from the perspective of the API server: a TLS client
//! that trusts the authority and connects to one of the hosts.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::admission::certificate;

/// The names of the keys in the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretKeys {
    /// `--cert-name`.
    pub certificate: String,
    /// `--key-name`.
    pub key: String,
    /// `--ca-name`.
    pub authority: String,
}

/// A valid certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// End of its validity.
    pub(super) until: Timestamp,
    /// Whether less than a third of its lifetime is left.
    pub(super) aging: bool,
}

/// Checks the certificate in the Secret.
///
/// # Errors
/// The certificate cannot be used; the error states the reason.
pub(super) fn look(
    secret: &Secret,
    keys: &SecretKeys,
    hosts: &[String],
    now: Timestamp,
) -> Result<Kept, String> {
    let (chain, key) = (value(secret, &keys.certificate)?, value(secret, &keys.key)?);
    let pair = certificate::parse(chain, key)?;
    let mut roots = RootCertStore::empty();
    for authority in parsed(keys.authorities(secret)?.as_bytes())? {
        roots.add(authority).map_err(|error| format!("{}: {error}", keys.authority))?;
    }
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| error.to_string())?;
    let (own, others) = pair.cert.split_first().ok_or("there is no certificate")?;
    for host in hosts {
        let name = ServerName::try_from(host.as_str()).map_err(|error| format!("{host:?}: {error}"))?;
        verifier
            .verify_server_cert(own, others, &name, &[], UnixTime::since_unix_epoch(since_epoch(now)))
            .map_err(|error| format!("the API server would not accept it for {host} ({error})"))?;
    }
    let (begin, end) = life(own)?;
    let left = end.as_second() - now.as_second();
    Ok(Kept { until: end, aging: left < (end.as_second() - begin.as_second()) / 3 })
}

impl SecretKeys {
    /// Returns whether the Secret has none of the keys.
    pub(super) fn none_in(&self, secret: &Secret) -> bool {
        [&self.certificate, &self.key, &self.authority].into_iter().all(|key| value(secret, key).is_err())
    }

    /// Returns the authorities in PEM.
    ///
    /// # Errors
    /// The key is missing, or does not contain certificates in PEM.
    pub(super) fn authorities(&self, secret: &Secret) -> Result<String, String> {
        let text = String::from_utf8(value(secret, &self.authority)?.to_vec());
        let text = text.map_err(|_| format!("{} is not PEM", self.authority))?;
        match parsed(text.as_bytes())?.is_empty() {
            true => Err(format!("there is no certificate in {}", self.authority)),
            false => Ok(text),
        }
    }

    /// Returns the new authority together with the newest previous one, unless that one has
    /// expired. Older authorities are dropped: their certificates were replaced long ago.
    pub(super) fn authority_beside(&self, new: &str, before: Option<&Secret>, now: Timestamp) -> String {
        let before = before.and_then(|secret| value(secret, &self.authority).ok()).unwrap_or_default();
        let newest = CertificateDer::pem_slice_iter(before).next().and_then(Result::ok);
        match newest.filter(|der| life(der).is_ok_and(|(_, end)| end > now)) {
            Some(der) => format!("{new}{}", pem(&der)),
            None => new.to_owned(),
        }
    }
}

fn value<'a>(secret: &'a Secret, key: &str) -> Result<&'a [u8], String> {
    let data = secret.data.as_ref().and_then(|data| data.get(key));
    data.map(|value| value.0.as_slice())
        .filter(|value| !value.is_empty())
        .ok_or_else(|| format!("it has no key {key}"))
}

fn parsed(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>();
    all.map_err(|error| format!("the authority is not PEM: {error}"))
}

fn life(der: &CertificateDer<'_>) -> Result<(Timestamp, Timestamp), String> {
    let (_, read) = X509Certificate::from_der(der).map_err(|error| error.to_string())?;
    let validity = read.validity();
    let time = |seconds| Timestamp::from_second(seconds).map_err(|error| error.to_string());
    Ok((time(validity.not_before.timestamp())?, time(validity.not_after.timestamp())?))
}

fn since_epoch(now: Timestamp) -> Duration {
    Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0))
}

fn pem(der: &CertificateDer<'_>) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}
