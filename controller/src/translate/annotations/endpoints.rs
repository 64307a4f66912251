//! How an endpoint is chosen where no session decides.

use super::Annotation;
use crate::translate::setting::{NotYet, Risk};
use crate::translate::value;

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::not_yet(
            "load-balance",
            value::choice(&["round_robin", "ewma"]),
            "round_robin",
            NotYet::Harmless,
            "Algorithm among endpoints.",
        )
        .location(Risk::Low)
        .falls_back_to("load-balance"),
        Annotation::not_yet(
            "upstream-hash-by",
            value::text(),
            "",
            NotYet::ChangesAnswers,
            "Consistent hashing of the expression over endpoints.",
        )
        .location(Risk::High),
        Annotation::not_yet(
            "upstream-hash-by-subset",
            value::bool(),
            "false",
            NotYet::Harmless,
            "Hash to a group of endpoints, random within.",
        )
        .location(Risk::Low),
        Annotation::not_yet(
            "upstream-hash-by-subset-size",
            value::positive(),
            "3",
            NotYet::Harmless,
            "Endpoints per group.",
        )
        .location(Risk::Low),
        Annotation::not_yet(
            "service-upstream",
            value::bool(),
            "false",
            NotYet::Harmless,
            "Send to the Service ClusterIP instead of endpoints.",
        )
        .ingress(Risk::Low)
        .falls_back_to("service-upstream"),
    ]
}
