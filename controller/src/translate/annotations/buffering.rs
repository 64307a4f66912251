//! How much of a body is held where. Sluice streams bodies both ways in bounded memory and never spills to
//! disk, so that most of these sizes have nothing to size.

use super::Settings;
use crate::translate::setting::{NotYet, Risk, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet(
        "proxy-body-size",
        Value::Size,
        "1m",
        NotYet::ChangesAnswers,
        "Bytes of a request body; more is 413.",
    )
    .location(Risk::Medium)
    .idle_at(&["0"]),
    Setting::no_effect(
        "client-body-buffer-size",
        Value::Size,
        "8k",
        "bodies are streamed in bounded memory",
        "Memory buffer before the request body spills to disk.",
    )
    .location(Risk::Low)
    .falls_back_to("client-body-buffer-size"),
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
        "bodies are streamed in bounded memory",
        "Buffer the response body.",
    )
    .location(Risk::Low),
    Setting::no_effect(
        "proxy-buffers-number",
        Value::Positive,
        "4",
        "bodies are streamed in bounded memory",
        "Number of response buffers.",
    )
    .location(Risk::Low),
    Setting::no_effect(
        "proxy-busy-buffers-size",
        Value::Size,
        "",
        "bodies are streamed in bounded memory",
        "Portion of buffers that may be busy sending.",
    )
    .location(Risk::Low),
    Setting::no_effect(
        "proxy-max-temp-file-size",
        Value::Size,
        "1024m",
        "bodies are never written to disk",
        "Spill file limit for responses.",
    )
    .location(Risk::Low),
    Setting::no_effect(
        "proxy-request-buffering",
        Value::Switch,
        "on",
        "bodies are streamed in bounded memory",
        "Read the full request body before connecting upstream.",
    )
    .location(Risk::Low),
];
