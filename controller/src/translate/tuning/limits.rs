//! Sizes and numbers that bound what a connection may use.

use super::Settings;
use crate::translate::setting::{NotYet, Setting};
use crate::translate::value::{self, Value};

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::served(
        "proxy-body-size",
        Value::Size,
        "1m",
        "Bytes of a request body, 0 for any number; more is 413.",
        |text, settings: &mut Settings| {
            settings.tuning.body_limit = value::size(text)?;
            Ok(())
        },
    ),
    Setting::no_effect(
        "client-header-buffer-size",
        Value::Size,
        "1k",
        "heads are read into one buffer that grows",
        "Initial head buffer.",
    ),
    Setting::served(
        "large-client-header-buffers",
        Value::Buffers,
        "4 8k",
        "Number and size of buffers: a request line over one size is 414, a field over one or a head over all 400.",
        |text, settings: &mut Settings| {
            settings.tuning.large_client_header_buffers = value::buffers(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "client-body-buffer-size",
        Value::Size,
        "8k",
        "Bytes of a buffered request body that wait in memory, but at least 64k while memory lasts; the rest is on disk.",
        |text, settings: &mut Settings| {
            settings.tuning.body_buffer = value::size(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "body-memory-budget",
        Value::Size,
        "128m",
        "Memory for bodies and heads in flight, over all connections, at least 1m. Without any left, request bodies \
         are on disk, responses are not compressed, and requests wait for 10 s, then get 503.",
        |text, settings: &mut Settings| {
            settings.tuning.body_memory = value::size(text)?.max(1 << 20);
            Ok(())
        },
    ),
    Setting::served(
        "body-temp-max-size",
        Value::Size,
        "4g",
        "Bytes of all request bodies in --body-temp-path; what is beyond them gets 507.",
        |text, settings: &mut Settings| {
            settings.tuning.body_disk = value::size(text)?;
            Ok(())
        },
    ),
    Setting::no_effect(
        "proxy-buffer-size",
        Value::Size,
        "4k",
        "responses are streamed in bounded memory",
        "Response head limit.",
    ),
    Setting::no_effect(
        "proxy-buffers-number",
        Value::Positive,
        "4",
        "responses are streamed in bounded memory",
        "Response buffers.",
    ),
    Setting::no_effect(
        "proxy-busy-buffers-size",
        Value::Size,
        "",
        "responses are streamed in bounded memory",
        "Response buffers busy sending.",
    ),
    Setting::no_effect(
        "proxy-buffering",
        Value::Switch,
        "off",
        "responses are streamed in bounded memory",
        "Response buffering.",
    ),
    Setting::served(
        "proxy-request-buffering",
        Value::Switch,
        "on",
        "Take the whole request body before an endpoint is asked, which then gets it with its length. Never for gRPC \
         and upgrades.",
        |text, settings: &mut Settings| {
            settings.tuning.request_buffering = value::switch(text)?;
            Ok(())
        },
    ),
    Setting::no_effect(
        "proxy-max-temp-file-size",
        Value::Size,
        "1024m",
        "responses are streamed in bounded memory",
        "Bytes of a response that may go to disk.",
    ),
    Setting::not_yet("grpc-buffer-size-kb", Value::Count, "0", NotYet::Harmless, "gRPC response buffer."),
    Setting::served(
        "http2-max-concurrent-streams",
        Value::Within(1, 65_535),
        "128",
        "Streams of one HTTP/2 connection.",
        |text, settings: &mut Settings| {
            settings.tuning.http2_max_concurrent_streams = value::int(text)?;
            Ok(())
        },
    ),
    Setting::no_effect(
        "http2-max-field-size",
        Value::Text,
        "",
        "superseded by large-client-header-buffers",
        "Bytes of a field.",
    ),
    Setting::no_effect(
        "http2-max-header-size",
        Value::Text,
        "",
        "superseded by large-client-header-buffers",
        "Bytes of a head.",
    ),
    Setting::no_effect(
        "http2-max-requests",
        Value::Count,
        "0",
        "superseded by keep-alive-requests",
        "Requests on one connection.",
    ),
    Setting::served(
        "max-worker-connections",
        Value::Count,
        "16384",
        "Client connections that are open at once; 0 leaves it to the file limit.",
        |text, settings: &mut Settings| {
            settings.tuning.max_connections = value::int(text)?;
            Ok(())
        },
    ),
    Setting::no_effect(
        "max-worker-open-files",
        Value::Count,
        "0",
        "the limit of the process is raised as far as it goes",
        "Files that may be open; 0 chooses.",
    ),
    Setting::not_yet(
        "limit-rate",
        Value::Count,
        "0",
        NotYet::ChangesAnswers,
        "Kilobytes a second of one response.",
    ),
    Setting::not_yet(
        "limit-rate-after",
        Value::Count,
        "0",
        NotYet::Harmless,
        "Kilobytes before limit-rate applies.",
    ),
];
