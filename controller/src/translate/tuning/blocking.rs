//! Who is kept out, everywhere.

use super::Settings;
use crate::translate::setting::{NotYet, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet(
        "limit-req-status-code",
        Value::Within(400, 599),
        "503",
        NotYet::Harmless,
        "Status for rate excess.",
    ),
    Setting::not_yet(
        "limit-conn-status-code",
        Value::Within(400, 599),
        "503",
        NotYet::Harmless,
        "Status for connection excess.",
    ),
    Setting::not_yet(
        "limit-conn-zone-variable",
        Value::Text,
        "$binary_remote_addr",
        NotYet::Harmless,
        "Key expression for all limits.",
    ),
    Setting::not_yet(
        "denylist-source-range",
        Value::List,
        "",
        NotYet::Protects,
        "Clients from these networks get 403.",
    ),
    Setting::not_yet(
        "whitelist-source-range",
        Value::List,
        "",
        NotYet::Protects,
        "Only clients from these networks are served; others get 403.",
    ),
    Setting::not_yet(
        "block-cidrs",
        Value::List,
        "",
        NotYet::Protects,
        "Clients from these networks get 403.",
    ),
    Setting::not_yet(
        "block-user-agents",
        Value::List,
        "",
        NotYet::Protects,
        "User agents that get 403, as texts or patterns.",
    ),
    Setting::not_yet(
        "block-referers",
        Value::List,
        "",
        NotYet::Protects,
        "Referers that get 403, as texts or patterns.",
    ),
];
