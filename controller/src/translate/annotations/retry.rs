//! When a request goes to another endpoint.

use sluice_config::Timeout;

use super::Settings;
use crate::translate::setting::{Risk, Setting};
use crate::translate::value::{self, Value};

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::served(
        "proxy-next-upstream",
        Value::NextUpstream,
        "error timeout",
        "Conditions under which another endpoint is tried.",
        |text, settings: &mut Settings| {
            settings.retry.on = Some(value::next_upstream(text)?);
            Ok(())
        },
    )
    .location(Risk::Medium)
    .falls_back_to("proxy-next-upstream")
    .invalid_means_default(),
    Setting::served(
        "proxy-next-upstream-tries",
        Value::Count,
        "3",
        "Attempts in all, the first included; 0 is one per endpoint; at most 16 in all.",
        |text, settings: &mut Settings| {
            settings.retry.tries = Some(value::int(text)?);
            Ok(())
        },
    )
    .location(Risk::Low)
    .falls_back_to("proxy-next-upstream-tries")
    .invalid_means_default(),
    Setting::served(
        "proxy-next-upstream-timeout",
        Value::Count,
        "0",
        "Seconds after which no further try begins; 0 is no limit.",
        |text, settings: &mut Settings| {
            let limit = value::seconds_or_zero(text)?;
            settings.retry.timeout = if limit.is_zero() { Timeout::Off } else { Timeout::After(limit) };
            Ok(())
        },
    )
    .location(Risk::Low)
    .falls_back_to("proxy-next-upstream-timeout")
    .invalid_means_default(),
];
