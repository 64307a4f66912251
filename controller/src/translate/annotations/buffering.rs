//! How much of a body is taken, and how much of it is held where. Sluice streams responses in bounded memory and never
//! spills them to disk, so that most sizes of theirs have nothing to size.

use super::Settings;
use crate::translate::setting::{Risk, Setting};
use crate::translate::value::{self, Value};

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::served(
        "proxy-body-size",
        Value::Size,
        "1m",
        "Bytes of a request body, 0 for any number; more is 413.",
        |text, settings: &mut Settings| {
            settings.bodies.limit = Some(value::size(text)?);
            Ok(())
        },
    )
    .location(Risk::Medium)
    .falls_back_to("proxy-body-size")
    .invalid_means_default(),
    Setting::served(
        "client-body-buffer-size",
        Value::Size,
        "8k",
        "Bytes of a buffered request body that wait in memory, but at least 64k while memory lasts; the rest is on disk.",
        |text, settings: &mut Settings| {
            settings.bodies.memory = Some(value::size(text)?);
            Ok(())
        },
    )
    .location(Risk::Low)
    .falls_back_to("client-body-buffer-size")
    .invalid_means_default(),
    Setting::no_effect(
        "proxy-buffer-size",
        Value::Size,
        "4k",
        "response heads are bounded by the program",
        "Buffer for the head of a response.",
    )
    .location(Risk::Low),
    Setting::no_effect(
        "proxy-buffering",
        Value::Switch,
        "off",
        "responses are streamed in bounded memory",
        "Buffer the response body.",
    )
    .location(Risk::Low),
    Setting::no_effect(
        "proxy-buffers-number",
        Value::Positive,
        "4",
        "responses are streamed in bounded memory",
        "Number of response buffers.",
    )
    .location(Risk::Low),
    Setting::no_effect(
        "proxy-busy-buffers-size",
        Value::Size,
        "",
        "responses are streamed in bounded memory",
        "Portion of buffers that may be busy sending.",
    )
    .location(Risk::Low),
    Setting::no_effect(
        "proxy-max-temp-file-size",
        Value::Size,
        "1024m",
        "responses are never written to disk",
        "Spill file limit for responses.",
    )
    .location(Risk::Low),
    Setting::served(
        "proxy-request-buffering",
        Value::Switch,
        "on",
        "Take the whole request body before an endpoint is asked, which then gets it with its length. Never for gRPC \
         and upgrades.",
        |text, settings: &mut Settings| {
            settings.bodies.request_buffering = Some(value::switch(text)?);
            Ok(())
        },
    )
    .location(Risk::Low)
    .falls_back_to("proxy-request-buffering")
    .invalid_means_default(),
];
