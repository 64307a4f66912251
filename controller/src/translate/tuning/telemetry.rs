//! Traces, and who may read the status.

use super::Settings;
use crate::translate::setting::{NotYet, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet("enable-opentelemetry", Value::Bool, "false", NotYet::Harmless, "Trace requests."),
    Setting::not_yet(
        "opentelemetry-trust-incoming-span",
        Value::Bool,
        "true",
        NotYet::Harmless,
        "Continue incoming context.",
    ),
    Setting::not_yet("opentelemetry-operation-name", Value::Text, "", NotYet::Harmless, "Span name."),
    Setting::no_effect(
        "opentelemetry-config",
        Value::Text,
        "/etc/ingress-controller/telemetry/opentelemetry.toml",
        "there is no nginx underneath",
        "Path of a configuration file of the module.",
    ),
    Setting::not_yet("otlp-collector-host", Value::Text, "", NotYet::Harmless, "Host of the OTLP collector."),
    Setting::not_yet(
        "otlp-collector-port",
        Value::Within(1, 65535),
        "4317",
        NotYet::Harmless,
        "Port of the OTLP collector.",
    ),
    Setting::not_yet(
        "otel-service-name",
        Value::Text,
        "nginx",
        NotYet::Harmless,
        "Name of the service in traces.",
    ),
    Setting::not_yet(
        "otel-sampler",
        Value::OneOf(&["AlwaysOn", "AlwaysOff", "TraceIdRatioBased"]),
        "AlwaysOn",
        NotYet::Harmless,
        "Sampler of traces.",
    ),
    Setting::not_yet(
        "otel-sampler-ratio",
        Value::Float,
        "0.01",
        NotYet::Harmless,
        "Share of requests that are traced.",
    ),
    Setting::not_yet(
        "otel-sampler-parent-based",
        Value::Bool,
        "true",
        NotYet::Harmless,
        "Parent decision first.",
    ),
    Setting::not_yet(
        "otel-max-queuesize",
        Value::Count,
        "2048",
        NotYet::Harmless,
        "Spans that wait to be exported.",
    ),
    Setting::not_yet(
        "otel-schedule-delay-millis",
        Value::Count,
        "5000",
        NotYet::Harmless,
        "Milliseconds between two exports.",
    ),
    Setting::not_yet(
        "otel-max-export-batch-size",
        Value::Count,
        "512",
        NotYet::Harmless,
        "Spans of one export.",
    ),
    Setting::not_yet(
        "nginx-status-ipv4-whitelist",
        Value::List,
        "127.0.0.1",
        NotYet::Harmless,
        "Clients of version 4 that may read the status page.",
    ),
    Setting::not_yet(
        "nginx-status-ipv6-whitelist",
        Value::List,
        "::1",
        NotYet::Harmless,
        "Clients of version 6 that may read the status page.",
    ),
];
