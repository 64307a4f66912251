//! Cipher suites of the hosts of an Ingress.

use std::sync::Arc;

use sluice_config::{CipherSuites, NamespacedName};

use super::{Annotation, Settings};
use crate::translate::setting::{ReferenceTreatment, Risk, Unreadable};
use crate::translate::value::{self, NamedSuites};

const CIPHERS: &str = "ssl-ciphers";

/// The annotations of this family, parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CipherSettings {
    named: Option<NamedSuites>,
    server_order: Option<bool>,
}

impl CipherSettings {
    /// Returns the suites for the hosts of the Ingress, if it has some.
    fn policy(&self) -> Option<Arc<CipherSuites>> {
        let list = self.named.as_ref().map(|named| named.suites.clone());
        let suites = CipherSuites { list, server_order: self.server_order };
        (suites != CipherSuites::default()).then(|| Arc::new(suites))
    }

    /// Returns the annotation with the reason if a part of its list has no effect.
    fn left_out(&self) -> Option<(&'static str, String)> {
        let skipped = &self.named.as_ref()?.skipped;
        let reason = || format!("{} not available and skipped", skipped.join(", "));
        (!skipped.is_empty()).then(|| (CIPHERS, reason()))
    }
}

/// Sets the suites of the hosts, and reports the parts of the list that have no effect.
pub(super) fn finish(settings: &mut Settings, _: &NamespacedName) {
    settings.routes.cipher_suites = settings.cipher_suites.policy();
    settings.left_out.extend(settings.cipher_suites.left_out());
}

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            CIPHERS,
            value::tls_suites(),
            "",
            "TLS 1.2 cipher suites of the host, in order of preference, out of the six with forward \
             secrecy and authenticated encryption. A list with none of them disables TLS 1.2. The \
             oldest Ingress of the host that has this annotation or ssl-prefer-server-ciphers \
             decides for both.",
            |settings, value| settings.cipher_suites.named = Some(value),
        )
        .unreadable(Unreadable::Default, ReferenceTreatment::Reject, "the suites of all hosts apply")
        .except("unavailable suites are skipped with a warning")
        .ingress(Risk::Low)
        .falls_back_to(CIPHERS),
        Annotation::served(
            "ssl-prefer-server-ciphers",
            value::bool(),
            "true",
            "The order of ssl-ciphers decides, not that of the client.",
            |settings, value| settings.cipher_suites.server_order = Some(value),
        )
        .ingress(Risk::Low),
    ]
}
