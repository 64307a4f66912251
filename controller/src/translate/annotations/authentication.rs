//! Who is asking: an external authorisation service, client certificates.

use super::Settings;
use crate::translate::setting::{NotYet, Risk, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet(
        "auth-url",
        Value::Text,
        "",
        NotYet::Protects,
        "External authorisation subrequest: 2xx allow, 401/403 deny, anything else 500.",
    )
    .location(Risk::High),
    Setting::not_yet(
        "auth-signin",
        Value::Text,
        "",
        NotYet::Harmless,
        "On 401 answer 302 to this URL plus redirect parameter.",
    )
    .location(Risk::High),
    Setting::not_yet(
        "auth-signin-redirect-param",
        Value::Text,
        "rd",
        NotYet::Harmless,
        "Name of the parameter of auth-signin that carries the original URL.",
    )
    .location(Risk::Medium),
    Setting::not_yet("auth-method", Value::Text, "GET", NotYet::Harmless, "Method of the auth subrequest.")
        .location(Risk::Low),
    Setting::not_yet(
        "auth-response-headers",
        Value::List,
        "",
        NotYet::Harmless,
        "Headers copied from the auth answer onto the upstream request (overwriting the client ones).",
    )
    .location(Risk::Medium),
    Setting::not_yet(
        "auth-request-redirect",
        Value::Text,
        "$request_uri",
        NotYet::Harmless,
        "Value of X-Auth-Request-Redirect.",
    )
    .location(Risk::Medium),
    Setting::not_yet(
        "auth-proxy-set-headers",
        Value::ObjectName,
        "",
        NotYet::Harmless,
        "Extra headers on the auth subrequest.",
    )
    .location(Risk::Medium),
    Setting::not_yet(
        "auth-always-set-cookie",
        Value::Bool,
        "false",
        NotYet::Harmless,
        "Relay Set-Cookie of the auth service for every upstream status.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "auth-cache-key",
        Value::Text,
        "",
        NotYet::Harmless,
        "Enables caching of the auth answer under this key.",
    )
    .location(Risk::Medium),
    Setting::not_yet(
        "auth-cache-duration",
        Value::List,
        "200 202 401 5m",
        NotYet::Harmless,
        "How long auth decisions are cached (needs cache key).",
    )
    .location(Risk::Medium),
    Setting::not_yet(
        "auth-keepalive",
        Value::Count,
        "0",
        NotYet::Harmless,
        "Idle connections kept to the auth service.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "auth-keepalive-requests",
        Value::Count,
        "1000",
        NotYet::Harmless,
        "Requests per kept connection to the auth service.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "auth-keepalive-share-vars",
        Value::Bool,
        "false",
        NotYet::Harmless,
        "Share nginx variables between main request and subrequest.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "auth-keepalive-timeout",
        Value::Count,
        "60",
        NotYet::Harmless,
        "Idle seconds of kept connections to the auth service.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "enable-global-auth",
        Value::Bool,
        "true",
        NotYet::Harmless,
        "Whether global-auth-url applies.",
    )
    .location(Risk::Low),
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
