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
        Annotation::not_yet(
            "limit-rate",
            value::count(),
            "0",
            NotYet::Protects,
            "Response bandwidth per connection.",
        )
        .location(Risk::Low),
        Annotation::not_yet(
            "limit-rate-after",
            value::count(),
            "0",
            NotYet::Harmless,
            "Bytes before limit-rate applies.",
        )
        .location(Risk::Low),
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
