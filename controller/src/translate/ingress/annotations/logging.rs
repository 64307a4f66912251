//! Logs and traces of requests.

use std::sync::Arc;

use sluice_config::{Moment, NamespacedName, RuleTracing, Template};

use super::{Annotation, Settings};
use crate::translate::setting::{ReferenceTreatment, Risk, Unreadable};
use crate::translate::template;
use crate::translate::value::{self, Type};

const ENABLE: &str = "enable-opentelemetry";
const NAME: &str = "opentelemetry-operation-name";
const TRUST: &str = "opentelemetry-trust-incoming-span";

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
        Annotation::served(
            "enable-rewrite-log",
            value::bool(),
            "false",
            "Write each path that `rewrite-target` or a snippet rewrites to the program's log.",
            |settings, value| settings.policies.logs_rewrites = value,
        )
        .location(Risk::Low),
        Annotation::served(
            ENABLE,
            value::bool(),
            "",
            "Trace the requests of these paths, or not.",
            |settings, value| settings.policies.tracing.enabled = Some(value),
        )
        .location(Risk::Low)
        .falls_back_to(ENABLE),
        Annotation::served(NAME, span_name(), "", "Name of a request's span.", |settings, value| {
            settings.policies.tracing.span_name = Some(Arc::new(value))
        })
        .unreadable(Unreadable::Default, ReferenceTreatment::Reject, "a name changes no response")
        .beside(ENABLE)
        .location(Risk::Medium)
        .falls_back_to(NAME),
        Annotation::served(
            TRUST,
            value::bool(),
            "",
            "Continue the trace of the client, or replace it.",
            |settings, value| settings.policies.tracing.trusts_incoming = Some(value),
        )
        .beside(ENABLE)
        .location(Risk::Low)
        .falls_back_to(TRUST),
    ]
}

/// A name with variables. With validation, ingress-nginx permits none.
fn span_name() -> Type<Template> {
    template::field(Moment::End)
        .allowing(|text| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)))
}

/// Leaves out what has no effect in ingress-nginx without `enable-opentelemetry: "true"`.
pub(super) fn finish(settings: &mut Settings, _: &NamespacedName) {
    let RuleTracing { enabled, trusts_incoming, span_name } = &mut settings.policies.tracing;
    if *enabled == Some(true) {
        return;
    }
    let left_out = [(TRUST, trusts_incoming.take().is_some()), (NAME, span_name.take().is_some())];
    for (name, _) in left_out.into_iter().filter(|(_, is_set)| *is_set) {
        let reason = "has no effect without enable-opentelemetry: \"true\" beside it, as in ingress-nginx";
        settings.left_out.push((name, reason.to_owned()));
    }
}
