//! How an endpoint is chosen where no session decides.

use super::Settings;
use crate::translate::setting::{NotYet, Risk, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet(
        "load-balance",
        Value::OneOf(&["round_robin", "ewma"]),
        "round_robin",
        NotYet::Harmless,
        "Algorithm among endpoints.",
    )
    .location(Risk::Low)
    .falls_back_to("load-balance"),
    Setting::not_yet(
        "upstream-hash-by",
        Value::Text,
        "",
        NotYet::ChangesAnswers,
        "Consistent hashing of the expression over endpoints.",
    )
    .location(Risk::High),
    Setting::not_yet(
        "upstream-hash-by-subset",
        Value::Bool,
        "false",
        NotYet::Harmless,
        "Hash to a group of endpoints, random within.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "upstream-hash-by-subset-size",
        Value::Positive,
        "3",
        NotYet::Harmless,
        "Endpoints per group.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "service-upstream",
        Value::Bool,
        "false",
        NotYet::Harmless,
        "Send to the Service ClusterIP instead of endpoints.",
    )
    .ingress(Risk::Low)
    .falls_back_to("service-upstream"),
];
