//! Who is asking: client certificates.

use super::Settings;
use crate::translate::setting::{NotYet, Risk, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet(
        "auth-tls-secret",
        Value::ObjectName,
        "",
        NotYet::Protects,
        "Secret with ca.crt (optionally ca.crl) used to verify clients, for all paths of the host.",
    )
    .location(Risk::Medium)
    .for_whole_host(),
    Setting::not_yet(
        "auth-tls-match-cn",
        Value::Text,
        "",
        NotYet::Protects,
        "Pattern for the subject of client certificates; others get 403.",
    )
    .location(Risk::High),
    Setting::not_yet(
        "auth-tls-verify-client",
        Value::OneOf(&["on", "off", "optional", "optional_no_ca"]),
        "on",
        NotYet::Harmless,
        "Verification mode.",
    )
    .location(Risk::Medium),
    Setting::not_yet("auth-tls-verify-depth", Value::Count, "1", NotYet::Harmless, "Max chain length.")
        .location(Risk::Low),
    Setting::not_yet(
        "auth-tls-error-page",
        Value::Text,
        "",
        NotYet::Harmless,
        "Redirect target for client-certificate errors (nginx 495/496) instead of 400.",
    )
    .location(Risk::High),
    Setting::not_yet(
        "auth-tls-pass-certificate-to-upstream",
        Value::Bool,
        "false",
        NotYet::Harmless,
        "Adds ssl-client-cert with the URL-encoded PEM to the upstream request.",
    )
    .location(Risk::Low),
];
