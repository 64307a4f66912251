//! Changes to the request on its way to the backend, and to the response on its way back.

use super::Settings;
use crate::translate::setting::{NotYet, Risk, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet(
        "rewrite-target",
        Value::Text,
        "",
        NotYet::ChangesAnswers,
        "Path sent upstream, with $1 to $9 from the path as a regular expression.",
    )
    .ingress(Risk::Medium),
    Setting::not_yet(
        "use-regex",
        Value::Bool,
        "false",
        NotYet::ChangesAnswers,
        "Paths of the host are regular expressions, without regard to case.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "x-forwarded-prefix",
        Value::Text,
        "",
        NotYet::Harmless,
        "X-Forwarded-Prefix to upstream.",
    )
    .location(Risk::Medium),
    Setting::not_yet(
        "upstream-vhost",
        Value::Text,
        "$host",
        NotYet::ChangesAnswers,
        "Host header sent upstream.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "connection-proxy-header",
        Value::OneOf(&["keep-alive", "close"]),
        "",
        NotYet::Harmless,
        "Value of the Connection header sent upstream.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "proxy-cookie-domain",
        Value::Text,
        "off",
        NotYet::ChangesAnswers,
        "Rewrites Domain of upstream Set-Cookie.",
    )
    .location(Risk::Medium),
    Setting::not_yet(
        "proxy-cookie-path",
        Value::Text,
        "off",
        NotYet::ChangesAnswers,
        "Rewrites Path of upstream Set-Cookie.",
    )
    .location(Risk::Medium),
    Setting::not_yet(
        "proxy-redirect-from",
        Value::Text,
        "off",
        NotYet::ChangesAnswers,
        "Text in Location/Refresh to replace.",
    )
    .location(Risk::Medium)
    .idle_at(&["default"]),
    Setting::not_yet(
        "proxy-redirect-to",
        Value::Text,
        "off",
        NotYet::Harmless,
        "Text that replaces proxy-redirect-from.",
    )
    .location(Risk::Medium),
];
