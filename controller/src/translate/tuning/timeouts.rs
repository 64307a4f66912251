//! Limits on the time of clients and endpoints.

use super::Settings;
use crate::translate::setting::{NotYet, Setting};
use crate::translate::value::{self, Value};

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::served(
        "client-header-timeout",
        Value::Seconds,
        "60",
        "Seconds for a whole request head; then 408.",
        |text, settings: &mut Settings| {
            settings.tuning.client_header_timeout = value::seconds(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "client-body-timeout",
        Value::Seconds,
        "60",
        "Seconds between two reads of a request body; then 408.",
        |text, settings: &mut Settings| {
            settings.tuning.client_body_timeout = value::seconds(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "keep-alive",
        Value::Count,
        "75",
        "Idle seconds of a client connection; 0 closes after each answer.",
        |text, settings: &mut Settings| {
            settings.tuning.keep_alive = value::seconds_or_zero(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "proxy-connect-timeout",
        Value::Seconds,
        "5",
        "Seconds for a connection to an endpoint.",
        |text, settings: &mut Settings| {
            settings.tuning.proxy_connect_timeout = value::seconds(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "proxy-read-timeout",
        Value::Seconds,
        "60",
        "Seconds between two reads from an endpoint.",
        |text, settings: &mut Settings| {
            settings.tuning.proxy_read_timeout = value::seconds(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "proxy-send-timeout",
        Value::Seconds,
        "60",
        "Seconds between two writes to an endpoint.",
        |text, settings: &mut Settings| {
            settings.tuning.proxy_send_timeout = value::seconds(text)?;
            Ok(())
        },
    ),
    Setting::not_yet(
        "proxy-protocol-header-timeout",
        Value::Time,
        "5s",
        NotYet::Harmless,
        "Waiting for the PROXY header.",
    ),
    Setting::not_yet(
        "proxy-stream-timeout",
        Value::Time,
        "600s",
        NotYet::Harmless,
        "Idle time for TCP/UDP proxying.",
    ),
    Setting::served(
        "worker-shutdown-timeout",
        Value::Time,
        "240s",
        "How long running requests may take once the listeners are closed.",
        |text, settings: &mut Settings| {
            settings.tuning.worker_shutdown_timeout = value::time(text)?;
            Ok(())
        },
    ),
];
