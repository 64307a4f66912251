//! Bounds on what one client may use.

use super::Annotation;
use crate::translate::setting::{NotYet, Risk};
use crate::translate::value;

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::not_yet(
            "limit-connections",
            value::count(),
            "0",
            NotYet::Protects,
            "Concurrent connections per client key.",
        )
        .location(Risk::Low),
        Annotation::not_yet(
            "limit-rps",
            value::count(),
            "0",
            NotYet::Protects,
            "Requests per second per client key.",
        )
        .location(Risk::Low),
        Annotation::not_yet(
            "limit-rpm",
            value::count(),
            "0",
            NotYet::Protects,
            "Requests per minute per client key.",
        )
        .location(Risk::Low),
        Annotation::served(
            "limit-rate",
            value::kibibytes(),
            "0",
            "KiB a second of one response of an endpoint; 0 is no limit.",
            |settings, value| settings.bodies.rate = Some(value),
        )
        .location(Risk::Low)
        .falls_back_to("limit-rate"),
        Annotation::served(
            "limit-rate-after",
            value::kibibytes(),
            "0",
            "KiB of a response that go out before limit-rate applies.",
            |settings, value| settings.bodies.rate_after = Some(value),
        )
        .location(Risk::Low)
        .falls_back_to("limit-rate-after"),
        Annotation::not_yet(
            "limit-burst-multiplier",
            value::count(),
            "5",
            NotYet::Harmless,
            "Burst as a multiple of the limit.",
        )
        .location(Risk::Low),
        Annotation::not_yet(
            "limit-allowlist",
            value::list(),
            "",
            NotYet::Harmless,
            "Clients from these networks are not limited.",
        )
        .location(Risk::Low)
        .also(&["limit-whitelist"]),
    ]
}
