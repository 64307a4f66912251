//! Raw text for nginx and its firewall module. Sluice generates no configuration text, so these can never be
//! carried out; their risk is Critical, which `annotations-risk-level` refuses by default.

use super::Settings;
use crate::translate::setting::{NotYet, Risk, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet(
        "configuration-snippet",
        Value::Text,
        "",
        NotYet::ChangesAnswers,
        "Text pasted into each location.",
    )
    .location(Risk::Critical),
    Setting::not_yet("server-snippet", Value::Text, "", NotYet::ChangesAnswers, "Text in the server block.")
        .ingress(Risk::Critical),
    Setting::not_yet("stream-snippet", Value::Text, "", NotYet::ChangesAnswers, "Text in the stream block.")
        .ingress(Risk::Critical),
    Setting::not_yet("auth-snippet", Value::Text, "", NotYet::Protects, "Text in the auth location.")
        .location(Risk::Critical),
    Setting::not_yet(
        "enable-modsecurity",
        Value::Bool,
        "false",
        NotYet::Protects,
        "Web application firewall.",
    )
    .ingress(Risk::Low),
    Setting::not_yet(
        "enable-owasp-core-rules",
        Value::Bool,
        "false",
        NotYet::Protects,
        "OWASP core rule set of the firewall.",
    )
    .ingress(Risk::Low),
    Setting::not_yet("modsecurity-snippet", Value::Text, "", NotYet::Protects, "Rules of the firewall.")
        .ingress(Risk::Critical),
    Setting::not_yet(
        "modsecurity-transaction-id",
        Value::Text,
        "",
        NotYet::Harmless,
        "Transaction id of the firewall.",
    )
    .ingress(Risk::High),
];
