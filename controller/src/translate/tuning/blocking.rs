//! Who is kept out, everywhere.

use super::Key;
use crate::translate::setting::NotYet;
use crate::translate::value;

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::not_yet(
            "limit-req-status-code",
            value::within(400, 599),
            "503",
            NotYet::Harmless,
            "Status for rate excess.",
        ),
        Key::not_yet(
            "limit-conn-status-code",
            value::within(400, 599),
            "503",
            NotYet::Harmless,
            "Status for connection excess.",
        ),
        Key::not_yet(
            "limit-conn-zone-variable",
            value::text(),
            "$binary_remote_addr",
            NotYet::Harmless,
            "Key expression for all limits.",
        ),
        Key::not_yet(
            "denylist-source-range",
            value::list(),
            "",
            NotYet::Protects,
            "Clients from these networks get 403.",
        ),
        Key::not_yet(
            "whitelist-source-range",
            value::list(),
            "",
            NotYet::Protects,
            "Only clients from these networks are served; others get 403.",
        ),
        Key::not_yet(
            "block-cidrs",
            value::list(),
            "",
            NotYet::Protects,
            "Clients from these networks get 403.",
        ),
        Key::not_yet(
            "block-user-agents",
            value::list(),
            "",
            NotYet::Protects,
            "User agents that get 403, as texts or patterns.",
        ),
        Key::not_yet(
            "block-referers",
            value::list(),
            "",
            NotYet::Protects,
            "Referers that get 403, as texts or patterns.",
        ),
    ]
}
