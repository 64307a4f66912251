//! Copies of requests to another place.

use super::Settings;
use crate::translate::setting::{NotYet, Risk, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet(
        "mirror-target",
        Value::Text,
        "",
        NotYet::Harmless,
        "Each request is copied to this URL, whose answer is dropped.",
    )
    .ingress(Risk::High),
    Setting::not_yet("mirror-host", Value::Text, "", NotYet::Harmless, "Host header of mirrored request.")
        .ingress(Risk::High),
    Setting::not_yet(
        "mirror-request-body",
        Value::Switch,
        "on",
        NotYet::Harmless,
        "Send the body to the mirror.",
    )
    .ingress(Risk::Low),
];
