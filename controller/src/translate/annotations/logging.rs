//! What is written down about requests.

use super::Settings;
use crate::translate::setting::{NotYet, Risk, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet("enable-access-log", Value::Bool, "true", NotYet::Harmless, "Per-location access log.")
        .location(Risk::Low),
    Setting::no_effect(
        "enable-rewrite-log",
        Value::Bool,
        "false",
        "there is no rewrite log",
        "Log rewrites at notice level.",
    )
    .location(Risk::Low),
    Setting::not_yet("enable-opentelemetry", Value::Bool, "", NotYet::Harmless, "Tracing per location.")
        .location(Risk::Low)
        .falls_back_to("enable-opentelemetry"),
    Setting::not_yet("opentelemetry-operation-name", Value::Text, "", NotYet::Harmless, "Span name.")
        .location(Risk::Medium)
        .falls_back_to("opentelemetry-operation-name"),
    Setting::not_yet(
        "opentelemetry-trust-incoming-span",
        Value::Bool,
        "true",
        NotYet::Harmless,
        "Continue the caller's trace context.",
    )
    .location(Risk::Low),
];
