//! Keys about the choice of endpoints, retries, and idle connections.

use super::Key;
use crate::translate::value;

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::served(
            "load-balance",
            value::balance(),
            "round_robin",
            "How an endpoint is chosen without a session or upstream-hash-by.",
            |settings, value| settings.global.balance = value,
        ),
        Key::served(
            "proxy-next-upstream",
            value::next_upstream(),
            "error timeout",
            "Conditions under which another endpoint is tried.",
            |settings, value| settings.global.next_upstream = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "proxy-next-upstream-tries",
            value::count(),
            "3",
            "Maximum attempts, including the first; 0: one per endpoint; never more than 16.",
            |settings, value| settings.global.next_upstream_tries = value,
        ),
        Key::served(
            "proxy-next-upstream-timeout",
            value::seconds_or_zero(),
            "0",
            "Seconds after which no further attempt begins; 0: no limit.",
            |settings, limit| settings.global.next_upstream_timeout = (!limit.is_zero()).then_some(limit),
        ),
        Key::served(
            "retry-non-idempotent",
            value::bool(),
            "false",
            "Also retry POST, LOCK and PATCH.",
            |settings, value| settings.global.retry_non_idempotent = value,
        ),
        Key::served(
            "proxy-stream-next-upstream",
            value::bool(),
            "true",
            "Try a TCP connection, or the first datagram of a UDP session, at another endpoint if the first one \
             refuses it.",
            |settings, value| settings.global.stream.next_upstream = value,
        ),
        Key::served(
            "proxy-stream-next-upstream-tries",
            value::count(),
            "3",
            "Maximum attempts, including the first; 0: one per endpoint; never more than 16.",
            |settings, value| settings.global.stream.next_upstream_tries = value,
        ),
        Key::served(
            "proxy-stream-next-upstream-timeout",
            value::time(),
            "600s",
            "Time after which no further attempt begins; 0: no limit.",
            |settings, limit| {
                settings.global.stream.next_upstream_timeout = (!limit.is_zero()).then_some(limit);
            },
        )
        .unchecked_by_reference(),
        Key::served(
            "proxy-stream-responses",
            value::count().decimal(),
            "1",
            "Datagrams that answer one datagram of a UDP client; the session ends after the last one. With 0 no \
             response is expected.",
            |settings, value| settings.global.stream.responses = value,
        ),
        Key::served(
            "upstream-keepalive-connections",
            value::none_or_up_to(1_048_576),
            "320",
            "Idle connections to endpoints kept by each worker, or as many as were recently in use at \
             once, whichever is more. 0 and negative values keep none.",
            |settings, value| settings.global.upstream_keepalive_connections = value as usize,
        ),
        Key::served(
            "upstream-keepalive-time",
            value::time(),
            "1h",
            "Maximum age of a connection to an endpoint.",
            |settings, value| settings.global.upstream_keepalive_time = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "upstream-keepalive-timeout",
            value::seconds_or_zero(),
            "60",
            "Idle seconds of a connection to an endpoint; 0 keeps none.",
            |settings, value| settings.global.upstream_keepalive_timeout = value,
        ),
        Key::served(
            "upstream-keepalive-requests",
            value::count(),
            "10000",
            "Requests on one connection to an endpoint; 0 is the same as 1.",
            |settings, value| settings.global.upstream_keepalive_requests = value.max(1),
        ),
        Key::served(
            "keep-alive-requests",
            value::count(),
            "1000",
            "Requests on one client connection; 0 is the same as 1.",
            |settings, value| settings.global.keep_alive_requests = value.max(1),
        ),
        Key::served(
            "service-upstream",
            value::bool(),
            "false",
            "Requests go to the addresses of Services instead of their endpoints.",
            |settings, value| settings.service_upstream = value,
        ),
        Key::served(
            "proxy-http-version",
            value::http_1_0(),
            "1.1",
            value::HTTP_VERSION,
            |settings, value| settings.global.http_1_0 = value,
        )
        .unchecked_by_reference(),
        Key::no_effect(
            "upstream-hash-by",
            value::text(),
            "",
            "ingress-nginx reads the key but never uses it; use the annotation",
            "Consistent hashing of an expression over endpoints.",
        ),
    ]
}
