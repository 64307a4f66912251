//! Authorisation by an external service, everywhere.

use super::Settings;
use crate::translate::setting::{NotYet, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet(
        "global-auth-url",
        Value::Text,
        "",
        NotYet::Protects,
        "External authorisation for all routes.",
    ),
    Setting::not_yet(
        "global-auth-method",
        Value::Text,
        "",
        NotYet::Harmless,
        "Method of requests to the authorisation service.",
    ),
    Setting::not_yet("global-auth-signin", Value::Text, "", NotYet::Harmless, "URL to sign in at."),
    Setting::not_yet(
        "global-auth-signin-redirect-param",
        Value::Text,
        "rd",
        NotYet::Harmless,
        "Name of the parameter that carries the original URL.",
    ),
    Setting::not_yet(
        "global-auth-response-headers",
        Value::Text,
        "",
        NotYet::Harmless,
        "Fields of its answer that go upstream.",
    ),
    Setting::not_yet(
        "global-auth-request-redirect",
        Value::Text,
        "",
        NotYet::Harmless,
        "Value of X-Auth-Request-Redirect.",
    ),
    Setting::not_yet(
        "global-auth-cache-key",
        Value::Text,
        "",
        NotYet::Harmless,
        "Key under which its answers are kept.",
    ),
    Setting::not_yet(
        "global-auth-cache-duration",
        Value::Text,
        "200 202 401 5m",
        NotYet::Harmless,
        "How long its answers are kept.",
    ),
    Setting::not_yet(
        "global-auth-always-set-cookie",
        Value::Bool,
        "false",
        NotYet::Harmless,
        "Relay Set-Cookie of the authorisation service for every status.",
    ),
    Setting::not_yet(
        "global-auth-snippet",
        Value::Text,
        "",
        NotYet::Protects,
        "Raw text in the location of the authorisation.",
    ),
    Setting::not_yet(
        "no-auth-locations",
        Value::List,
        "/.well-known/acme-challenge",
        NotYet::Harmless,
        "Path prefixes without auth.",
    ),
];
