//! Answers in place of the backend's own.

use super::Settings;
use crate::translate::annotations::errors::statuses;
use crate::translate::setting::Setting;
use crate::translate::value::{self, Value};

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::served(
        "custom-http-errors",
        Value::List,
        "",
        "Responses with these statuses, of endpoints and of our own, give way to what the default backend answers.",
        |text, settings: &mut Settings| {
            settings.tuning.custom_http_errors = statuses(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "disable-proxy-intercept-errors",
        Value::Bool,
        "false",
        "Leave responses of endpoints as they are, although custom-http-errors names their status.",
        |text, settings: &mut Settings| {
            settings.tuning.keeps_error_responses = value::bool(text)?;
            Ok(())
        },
    ),
];
