//! Keys about compression of responses.

use std::sync::Arc;

use regex::RegexBuilder;
use sluice_config::Compression;

use super::Key;
use crate::translate::value::{self, Type};

/// Maximum size in bytes of the compiled pattern of `gzip-disable`, as in the data plane.
const SIZE_LIMIT: usize = 1 << 20;

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::served(
            "use-gzip",
            value::bool(),
            "false",
            "Compress responses with gzip for clients that accept it.",
            |settings, value| settings.global.gzip.enabled = value,
        ),
        Key::served(
            "gzip-level",
            value::within(1, 9),
            "1",
            "Compression level of gzip.",
            |settings, value| settings.global.gzip.level = value as u8,
        ),
        Key::served(
            "gzip-min-length",
            value::count(),
            "256",
            "Minimum bytes of a response to compress with gzip; a response of unknown length is always \
             compressed.",
            |settings, value| settings.global.gzip.min_length = value.into(),
        ),
        Key::served(
            "gzip-types",
            types(),
            Compression::TYPES,
            "Space-separated media types to compress with gzip, in addition to text/html; * for all.",
            |settings, value| settings.global.gzip.types = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "gzip-disable",
            user_agents(),
            "",
            "Regular expression for User-Agents that get no gzip; msie6 matches old versions of that \
             browser.",
            |settings, value| settings.global.gzip_disable = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "enable-brotli",
            value::bool(),
            "false",
            "Compress responses with brotli for clients that accept it.",
            |settings, value| settings.global.brotli.enabled = value,
        ),
        Key::served(
            "brotli-level",
            value::within(0, 11),
            "4",
            "Compression level of brotli. 7 to 9 equal 6: they would need tables of up to 32 MiB per \
             response, to save less than 3 % of a page of 64 KiB. From 10 on, one response can delay \
             others of its worker and reserves up to 9 MiB of body-memory-budget; long texts become \
             smaller than at 9.",
            |settings, value| settings.global.brotli.level = value as u8,
        ),
        Key::served(
            "brotli-min-length",
            value::count(),
            "20",
            "Minimum bytes of a response to compress with brotli; a response of unknown length is always \
             compressed.",
            |settings, value| settings.global.brotli.min_length = value.into(),
        ),
        Key::served(
            "brotli-types",
            types(),
            Compression::TYPES,
            "Space-separated media types to compress with brotli, in addition to text/html; * for all.",
            |settings, value| settings.global.brotli.types = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "enable-zstd",
            value::bool(),
            "false",
            "Compress responses with zstd for clients that accept it.",
            |settings, value| settings.global.zstd.enabled = value,
        )
        .absent_in_reference(),
        Key::served(
            "zstd-level",
            value::within(1, 19),
            "3",
            "Compression level of zstd. From 10 on, one response can delay others of its worker.",
            |settings, value| settings.global.zstd.level = value as u8,
        )
        .absent_in_reference(),
        Key::served(
            "zstd-min-length",
            value::count(),
            "256",
            "Minimum bytes of a response to compress with zstd; a response of unknown length is always \
             compressed.",
            |settings, value| settings.global.zstd.min_length = value.into(),
        )
        .absent_in_reference(),
        Key::served(
            "zstd-types",
            types(),
            Compression::TYPES,
            "Space-separated media types to compress with zstd, in addition to text/html; * for all.",
            |settings, value| settings.global.zstd.types = value,
        )
        .absent_in_reference(),
    ]
}

/// A regular expression for User-Agents.
fn user_agents() -> Type<Arc<str>> {
    Type::new("a regular expression", |text| {
        let pattern = match text {
            "msie6" => r"MSIE [4-6]\.",
            pattern => pattern,
        };
        let built = RegexBuilder::new(pattern).size_limit(SIZE_LIMIT).build();
        built.map(|_| pattern.into()).map_err(|error| format!("is not a valid regular expression: {error}"))
    })
}

/// Media types separated by blanks.
fn types() -> Type<Vec<Arc<str>>> {
    Type::new("media types separated by spaces", |text| {
        let read = |word: &str| {
            let is_type = word == "*"
                || word
                    .split_once('/')
                    .is_some_and(|(kind, subtype)| !kind.is_empty() && !subtype.is_empty());
            is_type
                .then(|| word.to_ascii_lowercase().into())
                .ok_or_else(|| format!("has {word:?}, which is not a media type"))
        };
        text.split_whitespace().map(read).collect::<Result<_, String>>()
    })
}
