//! Sluice's own annotations for header fields and fixed responses, in place of nginx snippets.

use sluice_config::Moment;

use super::Annotation;
use crate::translate::setting::{ReferenceTreatment, Risk, Unreadable};
use crate::translate::snippet::annotation as value;

pub(super) fn settings() -> Vec<Annotation> {
    let all = vec![
        Annotation::served(
            "sluice.dev/set-request-headers",
            value::fields(Moment::Request),
            "",
            "Fields of the request for the endpoint, one `Name: value` per line, with variables of the request. An \
             empty value removes the field.",
            |settings, value| settings.routes.snippets.annotations.change_request(value),
        )
        .unreadable(Unreadable::Close, ReferenceTreatment::Absent, ""),
        Annotation::served(
            "sluice.dev/remove-request-headers",
            value::names(),
            "",
            "Fields that the endpoint does not get.",
            |settings, value| settings.routes.snippets.annotations.change_request(value),
        )
        .unreadable(Unreadable::Close, ReferenceTreatment::Absent, ""),
        Annotation::served(
            "sluice.dev/set-response-headers",
            value::fields(Moment::Response),
            "",
            "Fields of every response, errors and redirects included, one `Name: value` per line, with variables of \
             the request. An empty value removes the field.",
            |settings, value| settings.routes.snippets.annotations.change_response(value),
        ),
        Annotation::served(
            "sluice.dev/remove-response-headers",
            value::names(),
            "",
            "Fields that the client does not get.",
            |settings, value| settings.routes.snippets.annotations.change_response(value),
        ),
        Annotation::served(
            "sluice.dev/fixed-response",
            value::response(),
            "",
            "Answer all requests with this status and text, such as `503 Back at noon`, before any check of access. \
             The type is text/html; sluice.dev/set-response-headers may set another one.",
            |settings, value| settings.routes.snippets.annotations.answer(value),
        )
        .unreadable(Unreadable::Close, ReferenceTreatment::Absent, ""),
    ];
    all.into_iter().map(|setting| setting.location(Risk::Medium).absent_in_reference()).collect()
}
