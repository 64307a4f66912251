//! Who may ask: allow and deny lists by client address.

use super::Settings;
use crate::translate::setting::{NotYet, Risk, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet(
        "allowlist-source-range",
        Value::List,
        "",
        NotYet::Protects,
        "Only clients from these networks are served; others get 403.",
    )
    .location(Risk::Medium)
    .falls_back_to("whitelist-source-range")
    .also(&["whitelist-source-range"]),
    Setting::not_yet(
        "denylist-source-range",
        Value::List,
        "",
        NotYet::Protects,
        "Matching client IP gets 403.",
    )
    .location(Risk::Medium)
    .falls_back_to("denylist-source-range"),
    Setting::not_yet(
        "satisfy",
        Value::OneOf(&["all", "any"]),
        "all",
        NotYet::Harmless,
        "Whether all access checks must pass, or any one.",
    )
    .location(Risk::Low),
];
