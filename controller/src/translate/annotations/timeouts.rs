//! Limits on the time of the upstream side.

use sluice_config::Timeout;

use super::Settings;
use crate::translate::setting::{Risk, Setting};
use crate::translate::value::{self, Value};

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::served(
        "proxy-connect-timeout",
        Value::Seconds,
        "5",
        "Seconds for a connection to an endpoint; then another endpoint, or 504.",
        |text, settings: &mut Settings| {
            settings.timeouts.connect = Timeout::After(value::seconds(text)?);
            Ok(())
        },
    )
    .location(Risk::Low)
    .falls_back_to("proxy-connect-timeout")
    .invalid_means_default(),
    Setting::served(
        "proxy-read-timeout",
        Value::Seconds,
        "60",
        "Seconds between two reads from the endpoint; then 504.",
        |text, settings: &mut Settings| {
            settings.timeouts.read = Timeout::After(value::seconds(text)?);
            Ok(())
        },
    )
    .location(Risk::Low)
    .falls_back_to("proxy-read-timeout")
    .invalid_means_default(),
    Setting::served(
        "proxy-send-timeout",
        Value::Seconds,
        "60",
        "Seconds between two writes to the endpoint; then 504.",
        |text, settings: &mut Settings| {
            settings.timeouts.send = Timeout::After(value::seconds(text)?);
            Ok(())
        },
    )
    .location(Risk::Low)
    .falls_back_to("proxy-send-timeout")
    .invalid_means_default(),
];
