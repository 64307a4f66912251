//! Sizes of bodies and their buffers. Sluice streams responses in bounded memory and never writes
//! them to disk, so most sizes of responses have no effect.

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
        Annotation::no_effect(
            "proxy-buffer-size",
            value::size(),
            "4k",
            "response heads are bounded by the program",
            "Buffer for the head of a response.",
        )
        .location(Risk::Low),
        Annotation::no_effect(
            "proxy-buffering",
            value::switch(),
            "off",
            "responses are streamed in bounded memory",
            "Buffer the response body.",
        )
        .location(Risk::Low),
        Annotation::no_effect(
            "proxy-buffers-number",
            value::positive(),
            "4",
            "responses are streamed in bounded memory",
            "Number of response buffers.",
        )
        .location(Risk::Low),
        Annotation::no_effect(
            "proxy-busy-buffers-size",
            value::size(),
            "",
            "responses are streamed in bounded memory",
            "Buffers that may be in use for sending.",
        )
        .location(Risk::Low),
        Annotation::no_effect(
            "proxy-max-temp-file-size",
            value::size(),
            "1024m",
            "responses are never written to disk",
            "Spill file limit for responses.",
        )
        .location(Risk::Low),
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
