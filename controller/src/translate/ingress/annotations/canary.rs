//! Canaries: Ingresses that receive a share of another Ingress's requests. An invalid value is
//! ignored with a problem, as in ingress-nginx, except that of `canary` itself: an Ingress that may
//! be meant as a canary is never treated as an ordinary one.

use std::sync::Arc;

use sluice_config::CanaryValue;

use super::Annotation;
use crate::translate::expression::Expressions;
use crate::translate::setting::{ReferenceTreatment, Risk, Unreadable};
use crate::translate::value;

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "canary",
            value::bool(),
            "false",
            "Marks this Ingress as the alternative backend of a non-canary Ingress with the same host, \
             path and pathType; Prefix, ImplementationSpecific and none are the same. Several are allowed; the \
             main Ingress gets the requests that their weights leave. With an invalid value it gets no requests.",
            // Evaluated before all other annotations.
            |_, _| {},
        )
        .unreadable(
            Unreadable::Reject,
            ReferenceTreatment::Default,
            "an Ingress that may be meant as a canary is never served as an ordinary one",
        )
        .ingress(Risk::Low)
        .on_canary_too(),
        Annotation::served(
            "canary-by-cookie",
            value::token("a name: letters, digits, - and _"),
            "",
            "Cookie whose value always or never chooses the side.",
            |settings, value| settings.canary().cookie = Some(value),
        )
        .ingress(Risk::Medium)
        .on_canary(),
        Annotation::served(
            "canary-by-header",
            value::token("a name: letters, digits, - and _"),
            "",
            "Header whose value always or never chooses the side, before cookie and weight.",
            |settings, value| settings.canary().header = Some(value),
        )
        .ingress(Risk::Medium)
        .on_canary(),
        Annotation::served(
            "canary-by-header-pattern",
            value::text().and_then(pattern),
            "",
            "Regular expression that chooses the canary if the header matches; not with \
             canary-by-header-value. See use-regex.",
            |settings, value| settings.canary().header_pattern = Some(value),
        )
        .ingress(Risk::Medium)
        .fallback("requests with the header go to the main Ingress", |settings| {
            settings.canary().header_pattern = Some(CanaryValue::Unreadable);
        })
        .on_canary(),
        Annotation::served(
            "canary-by-header-value",
            value::text(),
            "",
            "Value of the header that chooses the canary.",
            |settings, value| settings.canary().header_value = Some(value),
        )
        .ingress(Risk::Medium)
        .on_canary(),
        Annotation::served(
            "canary-weight",
            value::count(),
            "0",
            "Share of the requests not decided by header or cookie, out of canary-weight-total.",
            |settings, value| settings.canary().weight = value,
        )
        .ingress(Risk::Low)
        .on_canary(),
        Annotation::served(
            "canary-weight-total",
            value::count(),
            "100",
            "Total of which canary-weight is a share; applies only above 100.",
            |settings, value| settings.canary().total = value,
        )
        .ingress(Risk::Low)
        .on_canary(),
    ]
}

fn pattern(text: Arc<str>) -> Result<CanaryValue, String> {
    match Expressions::default().read(&text) {
        Ok(read) => Ok(match &read.extended {
            Some(apart) => CanaryValue::Extended(apart.clone()),
            None => CanaryValue::Regex(text),
        }),
        Err(reason) => Err(format!("is a regular expression that cannot be read: {reason}")),
    }
}
