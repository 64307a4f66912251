//! Compression of responses.

use std::sync::Arc;

use regex::RegexBuilder;
use sluice_config::Compression;

use super::Settings;
use crate::translate::setting::Setting;
use crate::translate::value::{self, Value};

/// Bytes that the pattern of `gzip-disable` may have when compiled, as in the data plane.
const SIZE_LIMIT: usize = 1 << 20;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::served(
        "use-gzip",
        Value::Bool,
        "false",
        "Compress responses with gzip for clients that accept it.",
        |text, settings: &mut Settings| {
            settings.tuning.gzip.enabled = value::bool(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "gzip-level",
        Value::Within(1, 9),
        "1",
        "How hard gzip tries.",
        |text, settings: &mut Settings| {
            settings.tuning.gzip.level = value::int(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "gzip-min-length",
        Value::Count,
        "256",
        "Bytes from which a response is compressed with gzip; one of unknown length always is.",
        |text, settings: &mut Settings| {
            settings.tuning.gzip.min_length = value::int(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "gzip-types",
        Value::Text,
        Compression::TYPES,
        "Media types that are compressed with gzip, between blanks, beside text/html; * for all.",
        |text, settings: &mut Settings| {
            settings.tuning.gzip.types = types(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "gzip-disable",
        Value::Text,
        "",
        "Regular expression for the User-Agents that get no gzip; msie6 stands for old versions of that browser.",
        |text, settings: &mut Settings| {
            let pattern = match text {
                "msie6" => r"MSIE [4-6]\.",
                pattern => pattern,
            };
            let built = RegexBuilder::new(pattern).size_limit(SIZE_LIMIT).build();
            built.map_err(|error| format!("is no regular expression: {error}"))?;
            settings.tuning.gzip_disable = pattern.into();
            Ok(())
        },
    ),
    Setting::served(
        "enable-brotli",
        Value::Bool,
        "false",
        "Compress responses with brotli for clients that accept it.",
        |text, settings: &mut Settings| {
            settings.tuning.brotli.enabled = value::bool(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "brotli-level",
        Value::Within(0, 11),
        "4",
        "How hard brotli tries. From 7 on, one response can hold up others of its worker.",
        |text, settings: &mut Settings| {
            settings.tuning.brotli.level = value::int(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "brotli-min-length",
        Value::Count,
        "20",
        "Bytes from which a response is compressed with brotli; one of unknown length always is.",
        |text, settings: &mut Settings| {
            settings.tuning.brotli.min_length = value::int(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "brotli-types",
        Value::Text,
        Compression::TYPES,
        "Media types that are compressed with brotli, between blanks, beside text/html; * for all.",
        |text, settings: &mut Settings| {
            settings.tuning.brotli.types = types(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "enable-zstd",
        Value::Bool,
        "false",
        "Compress responses with zstd for clients that accept it.",
        |text, settings: &mut Settings| {
            settings.tuning.zstd.enabled = value::bool(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "zstd-level",
        Value::Within(1, 19),
        "3",
        "How hard zstd tries. From 10 on, one response can hold up others of its worker.",
        |text, settings: &mut Settings| {
            settings.tuning.zstd.level = value::int(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "zstd-min-length",
        Value::Count,
        "256",
        "Bytes from which a response is compressed with zstd; one of unknown length always is.",
        |text, settings: &mut Settings| {
            settings.tuning.zstd.min_length = value::int(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "zstd-types",
        Value::Text,
        Compression::TYPES,
        "Media types that are compressed with zstd, between blanks, beside text/html; * for all.",
        |text, settings: &mut Settings| {
            settings.tuning.zstd.types = types(text)?;
            Ok(())
        },
    ),
];

/// Media types between blanks.
fn types(text: &str) -> Result<Vec<Arc<str>>, String> {
    let is_type = |word: &&str| {
        *word == "*" || word.split_once('/').is_some_and(|(a, b)| !a.is_empty() && !b.is_empty())
    };
    if let Some(word) = text.split_whitespace().find(|word| !is_type(word)) {
        return Err(format!("has {word:?}, which is no media type"));
    }
    Ok(text.split_whitespace().map(|word| word.to_ascii_lowercase().into()).collect())
}
