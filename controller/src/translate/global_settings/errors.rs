//! Keys about replacement of error responses.

use super::Key;
use crate::translate::setting::{ReferenceTreatment, Unreadable};
use crate::translate::value;

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::served(
            "custom-http-errors",
            value::statuses("comma-separated list of statuses from 300 to 599", 300),
            "",
            "Responses with these statuses, of endpoints and of the gateway, are replaced by the default \
             backend's response. Of statuses below 400, only those of endpoints are, and only with a default \
             backend.",
            |settings, value| settings.global.custom_http_errors = value,
        )
        .unreadable(Unreadable::SkipEntries, ReferenceTreatment::SkipEntries, ""),
        Key::served(
            "disable-proxy-intercept-errors",
            value::bool(),
            "false",
            "Keep responses of endpoints unchanged even if the key custom-http-errors lists their status. Lists of \
             annotations have an annotation of this name.",
            |settings, value| settings.global.keeps_error_responses = value,
        ),
    ]
}
