//! Copies of requests to another place.

use super::Annotation;
use crate::translate::setting::{NotYet, Risk};
use crate::translate::value;

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::not_yet(
            "mirror-target",
            value::text(),
            "",
            NotYet::Harmless,
            "Each request is copied to this URL, whose answer is dropped.",
        )
        .ingress(Risk::High),
        Annotation::not_yet(
            "mirror-host",
            value::text(),
            "",
            NotYet::Harmless,
            "Host header of mirrored request.",
        )
        .ingress(Risk::High),
        Annotation::not_yet(
            "mirror-request-body",
            value::switch(),
            "on",
            NotYet::Harmless,
            "Send the body to the mirror.",
        )
        .ingress(Risk::Low),
    ]
}
