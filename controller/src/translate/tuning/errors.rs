//! Answers in place of the backend's own.

use super::Settings;
use crate::translate::setting::{NotYet, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet(
        "custom-http-errors",
        Value::List,
        "",
        NotYet::ChangesAnswers,
        "Statuses that the default backend answers in place of a backend.",
    ),
    Setting::not_yet(
        "disable-proxy-intercept-errors",
        Value::Bool,
        "false",
        NotYet::Harmless,
        "Never replace answers of backends.",
    ),
];
