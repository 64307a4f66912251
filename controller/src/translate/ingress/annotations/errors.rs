//! Replacement of error responses.

use super::Annotation;
use crate::translate::setting::{ReferenceTreatment, Risk, Unreadable};
use crate::translate::value;

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "custom-http-errors",
            value::statuses("comma-separated list of statuses from 400 to 599", 400),
            "",
            "Responses with these statuses, of endpoints and of the gateway, are replaced by the default \
             backend's response to a request for / with X-Code, X-Format, X-Original-URI and others; without a \
             default backend, by a plain page.",
            |settings, value| settings.policies.error_pages.statuses = Some(value),
        )
        .unreadable(Unreadable::SkipEntries, ReferenceTreatment::Reject, "an error page protects nothing")
        .location(Risk::Low)
        .falls_back_to("custom-http-errors"),
        Annotation::served(
            "disable-proxy-intercept-errors",
            value::bool(),
            "false",
            "Keep responses of endpoints unchanged even if custom-http-errors lists their status. Without the \
             annotation custom-http-errors, the ConfigMap key of this name is the default.",
            |settings, value| settings.policies.error_pages.keeps_responses = Some(value),
        )
        .location(Risk::Low),
        Annotation::served(
            "default-backend",
            value::service(),
            "",
            "Service of the same namespace (its first port) that serves error pages, with plain HTTP, and all \
             requests while the Service of the rule has no endpoint, with its backend-protocol.",
            |settings, value| settings.routes.error_backend = Some(value),
        )
        .unreadable(
            Unreadable::Default,
            ReferenceTreatment::Reject,
            "the default backend of the program answers",
        )
        .location(Risk::Low),
    ]
}
