//! What is spoken to the backend, and TLS towards it.

use super::Annotation;
use crate::translate::setting::{NotYet, Risk};
use crate::translate::value;

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::not_yet(
            "proxy-http-version",
            value::choice(&["1.0", "1.1"]),
            "1.1",
            NotYet::ChangesAnswers,
            "HTTP version to endpoints.",
        )
        .location(Risk::Low),
        Annotation::not_yet(
            "fastcgi-index",
            value::text(),
            "",
            NotYet::Harmless,
            "Index for FastCGI backends.",
        )
        .location(Risk::Medium),
        Annotation::not_yet(
            "fastcgi-params-configmap",
            value::config_map(),
            "",
            NotYet::Harmless,
            "FastCGI parameters.",
        )
        .location(Risk::Medium),
        Annotation::not_yet(
            "proxy-ssl-ciphers",
            value::text(),
            "DEFAULT",
            NotYet::Harmless,
            "Ciphers to HTTPS endpoints.",
        )
        .ingress(Risk::Medium),
        Annotation::not_yet(
            "proxy-ssl-name",
            value::text(),
            "",
            NotYet::Harmless,
            "Name for SNI and verification of the endpoint.",
        )
        .ingress(Risk::High),
        Annotation::not_yet(
            "proxy-ssl-protocols",
            value::text(),
            "TLSv1.2",
            NotYet::Harmless,
            "Protocols to endpoints.",
        )
        .ingress(Risk::Low),
        Annotation::not_yet(
            "proxy-ssl-secret",
            value::secret(),
            "",
            NotYet::Protects,
            "Client key pair and CA (tls.crt, tls.key, ca.crt).",
        )
        .ingress(Risk::Medium),
        Annotation::not_yet(
            "proxy-ssl-server-name",
            value::switch(),
            "off",
            NotYet::ChangesAnswers,
            "Send SNI upstream.",
        )
        .ingress(Risk::Low),
        Annotation::not_yet(
            "proxy-ssl-verify",
            value::switch(),
            "off",
            NotYet::Protects,
            "Verify endpoint certificate against ca.crt.",
        )
        .ingress(Risk::Low),
        Annotation::not_yet("proxy-ssl-verify-depth", value::count(), "1", NotYet::Harmless, "Chain length.")
            .ingress(Risk::Low),
    ]
}
