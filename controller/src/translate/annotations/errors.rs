//! Answers in place of the backend's own.

use super::Settings;
use crate::translate::setting::{NotYet, Risk, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet(
        "custom-http-errors",
        Value::List,
        "",
        NotYet::ChangesAnswers,
        "Upstream answers with these codes are replaced by a request to the default backend with X-Code etc.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "disable-proxy-intercept-errors",
        Value::Bool,
        "false",
        NotYet::Harmless,
        "Turns off error interception on this location although custom-http-errors is set.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "default-backend",
        Value::Text,
        "",
        NotYet::ChangesAnswers,
        "Used when the Service has no endpoint and as target for custom-http-errors.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "custom-headers",
        Value::ObjectName,
        "",
        NotYet::ChangesAnswers,
        "ConfigMap whose pairs are set on client responses.",
    )
    .location(Risk::Medium),
];
