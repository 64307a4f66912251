//! Sizes of bodies and their buffers.

use super::Annotation;
use crate::translate::setting::Risk;
use crate::translate::value;

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "proxy-body-size",
            value::size(),
            "1m",
            "Maximum bytes of a request body, 0 for no limit; larger bodies get 413.",
            |settings, value| settings.policies.bodies.limit = Some(value),
        )
        .location(Risk::Medium)
        .falls_back_to("proxy-body-size"),
        Annotation::served(
            "client-body-buffer-size",
            value::size(),
            "8k",
            "Bytes of a buffered request body kept in memory, at least 64k while memory is available; the \
             rest goes to disk.",
            |settings, value| settings.policies.bodies.memory = Some(value),
        )
        .location(Risk::Low)
        .falls_back_to("client-body-buffer-size"),
        Annotation::served(
            "proxy-buffering",
            value::switch(),
            "off",
            "Read responses at the speed of the endpoint, which a slow client then does not occupy. What \
             the client has not accepted is kept in memory, then on disk; nothing is delayed. Applies to \
             HTTP/1 endpoints; responses of FastCGI are always buffered, those of gRPC never. \
             X-Accel-Buffering: no of an endpoint turns it off.",
            |settings, value| settings.response_buffering().enabled = Some(value),
        )
        .location(Risk::Low)
        .falls_back_to("proxy-buffering"),
        Annotation::served(
            "proxy-buffer-size",
            value::size(),
            "4k",
            "Bytes of one of proxy-buffers-number. It does not limit the head of a response, for which \
             there is always room up to 128k.",
            |settings, value| settings.response_buffering().buffer_size = Some(value),
        )
        .location(Risk::Low)
        .falls_back_to("proxy-buffer-size"),
        Annotation::served(
            "proxy-buffers-number",
            value::positive(),
            "4",
            "Number of buffers of proxy-buffer-size that proxy-buffering may fill in memory, all of them \
             at least 64k while memory is available.",
            |settings, value| settings.response_buffering().buffers = Some(value.into()),
        )
        .location(Risk::Low)
        .falls_back_to("proxy-buffers-number"),
        Annotation::served(
            "proxy-busy-buffers-size",
            value::size(),
            "",
            "Bytes that proxy-buffering hands to the connection of the client at a time, at least \
             proxy-buffer-size. Without it: twice proxy-buffer-size.",
            |settings, value| settings.response_buffering().busy = Some(value),
        )
        .location(Risk::Low)
        .falls_back_to("proxy-busy-buffers-size"),
        Annotation::served(
            "proxy-max-temp-file-size",
            value::size(),
            "1024m",
            "Bytes of a response that proxy-buffering may keep in --body-temp-path beside those in memory, \
             0 for none. The endpoint waits for the client when they are used up, or the disk is full.",
            |settings, value| settings.response_buffering().disk = Some(value),
        )
        .location(Risk::Low)
        .falls_back_to("proxy-max-temp-file-size"),
        Annotation::served(
            "proxy-request-buffering",
            value::switch(),
            "on",
            "Read the whole request body before contacting an endpoint, which then receives it with its \
             length. Never applies to gRPC and upgrades.",
            |settings, value| settings.policies.bodies.request_buffering = Some(value),
        )
        .location(Risk::Low)
        .falls_back_to("proxy-request-buffering"),
    ]
}
