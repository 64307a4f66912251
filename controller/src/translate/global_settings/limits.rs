//! Keys about limits of a connection: sizes and numbers.

use super::Key;
use crate::translate::value;

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::served(
            "proxy-body-size",
            value::size(),
            "1m",
            "Maximum bytes of a request body, 0 for no limit; larger bodies get 413.",
            |settings, value| settings.global.body_limit = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "client-header-buffer-size",
            value::buffer(),
            "1k",
            "Bytes at the beginning of a head of HTTP/1 to which large-client-header-buffers does not apply: a \
             line that ends within them is never too long, and they add to the size of a head.",
            |settings, value| settings.global.client_header_buffer = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "large-client-header-buffers",
            value::buffers(),
            "4 8k",
            "Number and size of buffers: a request line above one buffer is 414; a field above one buffer, \
             or a head above all, with HTTP/1 and client-header-buffer-size, is 400.",
            |settings, value| settings.global.large_client_header_buffers = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "client-body-buffer-size",
            value::size(),
            "8k",
            "Bytes of a buffered request body kept in memory, at least 64k while memory is available; the \
             rest goes to disk.",
            |settings, value| settings.global.body_buffer = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "body-memory-budget",
            value::size(),
            "128m",
            "Memory for bodies and heads in progress, over all connections, at least 1m. When it is used \
             up, request bodies go to disk, responses are not compressed, and requests wait for 10 s and \
             then get 503.",
            |settings, value| settings.global.body_memory = value.max(1 << 20),
        )
        .absent_in_reference(),
        Key::served(
            "cache-size",
            value::size(),
            "32m",
            "Memory for stored responses of rules with sluice.dev/cache, 0 for none. It is a part of \
             body-memory-budget: at most a quarter of that is used, and nothing is stored while half of it is in use.",
            |settings, value| settings.global.cache_size = value,
        )
        .absent_in_reference(),
        Key::served(
            "cache-file-size",
            value::size(),
            "1g",
            "Maximum bytes of stored responses in --cache-path, 0 for none. Bodies move there when cache-size \
             is used up. Without the flag, it has no effect.",
            |settings, value| settings.global.cache_file_size = value,
        )
        .absent_in_reference(),
        Key::served(
            "body-temp-max-size",
            value::size(),
            "4g",
            "Maximum bytes of all bodies in --body-temp-path. Beyond it, requests get 507, and responses wait \
             for their clients.",
            |settings, value| settings.global.body_disk = value,
        )
        .absent_in_reference(),
        Key::served(
            "proxy-buffer-size",
            value::size(),
            "4k",
            "Bytes of one of proxy-buffers-number. It does not limit the head of a response, for which \
             there is always room up to 128k.",
            |settings, value| settings.global.response_buffering.buffer_size = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "proxy-buffers-number",
            value::positive(),
            "4",
            "Number of buffers of proxy-buffer-size that proxy-buffering may fill in memory, all of them \
             at least 64k while memory is available.",
            |settings, value| settings.global.response_buffering.buffers = value.into(),
        ),
        Key::served(
            "proxy-busy-buffers-size",
            value::size(),
            "",
            "Bytes that proxy-buffering hands to the connection of the client at a time, at least \
             proxy-buffer-size. Without it: twice proxy-buffer-size.",
            |settings, value| settings.global.response_buffering.busy = Some(value),
        )
        .unchecked_by_reference(),
        Key::served(
            "proxy-buffering",
            value::switch(),
            "off",
            "Read responses at the speed of the endpoint, which a slow client then does not occupy. What \
             the client has not accepted is kept in memory, then on disk; nothing is delayed. Applies to \
             HTTP/1 endpoints; responses of FastCGI are always buffered, those of gRPC never.",
            |settings, value| settings.global.response_buffering.enabled = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "proxy-request-buffering",
            value::switch(),
            "on",
            "Read the whole request body before contacting an endpoint, which then receives it with its \
             length. Never applies to gRPC and upgrades.",
            |settings, value| settings.global.request_buffering = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "proxy-max-temp-file-size",
            value::size(),
            "1024m",
            "Bytes of a response that proxy-buffering may keep in --body-temp-path beside those in memory, \
             0 for none. The endpoint waits for the client when they are used up, or the disk is full.",
            |settings, value| settings.global.response_buffering.disk = value,
        )
        .unchecked_by_reference(),
        Key::no_effect(
            "grpc-buffer-size-kb",
            value::count(),
            "0",
            "responses are streamed in bounded memory",
            "gRPC response buffer.",
        ),
        Key::served(
            "http2-max-concurrent-streams",
            value::within(1, 65_535),
            "128",
            "Concurrent streams of one HTTP/2 connection.",
            |settings, value| settings.global.http2_max_concurrent_streams = value,
        ),
        Key::no_effect(
            "http2-max-field-size",
            value::text(),
            "",
            "superseded by large-client-header-buffers",
            "Bytes of a field.",
        )
        .idle_in_reference()
        .unchecked_by_reference(),
        Key::no_effect(
            "http2-max-header-size",
            value::text(),
            "",
            "superseded by large-client-header-buffers",
            "Bytes of a head.",
        )
        .idle_in_reference()
        .unchecked_by_reference(),
        Key::no_effect(
            "http2-max-requests",
            value::count(),
            "0",
            "superseded by keep-alive-requests",
            "Requests on one connection.",
        )
        .idle_in_reference(),
        Key::served(
            "max-worker-connections",
            value::count(),
            "16384",
            "Maximum client connections per worker; all workers share the sum. Beyond it, the oldest idle \
             connection is closed for a new one. 0: limited by open files only.",
            |settings, value| settings.global.max_connections = value as usize,
        ),
        Key::no_effect(
            "max-worker-open-files",
            value::count(),
            "0",
            "the limit of the process is raised as far as it goes",
            "Files that may be open; 0 chooses.",
        ),
        Key::served(
            "limit-rate",
            value::kibibytes(),
            "0",
            "KiB per second of one response of an endpoint; 0: no limit.",
            |settings, value| settings.global.response_rate = value,
        ),
        Key::served(
            "limit-rate-after",
            value::kibibytes(),
            "0",
            "KiB of a response that are sent before limit-rate applies.",
            |settings, value| settings.global.response_rate_after = value,
        ),
    ]
}
