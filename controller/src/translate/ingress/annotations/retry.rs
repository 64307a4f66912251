//! Retries at other endpoints.

use sluice_config::Timeout;

use super::Annotation;
use crate::translate::setting::Risk;
use crate::translate::value;

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "proxy-next-upstream",
            value::next_upstream(),
            "error timeout",
            "Conditions under which another endpoint is tried.",
            |settings, value| settings.policies.retry.on = Some(value),
        )
        .location(Risk::Medium)
        .falls_back_to("proxy-next-upstream"),
        Annotation::served(
            "proxy-next-upstream-tries",
            value::count(),
            "3",
            "Maximum attempts, including the first; 0: one per endpoint; never more than 16.",
            |settings, value| settings.policies.retry.tries = Some(value),
        )
        .location(Risk::Low)
        .falls_back_to("proxy-next-upstream-tries"),
        Annotation::served(
            "proxy-next-upstream-timeout",
            value::seconds_or_zero(),
            "0",
            "Seconds after which no further attempt begins; 0: no limit.",
            |settings, limit| {
                settings.policies.retry.timeout =
                    if limit.is_zero() { Timeout::Off } else { Timeout::After(limit) };
            },
        )
        .location(Risk::Low)
        .falls_back_to("proxy-next-upstream-timeout"),
    ]
}
