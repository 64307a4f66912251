//! Keys about traces and the status page.

use super::Key;
use crate::translate::setting::NotYet;
use crate::translate::value;

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::not_yet("enable-opentelemetry", value::bool(), "false", NotYet::Harmless, "Trace requests."),
        Key::not_yet(
            "opentelemetry-trust-incoming-span",
            value::bool(),
            "true",
            NotYet::Harmless,
            "Continue incoming context.",
        ),
        Key::not_yet("opentelemetry-operation-name", value::text(), "", NotYet::Harmless, "Span name.")
            .unchecked_by_reference(),
        Key::no_effect(
            "opentelemetry-config",
            value::text(),
            "/etc/ingress-controller/telemetry/opentelemetry.toml",
            "Sluice does not run nginx",
            "Path of a configuration file of the module.",
        )
        .unchecked_by_reference(),
        Key::not_yet(
            "otlp-collector-host",
            value::text(),
            "",
            NotYet::Harmless,
            "Host of the OTLP collector.",
        )
        .unchecked_by_reference(),
        Key::not_yet(
            "otlp-collector-port",
            value::within(1, 65535),
            "4317",
            NotYet::Harmless,
            "Port of the OTLP collector.",
        )
        .unchecked_by_reference(),
        Key::not_yet(
            "otel-service-name",
            value::text(),
            "nginx",
            NotYet::Harmless,
            "Name of the service in traces.",
        )
        .unchecked_by_reference(),
        Key::not_yet(
            "otel-sampler",
            value::choice(&["AlwaysOn", "AlwaysOff", "TraceIdRatioBased"]),
            "AlwaysOn",
            NotYet::Harmless,
            "Sampler of traces.",
        )
        .unchecked_by_reference(),
        Key::not_yet(
            "otel-sampler-ratio",
            value::ratio(),
            "0.01",
            NotYet::Harmless,
            "Share of requests that are traced.",
        ),
        Key::not_yet(
            "otel-sampler-parent-based",
            value::bool(),
            "true",
            NotYet::Harmless,
            "Parent decision first.",
        ),
        Key::not_yet(
            "otel-max-queuesize",
            value::count(),
            "2048",
            NotYet::Harmless,
            "Spans that wait to be exported.",
        ),
        Key::not_yet(
            "otel-schedule-delay-millis",
            value::count(),
            "5000",
            NotYet::Harmless,
            "Milliseconds between two exports.",
        ),
        Key::not_yet(
            "otel-max-export-batch-size",
            value::count(),
            "512",
            NotYet::Harmless,
            "Spans of one export.",
        ),
        Key::served(
            "nginx-status-ipv4-whitelist",
            value::networks(),
            "127.0.0.1",
            "IPv4 clients that may read /nginx_status, the page of nginx's stub_status, of hosts that no Ingress \
             names; others get 403.",
            |settings, value| settings.global.status_readers[0] = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "nginx-status-ipv6-whitelist",
            value::networks(),
            "::1",
            "IPv6 clients that may read /nginx_status.",
            |settings, value| settings.global.status_readers[1] = value,
        )
        .unchecked_by_reference(),
    ]
}
