//! Who may ask: allow and deny lists by client address.

use super::Annotation;
use crate::translate::setting::{NotYet, Risk};
use crate::translate::value;

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::not_yet(
            "allowlist-source-range",
            value::list(),
            "",
            NotYet::Protects,
            "Only clients from these networks are served; others get 403.",
        )
        .location(Risk::Medium)
        .falls_back_to("whitelist-source-range")
        .also(&["whitelist-source-range"]),
        Annotation::not_yet(
            "denylist-source-range",
            value::list(),
            "",
            NotYet::Protects,
            "Matching client IP gets 403.",
        )
        .location(Risk::Medium)
        .falls_back_to("denylist-source-range"),
        Annotation::not_yet(
            "satisfy",
            value::choice(&["all", "any"]),
            "all",
            NotYet::Harmless,
            "Whether all access checks must pass, or any one.",
        )
        .location(Risk::Low),
    ]
}
