//! The certificate of the webhook, reloaded when its files change. Mounted Secrets change by
//! symlinks, so the contents of the files are compared.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use sluice_config::{Code, ObjectRef, Problem};
use tokio::time::sleep;

use crate::cluster::Findings;
use crate::problem::{Duty, error};

/// Interval between checks of the files.
const LOOK: Duration = Duration::from_secs(2);

/// The certificate in use. `None` until the files were read for the first time.
#[derive(Debug, Default)]
pub(super) struct Current(RwLock<Option<Arc<CertifiedKey>>>);

/// The files of the certificate.
#[derive(Debug)]
pub(super) struct Certificates {
    certificate: PathBuf,
    key: PathBuf,
    current: Arc<Current>,
    /// The last contents that were read, valid or not.
    read: Option<(Vec<u8>, Vec<u8>)>,
    /// The error in these contents.
    fault: Option<String>,
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Certificates {
    /// Reads the files for the first time.
    pub(super) fn new(certificate: PathBuf, key: PathBuf) -> Self {
        let mut this = Self { certificate, key, current: Arc::default(), read: None, fault: None };
        this.look();
        this
    }

    pub(super) fn current(&self) -> Arc<Current> {
        self.current.clone()
    }

    /// Checks the files while it is polled, and reports errors in them as problems.
    pub(super) async fn watch(mut self, findings: Findings) {
        let mut reported = None;
        loop {
            if reported != self.fault {
                reported.clone_from(&self.fault);
                findings.set(Duty::Webhook, self.problem().into_iter().collect());
            }
            sleep(LOOK).await;
            self.look();
        }
    }

    fn look(&mut self) {
        let read =
            |file: &PathBuf| std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()));
        let files = match (read(&self.certificate), read(&self.key)) {
            (Ok(certificate), Ok(key)) => (certificate, key),
            (Err(error), _) | (_, Err(error)) => {
                (self.read, self.fault) = (None, Some(error));
                return;
            }
        };
        if self.read.as_ref() == Some(&files) {
            return;
        }
        // The two files may be from different versions now; the next check reads both again.
        self.fault = match parse(&files.0, &files.1) {
            Ok(key) => {
                tracing::info!(file = %self.certificate.display(), "read the certificate of the validating webhook");
                *self.current.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(key));
                None
            }
            Err(fault) => Some(fault),
        };
        self.read = Some(files);
    }

    fn problem(&self) -> Option<Problem> {
        let fault = self.fault.as_ref()?;
        let has_one = self.current.0.read().unwrap_or_else(PoisonError::into_inner).is_some();
        let effect = match has_one {
            true => "the previous certificate stays in use",
            false => {
                "the webhook answers no request; its failurePolicy decides whether Ingresses are admitted"
            }
        };
        Some(error(
            Code::WebhookCertificate,
            &ObjectRef::new("Flag", "", "--validating-webhook-certificate"),
            "",
            format!("the certificate and key of the validating webhook cannot be used ({fault}); {effect}"),
            "correct the files that --validating-webhook-certificate and --validating-webhook-key name; they are picked up \
             without a restart",
        ))
    }
}

/// Parses a certificate chain and its key from PEM. A key of another certificate is an error.
pub(crate) fn parse(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, String> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("the certificate is not PEM: {error}"))?;
    if chain.is_empty() {
        return Err("there is no certificate in its file".to_owned());
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the key is not PEM: {error}"))?;
    let key = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider());
    key.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(folder: &std::path::Path, one: &str, other: &str) -> (PathBuf, PathBuf) {
        let make = |name: &str| {
            let key = rcgen::KeyPair::generate().unwrap();
            let made =
                rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap();
            (made.pem(), key.serialize_pem())
        };
        let (certificate, key) = (folder.join("tls.crt"), folder.join("tls.key"));
        let (chain, own) = make(one);
        let own = if one == other { own } else { make(other).1 };
        fs::write(&certificate, chain).unwrap();
        fs::write(&key, own).unwrap();
        (certificate, key)
    }

    fn served(certificates: &Certificates) -> Option<Vec<u8>> {
        let current = certificates.current.0.read().unwrap();
        current.as_ref().map(|key| key.cert[0].to_vec())
    }

    #[test]
    fn new_files_are_taken_and_bad_ones_leave_the_last_good_one() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
        let mut certificates = Certificates::new(certificate.clone(), key);
        assert!(served(&certificates).is_none());
        assert!(certificates.problem().unwrap().message.contains("tls.crt"), "missing files are a problem");
        write(folder.path(), "a.example", "a.example");
        certificates.look();
        let first = served(&certificates).unwrap();
        assert!(certificates.problem().is_none());
        write(folder.path(), "b.example", "c.example");
        certificates.look();
        assert_eq!(served(&certificates).as_ref(), Some(&first), "the key is another's");
        assert!(certificates.problem().unwrap().message.contains("stays in use"));
        fs::write(&certificate, "garbage").unwrap();
        certificates.look();
        assert!(certificates.problem().is_some() && served(&certificates).as_ref() == Some(&first));
        write(folder.path(), "d.example", "d.example");
        certificates.look();
        assert!(certificates.problem().is_none() && served(&certificates) != Some(first));
    }
}
