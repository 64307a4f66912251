//! Keys about replacement of error responses.

use super::Key;
use crate::translate::ingress::annotations::errors::statuses;
use crate::translate::setting::{Reference, Unreadable};
use crate::translate::value;

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::served(
            "custom-http-errors",
            statuses(),
            "",
            "Responses with these statuses, of endpoints and of the gateway, are replaced by the default \
             backend's response.",
            |settings, value| settings.global.custom_http_errors = value,
        )
        .unreadable(Unreadable::SkipEntries, Reference::SkipEntries, ""),
        Key::served(
            "disable-proxy-intercept-errors",
            value::bool(),
            "false",
            "Keep responses of endpoints unchanged even if custom-http-errors lists their status.",
            |settings, value| settings.global.keeps_error_responses = value,
        ),
    ]
}
