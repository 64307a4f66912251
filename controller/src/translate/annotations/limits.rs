//! Bounds on what one client may use.

use super::Settings;
use crate::translate::setting::{NotYet, Risk, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet(
        "limit-connections",
        Value::Count,
        "0",
        NotYet::Protects,
        "Concurrent connections per client key.",
    )
    .location(Risk::Low),
    Setting::not_yet("limit-rps", Value::Count, "0", NotYet::Protects, "Requests per second per client key.")
        .location(Risk::Low),
    Setting::not_yet("limit-rpm", Value::Count, "0", NotYet::Protects, "Requests per minute per client key.")
        .location(Risk::Low),
    Setting::not_yet("limit-rate", Value::Count, "0", NotYet::Protects, "Response bandwidth per connection.")
        .location(Risk::Low),
    Setting::not_yet(
        "limit-rate-after",
        Value::Count,
        "0",
        NotYet::Harmless,
        "Bytes before limit-rate applies.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "limit-burst-multiplier",
        Value::Count,
        "5",
        NotYet::Harmless,
        "Burst as a multiple of the limit.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "limit-allowlist",
        Value::List,
        "",
        NotYet::Harmless,
        "Clients from these networks are not limited.",
    )
    .location(Risk::Low)
    .also(&["limit-whitelist"]),
];
