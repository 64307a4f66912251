//! Compression of responses.

use super::Settings;
use crate::translate::setting::{NotYet, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet("use-gzip", Value::Bool, "false", NotYet::Harmless, "Compress responses with gzip."),
    Setting::not_yet("gzip-level", Value::Within(1, 9), "1", NotYet::Harmless, "Level, 1 to 9."),
    Setting::not_yet(
        "gzip-min-length",
        Value::Count,
        "256",
        NotYet::Harmless,
        "Bytes from which a response is compressed.",
    ),
    Setting::not_yet("gzip-types", Value::Text, "", NotYet::Harmless, "Media types that are compressed."),
    Setting::not_yet("gzip-disable", Value::Text, "", NotYet::Harmless, "User-Agent regex."),
    Setting::not_yet(
        "enable-brotli",
        Value::Bool,
        "false",
        NotYet::Harmless,
        "Compress responses with brotli.",
    ),
    Setting::not_yet("brotli-level", Value::Within(0, 11), "4", NotYet::Harmless, "Level, 0 to 11."),
    Setting::not_yet(
        "brotli-min-length",
        Value::Count,
        "20",
        NotYet::Harmless,
        "Bytes from which a response is compressed.",
    ),
    Setting::not_yet("brotli-types", Value::Text, "", NotYet::Harmless, "Media types that are compressed."),
];
