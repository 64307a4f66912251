//! Choice of endpoints, further tries, and connections that are kept.

use super::Settings;
use crate::translate::setting::{NotYet, Setting};
use crate::translate::value::{self, Value};

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet(
        "load-balance",
        Value::OneOf(&["round_robin", "ewma"]),
        "round_robin",
        NotYet::Harmless,
        "Algorithm among endpoints.",
    ),
    Setting::served(
        "proxy-next-upstream",
        Value::NextUpstream,
        "error timeout",
        "Conditions under which another endpoint is tried.",
        |text, settings: &mut Settings| {
            settings.tuning.next_upstream = value::next_upstream(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "proxy-next-upstream-tries",
        Value::Count,
        "3",
        "Attempts in all, the first included; 0 is one per endpoint; at most 16 in all.",
        |text, settings: &mut Settings| {
            settings.tuning.next_upstream_tries = value::int(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "proxy-next-upstream-timeout",
        Value::Count,
        "0",
        "Seconds after which no further try begins; 0 is no limit.",
        |text, settings: &mut Settings| {
            let limit = value::seconds_or_zero(text)?;
            settings.tuning.next_upstream_timeout = (!limit.is_zero()).then_some(limit);
            Ok(())
        },
    ),
    Setting::served(
        "retry-non-idempotent",
        Value::Bool,
        "false",
        "Also try POST, LOCK and PATCH again.",
        |text, settings: &mut Settings| {
            settings.retry_non_idempotent = value::bool(text)?;
            Ok(())
        },
    ),
    Setting::not_yet(
        "proxy-stream-next-upstream",
        Value::Bool,
        "true",
        NotYet::Harmless,
        "Try another endpoint for TCP.",
    ),
    Setting::not_yet(
        "proxy-stream-next-upstream-tries",
        Value::Count,
        "3",
        NotYet::Harmless,
        "Tries for TCP.",
    ),
    Setting::not_yet(
        "proxy-stream-next-upstream-timeout",
        Value::Time,
        "600s",
        NotYet::Harmless,
        "No further try for TCP after this.",
    ),
    Setting::not_yet(
        "proxy-stream-responses",
        Value::Count,
        "1",
        NotYet::Harmless,
        "Datagrams expected per UDP request.",
    ),
    Setting::served(
        "upstream-keepalive-connections",
        Value::Within(0, 1_048_576),
        "320",
        "Idle connections to endpoints kept by one worker, or as many as were in use at a time lately, if these are \
         more.",
        |text, settings: &mut Settings| {
            settings.tuning.upstream_keepalive_connections = value::int(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "upstream-keepalive-time",
        Value::Time,
        "1h",
        "Age of a connection to an endpoint.",
        |text, settings: &mut Settings| {
            settings.tuning.upstream_keepalive_time = value::time(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "upstream-keepalive-timeout",
        Value::Seconds,
        "60",
        "Idle seconds of a connection to an endpoint.",
        |text, settings: &mut Settings| {
            settings.tuning.upstream_keepalive_timeout = value::seconds(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "upstream-keepalive-requests",
        Value::Positive,
        "10000",
        "Requests on one connection to an endpoint.",
        |text, settings: &mut Settings| {
            settings.tuning.upstream_keepalive_requests = value::int(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "keep-alive-requests",
        Value::Positive,
        "1000",
        "Requests on one client connection.",
        |text, settings: &mut Settings| {
            settings.tuning.keep_alive_requests = value::int(text)?;
            Ok(())
        },
    ),
    Setting::not_yet(
        "service-upstream",
        Value::Bool,
        "false",
        NotYet::Harmless,
        "Send to Services in place of endpoints.",
    ),
    Setting::not_yet(
        "proxy-http-version",
        Value::OneOf(&["1.0", "1.1"]),
        "1.1",
        NotYet::ChangesAnswers,
        "HTTP version to endpoints.",
    ),
    Setting::not_yet(
        "upstream-hash-by",
        Value::Text,
        "",
        NotYet::ChangesAnswers,
        "Consistent hashing of an expression over endpoints.",
    ),
];
