//! Keys about the status page.

use super::Key;
use crate::translate::value;

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::served(
            "nginx-status-ipv4-whitelist",
            value::networks_if_any().empty_as(""),
            "127.0.0.1",
            "IPv4 clients that may read /nginx_status, the page of nginx's stub_status, of hosts that no Ingress \
             names; others get 403.",
            |settings, value| settings.global.status_readers[0] = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "nginx-status-ipv6-whitelist",
            value::networks_if_any().empty_as(""),
            "::1",
            "IPv6 clients that may read /nginx_status.",
            |settings, value| settings.global.status_readers[1] = value,
        )
        .unchecked_by_reference(),
    ]
}
