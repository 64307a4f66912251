//! Further names of a host, and TLS per host.

use super::Settings;
use crate::translate::setting::{NotYet, Risk, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet(
        "server-alias",
        Value::List,
        "",
        NotYet::ChangesAnswers,
        "Extra host names answered by the same virtual host.",
    )
    .ingress(Risk::High),
    Setting::not_yet(
        "ssl-passthrough",
        Value::Bool,
        "false",
        NotYet::ChangesAnswers,
        "TLS by SNI straight to the Service.",
    )
    .ingress(Risk::Low),
    Setting::not_yet(
        "ssl-ciphers",
        Value::Text,
        "",
        NotYet::Harmless,
        "Ciphers of the host (nginx: default server semantics apply).",
    )
    .ingress(Risk::Low)
    .falls_back_to("ssl-ciphers"),
    Setting::no_effect(
        "ssl-prefer-server-ciphers",
        Value::Bool,
        "true",
        "the order of rustls is used, which prefers the server's",
        "Server cipher order.",
    )
    .ingress(Risk::Low),
    Setting::no_effect(
        "http2-push-preload",
        Value::Bool,
        "false",
        "clients no longer accept pushed responses",
        "HTTP/2 push from Link headers.",
    )
    .location(Risk::Low),
];
