//! Further names of a host, and TLS per host.

use super::Annotation;
use crate::translate::setting::{NotYet, Risk};
use crate::translate::value;

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::not_yet(
            "server-alias",
            value::list(),
            "",
            NotYet::ChangesAnswers,
            "Extra host names answered by the same virtual host.",
        )
        .ingress(Risk::High),
        Annotation::not_yet(
            "ssl-passthrough",
            value::bool(),
            "false",
            NotYet::ChangesAnswers,
            "TLS by SNI straight to the Service.",
        )
        .ingress(Risk::Low),
        Annotation::not_yet(
            "ssl-ciphers",
            value::text(),
            "",
            NotYet::Harmless,
            "Ciphers of the host (nginx: default server semantics apply).",
        )
        .ingress(Risk::Low)
        .falls_back_to("ssl-ciphers"),
        Annotation::no_effect(
            "ssl-prefer-server-ciphers",
            value::bool(),
            "true",
            "the order of rustls is used, which prefers the server's",
            "Server cipher order.",
        )
        .ingress(Risk::Low),
        Annotation::no_effect(
            "http2-push-preload",
            value::bool(),
            "false",
            "clients no longer accept pushed responses",
            "HTTP/2 push from Link headers.",
        )
        .location(Risk::Low),
    ]
}
