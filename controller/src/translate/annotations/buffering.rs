//! How much of a body is taken, and how much of it is held where. Sluice streams responses in bounded memory and never
//! spills them to disk, so that most sizes of theirs have nothing to size.

use super::Annotation;
use crate::translate::setting::Risk;
use crate::translate::value;

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "proxy-body-size",
            value::size(),
            "1m",
            "Bytes of a request body, 0 for any number; more is 413.",
            |settings, value| settings.bodies.limit = Some(value),
        )
        .location(Risk::Medium)
        .falls_back_to("proxy-body-size"),
        Annotation::served(
            "client-body-buffer-size",
            value::size(),
            "8k",
            "Bytes of a buffered request body that wait in memory, but at least 64k while memory lasts; \
             the rest is on disk.",
            |settings, value| settings.bodies.memory = Some(value),
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
            "Portion of buffers that may be busy sending.",
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
            "Take the whole request body before an endpoint is asked, which then gets it with its length. \
             Never for gRPC \
             and upgrades.",
            |settings, value| settings.bodies.request_buffering = Some(value),
        )
        .location(Risk::Low)
        .falls_back_to("proxy-request-buffering"),
    ]
}
