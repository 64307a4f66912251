//! What the text of a setting may be, and the parsers from text to type. Booleans and numbers are read as
//! Go's `strconv` reads them, times as nginx does, because that is what the texts were written for.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use sluice_config::{HeaderBuffers, NamespacedName, NextUpstream};

/// The largest number of anything: what nginx takes for one on all platforms. As seconds it is 68 years, which
/// can be added to any moment without an overflow.
const LARGEST: u32 = i32::MAX as u32;

/// The type of a setting.
#[derive(Clone, Copy, Debug)]
pub enum Value {
    /// Go's `ParseBool`.
    Bool,
    /// `on` or `off`.
    Switch,
    /// An integer, as large as ingress-nginx and nginx read one everywhere.
    Int,
    /// An integer, not negative.
    Count,
    /// An integer from 1.
    Positive,
    /// An integer between these two.
    Within(i64, i64),
    /// A number of buffers and the size of one, as nginx writes it: `4 8k`.
    Buffers,
    /// Seconds, an integer from 1.
    Seconds,
    /// Bytes: a number with an optional `b`, `k`, `m` or `g`.
    Size,
    /// A time as nginx writes it: `240s`, `1h30m`, `500ms`; without a unit, seconds.
    Time,
    /// A fraction.
    Float,
    /// Any text.
    Text,
    /// A path, or a URL, with captures: letters, digits and `- . _ ~ / : $`.
    CapturePath,
    /// A comma-separated list.
    List,
    /// One of these, in any case.
    OneOf(&'static [&'static str]),
    /// Any of these between blanks.
    Words(&'static [&'static str]),
    /// Conditions of `proxy-next-upstream` between blanks, or `off`.
    NextUpstream,
    /// A comma-separated list of IP addresses, of version 6 in brackets or not.
    Addresses,
    /// A name, or a name in a namespace before a slash.
    ObjectName,
}

impl Value {
    /// For documentation and messages: completes "must be ...".
    pub fn describe(&self) -> String {
        match self {
            Self::Bool => "true or false".into(),
            Self::Switch => "on or off".into(),
            Self::Int | Self::Count | Self::Positive | Self::Within(..) => {
                let range = self.range();
                format!("an integer from {} to {}", range.start(), range.end())
            }
            Self::Buffers => "a number and a size such as 4 8k, together at most 16m".into(),
            Self::Seconds => format!("whole seconds from 1 to {LARGEST}, without a unit"),
            Self::Size => "bytes with an optional b, k, m or g, at most 8191g".into(),
            Self::Time => format!("a time such as 240s or 1h30m, from 0 to {LARGEST}s"),
            Self::Float => "a number from 0 to 1".into(),
            Self::Text => "text".into(),
            Self::CapturePath => "letters, digits and - . _ ~ / : $".into(),
            Self::List => "comma-separated list".into(),
            Self::OneOf(options) => format!("one of {}", options.join(", ")),
            Self::Words(options) => format!("any of {}, between blanks", options.join(", ")),
            Self::NextUpstream => {
                let names: Vec<&str> = CONDITIONS.iter().map(|(name, _)| *name).collect();
                format!("off, or any of {}, between blanks", names.join(", "))
            }
            Self::Addresses => "comma-separated list of IP addresses".into(),
            Self::ObjectName => "name or namespace/name".into(),
        }
    }

    /// Whether `text` is of this type.
    ///
    /// # Errors
    /// Words that complete "the value ...".
    pub fn check(&self, text: &str) -> Result<(), String> {
        let good = match self {
            Self::Bool => bool(text).is_ok(),
            Self::Switch => switch(text).is_ok(),
            Self::Int | Self::Count | Self::Positive | Self::Within(..) => {
                int::<i64>(text).is_ok_and(|number| self.range().contains(&number))
            }
            Self::Buffers => buffers(text).is_ok(),
            Self::Seconds => seconds(text).is_ok(),
            Self::Size => size(text).is_ok(),
            Self::Time => time(text).is_ok(),
            Self::Float => text.parse().is_ok_and(|number: f64| (0.0..=1.0).contains(&number)),
            Self::CapturePath => text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~/:$".contains(&b)),
            Self::Text | Self::List => !text.contains(['\r', '\n']),
            Self::OneOf(options) => one_of(options, text).is_ok(),
            Self::Words(options) => text.split_whitespace().all(|word| options.contains(&word)),
            Self::NextUpstream => next_upstream(text).is_ok(),
            Self::Addresses => addresses(text).is_ok(),
            Self::ObjectName => {
                !text.is_empty() && text.split('/').count() <= 2 && text.split('/').all(is_object_name)
            }
        };
        if good { Ok(()) } else { Err(format!("must be {}", self.describe())) }
    }

    /// Whether it is a number, a size or a time: then its range holds whether or not texts are validated.
    pub fn is_number(&self) -> bool {
        match self {
            Self::Int | Self::Count | Self::Positive | Self::Within(..) | Self::Seconds => true,
            Self::Buffers | Self::Size | Self::Time | Self::Float => true,
            Self::Bool | Self::Switch | Self::Text | Self::CapturePath => false,
            Self::List | Self::OneOf(_) => false,
            Self::Words(_) | Self::NextUpstream | Self::Addresses | Self::ObjectName => false,
        }
    }

    /// The range of an integer.
    fn range(&self) -> RangeInclusive<i64> {
        match *self {
            Self::Count => 0..=LARGEST.into(),
            Self::Positive => 1..=LARGEST.into(),
            Self::Within(first, last) => first..=last,
            _ => i32::MIN.into()..=LARGEST.into(),
        }
    }

    /// Whether two texts mean the same.
    pub fn same(&self, a: &str, b: &str) -> bool {
        match self {
            Self::Bool => matches!((bool(a), bool(b)), (Ok(a), Ok(b)) if a == b),
            Self::Int | Self::Count | Self::Positive | Self::Within(..) => {
                matches!((int::<i64>(a), int::<i64>(b)), (Ok(a), Ok(b)) if a == b)
            }
            Self::Size => matches!((size(a), size(b)), (Ok(a), Ok(b)) if a == b),
            _ => a.trim().eq_ignore_ascii_case(b),
        }
    }
}

fn is_object_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
}

/// Go's `strconv.ParseBool`.
pub fn bool(text: &str) -> Result<bool, String> {
    match text.trim() {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err("must be true or false".into()),
    }
}

/// `on` or `off`.
pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("must be on or off".into()),
    }
}

/// Go's `strconv.Atoi`.
pub fn int<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| "must be an integer in range".into())
}

/// A number of buffers and the bytes of one. Together they stay below 16 MiB, so that a slip cannot let a
/// single request head take the memory of the program.
pub fn buffers(text: &str) -> Result<HeaderBuffers, String> {
    let mut words = text.split_whitespace();
    let (count, bytes) = (words.next().map(int::<usize>), words.next().map(self::size));
    if let (Some(Ok(count @ 1..)), Some(Ok(bytes @ 1..)), None) = (count, bytes, words.next())
        && let Ok(size) = usize::try_from(bytes)
        && count.checked_mul(size).is_some_and(|all| all <= 16 << 20)
    {
        return Ok(HeaderBuffers { count, size });
    }
    Err(format!("must be {}", Value::Buffers.describe()))
}

/// Whole seconds from 1.
pub fn seconds(text: &str) -> Result<Duration, String> {
    match int::<u32>(text) {
        Ok(seconds @ 1..=LARGEST) => Ok(Duration::from_secs(seconds.into())),
        _ => Err(format!("must be {}", Value::Seconds.describe())),
    }
}

/// Whole seconds from 0.
pub fn seconds_or_zero(text: &str) -> Result<Duration, String> {
    Ok(Duration::from_secs(int::<u32>(text)?.into()))
}

/// nginx's sizes.
pub fn size(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (digits, shift) = match text.as_bytes().last().map(u8::to_ascii_lowercase) {
        Some(b'b') => (&text[..text.len() - 1], 0),
        Some(b'k') => (&text[..text.len() - 1], 10),
        Some(b'm') => (&text[..text.len() - 1], 20),
        Some(b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number = if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse::<u64>().ok() } else { None };
    number
        .and_then(|number| number.checked_mul(1 << shift))
        .filter(|bytes| *bytes < 8192 << 30)
        .ok_or_else(|| format!("must be {}", Value::Size.describe()))
}

/// nginx's times.
pub fn time(text: &str) -> Result<Duration, String> {
    let bad = || format!("must be {}", Value::Time.describe());
    let mut total = Duration::ZERO;
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(bad());
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().map_err(|_| bad())?;
        let tail = &rest[digits..];
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = match &tail[..letters] {
            "ms" => Duration::from_millis(1),
            "" | "s" => Duration::from_secs(1),
            "m" => Duration::from_secs(60),
            "h" => Duration::from_secs(3600),
            "d" => Duration::from_secs(86_400),
            _ => return Err(bad()),
        };
        let part = u32::try_from(number).ok().and_then(|number| unit.checked_mul(number));
        total = part.and_then(|part| total.checked_add(part)).ok_or_else(bad)?;
        rest = tail[letters..].trim_start();
    }
    if total > Duration::from_secs(LARGEST.into()) { Err(bad()) } else { Ok(total) }
}

/// The option that `text` spells, in any case.
pub fn one_of(options: &'static [&'static str], text: &str) -> Result<&'static str, String> {
    let found = options.iter().find(|option| option.eq_ignore_ascii_case(text.trim()));
    found.copied().ok_or_else(|| format!("must be one of {}", options.join(", ")))
}

/// The entries of a comma-separated list, without blanks around them, empty ones left out.
pub fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// `namespace/name`.
pub fn object(text: &str) -> Result<NamespacedName, String> {
    let (namespace, name) = text.split_once('/').ok_or("must be namespace/name")?;
    Ok(NamespacedName::new(namespace, name))
}

/// A comma-separated list of IP addresses.
pub fn addresses(text: &str) -> Result<Vec<IpAddr>, String> {
    list(text)
        .map(|item| {
            let bare = item.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(item);
            bare.parse().map_err(|_| format!("has {item:?}, which is no IP address"))
        })
        .collect()
}

/// A condition of `proxy-next-upstream` and the switch it turns.
type Condition = (&'static str, fn(&mut NextUpstream) -> &mut bool);

const CONDITIONS: [Condition; 11] = [
    ("error", |on| &mut on.error),
    ("timeout", |on| &mut on.timeout),
    ("invalid_header", |on| &mut on.invalid_header),
    ("http_500", |on| &mut on.http_500),
    ("http_502", |on| &mut on.http_502),
    ("http_503", |on| &mut on.http_503),
    ("http_504", |on| &mut on.http_504),
    ("http_403", |on| &mut on.http_403),
    ("http_404", |on| &mut on.http_404),
    ("http_429", |on| &mut on.http_429),
    ("non_idempotent", |on| &mut on.non_idempotent),
];

/// `proxy-next-upstream`; `off` switches everything off.
pub fn next_upstream(text: &str) -> Result<NextUpstream, String> {
    let mut on = NextUpstream::default();
    for word in text.split_whitespace().filter(|word| *word != "off") {
        let condition = CONDITIONS.iter().find(|(name, _)| *name == word);
        let (_, switch) = condition.ok_or_else(|| format!("has {word:?}, which is no condition"))?;
        *switch(&mut on) = true;
    }
    let off = text.split_whitespace().any(|word| word == "off");
    Ok(if off { NextUpstream::default() } else { on })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_nginx_times() {
        assert_eq!(time("240s").unwrap(), Duration::from_secs(240));
        assert_eq!(time("1h30m").unwrap(), Duration::from_secs(5400));
        assert_eq!(time("1m 500ms").unwrap(), Duration::from_millis(60_500));
        assert_eq!(time("7").unwrap(), Duration::from_secs(7));
        for bad in ["", "s", "5x", "-1", "1.5s", "99999999999999h", "596524h"] {
            assert!(time(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sizes_booleans_and_lists() {
        assert_eq!(size("8k").unwrap(), 8192);
        assert_eq!(size("1G").unwrap(), 1 << 30);
        assert!(size("k").is_err() && size("1kb").is_err() && size("-1").is_err() && size("").is_err());
        assert!(bool("T").unwrap() && !bool("False").unwrap());
        assert!(bool("yes").is_err());
        assert!(Value::Size.same("1024k", "1m") && Value::Bool.same("0", "false"));
        assert_eq!(list(" a, ,b,").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(addresses("127.0.0.1, [::1]").unwrap().len(), 2);
        assert!(addresses("localhost").is_err());
    }

    #[test]
    fn ranges_are_kept_and_named() {
        for (value, good, bad) in [
            (Value::Within(1, 9), &["1", "9"][..], &["0", "10", "-1", "1.0", ""][..]),
            (Value::Count, &["0", "2147483647"], &["-1", "2147483648", "9223372036854775807"]),
            (Value::Positive, &["1"], &["0", "4294967295", "99999999999999999999"]),
            (Value::Int, &["-1", "-2147483648"], &["-2147483649", "2147483648"]),
            (Value::Seconds, &["1", "2147483647"], &["0", "2147483648", "1s"]),
            (Value::Float, &["0", "0.5", "1"], &["1.1", "-0.1", "NaN", "inf"]),
            (Value::Size, &["0", "8191g"], &["8192g", "18446744073709551615"]),
            (Value::Buffers, &["4 8k", "1 16m"], &["0 8k", "4 0", "2 16m", "18446744073709551615 8k"]),
        ] {
            for text in good {
                assert_eq!(value.check(text), Ok(()), "{value:?} {text:?}");
            }
            for text in bad {
                assert_eq!(value.check(text), Err(format!("must be {}", value.describe())), "{text:?}");
            }
        }
        assert_eq!(Value::Within(1, 9).describe(), "an integer from 1 to 9");
    }

    #[test]
    fn next_upstream_off_wins() {
        assert_eq!(next_upstream("error timeout").unwrap(), NextUpstream::DEFAULT);
        assert_eq!(next_upstream("error off").unwrap(), NextUpstream::default());
        assert!(next_upstream("http_599").is_err());
    }
}
