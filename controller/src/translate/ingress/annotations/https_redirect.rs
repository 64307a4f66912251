//! Redirects from http to https. An invalid value rejects the Ingress: interpreted as "no
//! redirect", requests that the author meant to be encrypted would be sent in plain text.

use super::Annotation;
use crate::translate::setting::Risk;
use crate::translate::value;

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "ssl-redirect",
            value::bool(),
            "true",
            "Redirect from http to https if a certificate is configured for the host, perhaps that of a wildcard.",
            |settings, value| settings.policies.https_redirect.ssl = Some(value),
        )
        .location(Risk::Low)
        .falls_back_to("ssl-redirect"),
        Annotation::served(
            "force-ssl-redirect",
            value::bool(),
            "false",
            "Redirect from http to https even if the host has no TLS.",
            |settings, value| settings.policies.https_redirect.force = Some(value),
        )
        .location(Risk::Medium)
        .falls_back_to("force-ssl-redirect"),
    ]
}
