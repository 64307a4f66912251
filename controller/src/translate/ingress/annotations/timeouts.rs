//! Time limits for endpoints.

use sluice_config::Timeout;

use super::Annotation;
use crate::translate::setting::Risk;
use crate::translate::value;

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "proxy-connect-timeout",
            value::seconds(),
            "5",
            "Seconds to connect to an endpoint; then another endpoint, or 504.",
            |settings, value| settings.policies.timeouts.connect = Timeout::After(value),
        )
        .location(Risk::Low)
        .falls_back_to("proxy-connect-timeout"),
        Annotation::served(
            "proxy-read-timeout",
            value::seconds(),
            "60",
            "Seconds between two reads from the endpoint; then 504.",
            |settings, value| settings.policies.timeouts.read = Timeout::After(value),
        )
        .location(Risk::Low)
        .falls_back_to("proxy-read-timeout"),
        Annotation::served(
            "proxy-send-timeout",
            value::seconds(),
            "60",
            "Seconds between two writes to the endpoint; then 504.",
            |settings, value| settings.policies.timeouts.send = Timeout::After(value),
        )
        .location(Risk::Low)
        .falls_back_to("proxy-send-timeout"),
    ]
}
