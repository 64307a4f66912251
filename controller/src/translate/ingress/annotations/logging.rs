//! Logging of requests.

use super::Annotation;
use crate::translate::setting::{NotYet, Reference, Risk, Unreadable};
use crate::translate::value;

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "enable-access-log",
            value::bool(),
            "true",
            "Write an access log line for each request.",
            |settings, value| settings.policies.unlogged = !value,
        )
        .location(Risk::Low),
        Annotation::no_effect(
            "enable-rewrite-log",
            value::bool(),
            "false",
            "there is no rewrite log",
            "Log rewrites at notice level.",
        )
        .location(Risk::Low),
        Annotation::not_yet(
            "enable-opentelemetry",
            value::bool(),
            "",
            NotYet::Harmless,
            "Tracing per location.",
        )
        .location(Risk::Low)
        .falls_back_to("enable-opentelemetry"),
        Annotation::not_yet(
            "opentelemetry-operation-name",
            value::text(),
            "",
            NotYet::Harmless,
            "Span name.",
        )
        .unreadable(Unreadable::Default, Reference::Reject, "it has no effect yet")
        .location(Risk::Medium)
        .falls_back_to("opentelemetry-operation-name"),
        Annotation::not_yet(
            "opentelemetry-trust-incoming-span",
            value::bool(),
            "true",
            NotYet::Harmless,
            "Continue the caller's trace context.",
        )
        .location(Risk::Low),
    ]
}
