//! Who is asking: client certificates.

use super::Annotation;
use crate::translate::setting::{NotYet, Reference, Risk, Unreadable};
use crate::translate::value;

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::not_yet(
            "auth-tls-secret",
            value::secret(),
            "",
            NotYet::Protects,
            "Secret with ca.crt (optionally ca.crl) used to verify clients, for all paths of the host.",
        )
        .unreadable(Unreadable::Close, Reference::Close, "")
        .unless("auth-tls-verify-client", "off")
        .location(Risk::Medium)
        .for_whole_host(),
        Annotation::not_yet(
            "auth-tls-match-cn",
            value::text(),
            "",
            NotYet::Protects,
            "Pattern for the subject of client certificates; others get 403.",
        )
        .unreadable(Unreadable::Close, Reference::Reject, "both keep requests out")
        .beside("auth-tls-secret")
        .location(Risk::High),
        Annotation::not_yet(
            "auth-tls-verify-client",
            value::choice(&["on", "off", "optional", "optional_no_ca"]),
            "on",
            NotYet::Harmless,
            "Verification mode.",
        )
        .beside("auth-tls-secret")
        .location(Risk::Medium),
        Annotation::not_yet(
            "auth-tls-verify-depth",
            value::count(),
            "1",
            NotYet::Harmless,
            "Max chain length.",
        )
        .beside("auth-tls-secret")
        .location(Risk::Low),
        Annotation::not_yet(
            "auth-tls-error-page",
            value::text(),
            "",
            NotYet::Harmless,
            "Redirect target for client-certificate errors (nginx 495/496) instead of 400.",
        )
        .unreadable(Unreadable::Default, Reference::Reject, "it has no effect yet")
        .beside("auth-tls-secret")
        .location(Risk::High),
        Annotation::not_yet(
            "auth-tls-pass-certificate-to-upstream",
            value::bool(),
            "false",
            NotYet::Harmless,
            "Adds ssl-client-cert with the URL-encoded PEM to the upstream request.",
        )
        .unreadable(Unreadable::Default, Reference::Reject, "it has no effect yet")
        .beside("auth-tls-secret")
        .location(Risk::Low),
    ]
}
