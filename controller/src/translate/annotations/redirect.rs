//! Redirects that are decided before a request goes anywhere.

use super::Settings;
use crate::translate::setting::{NotYet, Risk, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet(
        "permanent-redirect",
        Value::Text,
        "",
        NotYet::ChangesAnswers,
        "Answer with a redirect (301) to this URL, whatever the path.",
    )
    .location(Risk::Medium),
    Setting::not_yet(
        "permanent-redirect-code",
        Value::Within(300, 308),
        "301",
        NotYet::Harmless,
        "Code of permanent-redirect, 300 to 308.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "temporal-redirect",
        Value::Text,
        "",
        NotYet::ChangesAnswers,
        "Answer with a redirect (302) to this URL, whatever the path; wins over permanent-redirect.",
    )
    .location(Risk::Medium),
    Setting::not_yet(
        "temporal-redirect-code",
        Value::Within(300, 307),
        "302",
        NotYet::Harmless,
        "Code of temporal-redirect, 300 to 307.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "from-to-www-redirect",
        Value::Bool,
        "false",
        NotYet::ChangesAnswers,
        "Creates the missing www./bare sibling host and redirects it with 308.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "preserve-trailing-slash",
        Value::Bool,
        "false",
        NotYet::ChangesAnswers,
        "Keep the final slash in the https redirect.",
    )
    .location(Risk::Medium)
    .falls_back_to("preserve-trailing-slash"),
    Setting::not_yet(
        "relative-redirects",
        Value::Bool,
        "false",
        NotYet::ChangesAnswers,
        "Location header relative instead of absolute.",
    )
    .location(Risk::Low)
    .falls_back_to("relative-redirects"),
    Setting::not_yet(
        "use-port-in-redirects",
        Value::Bool,
        "false",
        NotYet::ChangesAnswers,
        "Add the listening port to redirects.",
    )
    .location(Risk::Low)
    .falls_back_to("use-port-in-redirects"),
];
