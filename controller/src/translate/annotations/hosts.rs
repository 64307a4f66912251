//! Further names of a host, and TLS per host.

use sluice_config::HostPattern;

use super::Annotation;
use crate::translate::facts::alias;
use crate::translate::setting::{NotYet, Risk};
use crate::translate::value::{self, Type, Wrong};

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "server-alias",
            aliases(),
            "",
            "Further names of the host, for all its paths, of other Ingresses too, where no Ingress has rules for them; *. in \
             front stands for one or more labels. Regular expressions are not served.",
            |settings, value| settings.aliases = value,
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

fn aliases() -> Type<Vec<HostPattern>> {
    value::list().called("comma-separated list of host names").and_then(|names| {
        let read = |name: &str| match name.contains(['~', '(', '\\', '^', '$', '[']) {
            true => Err(Wrong::NotServed),
            false => alias(name).map_err(|reason| Wrong::Invalid(format!("has {name:?}, which {reason}"))),
        };
        names.iter().map(|name| read(name)).collect()
    })
}
