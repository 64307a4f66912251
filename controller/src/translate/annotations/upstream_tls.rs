//! What is spoken to the backend, and TLS towards it.

use super::Settings;
use crate::translate::setting::{NotYet, Risk, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet(
        "proxy-http-version",
        Value::OneOf(&["1.0", "1.1"]),
        "1.1",
        NotYet::ChangesAnswers,
        "HTTP version to endpoints.",
    )
    .location(Risk::Low),
    Setting::not_yet("fastcgi-index", Value::Text, "", NotYet::Harmless, "Index for FastCGI backends.")
        .location(Risk::Medium),
    Setting::not_yet(
        "fastcgi-params-configmap",
        Value::ObjectName,
        "",
        NotYet::Harmless,
        "FastCGI parameters.",
    )
    .location(Risk::Medium),
    Setting::not_yet(
        "proxy-ssl-ciphers",
        Value::Text,
        "DEFAULT",
        NotYet::Harmless,
        "Ciphers to HTTPS endpoints.",
    )
    .ingress(Risk::Medium),
    Setting::not_yet(
        "proxy-ssl-name",
        Value::Text,
        "",
        NotYet::Harmless,
        "Name for SNI and verification of the endpoint.",
    )
    .ingress(Risk::High),
    Setting::not_yet(
        "proxy-ssl-protocols",
        Value::Text,
        "TLSv1.2",
        NotYet::Harmless,
        "Protocols to endpoints.",
    )
    .ingress(Risk::Low),
    Setting::not_yet(
        "proxy-ssl-secret",
        Value::ObjectName,
        "",
        NotYet::Protects,
        "Client key pair and CA (tls.crt, tls.key, ca.crt).",
    )
    .ingress(Risk::Medium),
    Setting::not_yet(
        "proxy-ssl-server-name",
        Value::Switch,
        "off",
        NotYet::ChangesAnswers,
        "Send SNI upstream.",
    )
    .ingress(Risk::Low),
    Setting::not_yet(
        "proxy-ssl-verify",
        Value::Switch,
        "off",
        NotYet::Protects,
        "Verify endpoint certificate against ca.crt.",
    )
    .ingress(Risk::Low),
    Setting::not_yet("proxy-ssl-verify-depth", Value::Count, "1", NotYet::Harmless, "Chain length.")
        .ingress(Risk::Low),
];
