//! Keys about time limits of clients and endpoints.

use super::Key;
use crate::translate::value;

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::served(
            "client-header-timeout",
            value::seconds(),
            "60",
            "Seconds to receive a complete request head; then 408.",
            |settings, value| settings.global.client_header_timeout = value,
        ),
        Key::served(
            "client-body-timeout",
            value::seconds(),
            "60",
            "Seconds between two reads of a request body; then 408.",
            |settings, value| settings.global.client_body_timeout = value,
        ),
        Key::served(
            "keep-alive",
            value::seconds_or_zero(),
            "75",
            "Idle seconds of a client connection; 0 closes it after each response.",
            |settings, value| settings.global.keep_alive = value,
        ),
        Key::served(
            "proxy-connect-timeout",
            value::seconds(),
            "5",
            "Seconds to connect to an endpoint.",
            |settings, value| settings.global.proxy_connect_timeout = value,
        ),
        Key::served(
            "proxy-read-timeout",
            value::seconds(),
            "60",
            "Seconds between two reads from an endpoint.",
            |settings, value| settings.global.proxy_read_timeout = value,
        ),
        Key::served(
            "proxy-send-timeout",
            value::seconds(),
            "60",
            "Seconds between two writes to an endpoint.",
            |settings, value| settings.global.proxy_send_timeout = value,
        ),
        Key::served(
            "proxy-protocol-header-timeout",
            value::some_time(),
            "5s",
            "Time to receive the PROXY protocol header; then the connection is closed.",
            |settings, value| settings.global.forwarded.proxy_protocol_timeout = value,
        ),
        Key::served(
            "proxy-stream-timeout",
            value::some_time(),
            "600s",
            "Idle time, in both directions together, of TCP connections, UDP sessions and TLS that is passed through.",
            |settings, value| settings.global.stream.timeout = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "worker-shutdown-timeout",
            value::time(),
            "240s",
            "Time for requests in progress to finish after the listeners are closed.",
            |settings, value| settings.global.worker_shutdown_timeout = value,
        )
        .unchecked_by_reference(),
    ]
}
