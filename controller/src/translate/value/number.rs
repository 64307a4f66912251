//! Numbers, sizes and times, each with a range.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use sluice_config::{HeaderBuffers, StatusRange};

use super::{Type, list_of};

/// Largest number of any setting: nginx's limit on all platforms. In seconds it is 68 years, which
/// can be added to any time without an overflow.
const LARGEST: u32 = i32::MAX as u32;

/// Largest request head that settings can permit, in bytes.
const LARGEST_HEAD: usize = 16 << 20;

const DAY: Duration = Duration::from_secs(86_400);

/// An integer within the range that ingress-nginx and nginx support everywhere.
pub fn int() -> Type<i32> {
    integer(i32::MIN..=i32::MAX)
}

/// A non-negative integer.
pub fn count() -> Type<u32> {
    within(0, LARGEST)
}

/// The depth of a chain of certificates; 0 is the default, 1, as in ingress-nginx.
pub fn chain_depth() -> Type<u32> {
    count().map(|depth| depth.max(1))
}

/// An integer; every value that is not positive means none, as where nginx compares with 0.
pub fn count_or_none() -> Type<u32> {
    none_or_up_to(i32::MAX)
}

/// The same up to `last`.
pub fn none_or_up_to(last: i32) -> Type<u32> {
    integer(i32::MIN..=last).map(|number| u32::try_from(number).unwrap_or(0))
}

/// A number of KiB, in bytes.
pub fn kibibytes() -> Type<u64> {
    count_or_none().map(|kib| u64::from(kib) * 1024)
}

/// An integer from 1.
pub fn positive() -> Type<u32> {
    within(1, LARGEST)
}

/// `auto`, or a number of workers.
pub fn workers() -> Type<Option<NonZeroUsize>> {
    Type::of("auto or an integer from 1", |text| match text.trim() {
        "auto" => Some(None),
        text => text.parse().ok().map(Some),
    })
}

/// An integer within this range.
pub fn within(first: u32, last: u32) -> Type<u32> {
    integer(first..=last)
}

fn integer<T: Integer>(range: RangeInclusive<T>) -> Type<T> {
    let words = format!("an integer from {} to {}", range.start(), range.end());
    integer_called(words, range)
}

fn integer_called<T: Integer>(words: String, range: RangeInclusive<T>) -> Type<T> {
    let wrong = format!("must be {words}");
    Type::with_author(words, move |text, author| {
        let number = match author.integers_have_bases {
            true => in_any_base(text.trim()),
            // Like Go's `strconv.Atoi`.
            false => text.trim().parse().ok(),
        };
        let number = number.and_then(|number: i64| T::try_from(number).ok());
        number.filter(|number| range.contains(number)).ok_or_else(|| wrong.clone().into())
    })
}

/// A type of integers with a range.
trait Integer: TryFrom<i64> + std::fmt::Display + PartialOrd + Send + Sync + 'static {}

impl<T: TryFrom<i64> + std::fmt::Display + PartialOrd + Send + Sync + 'static> Integer for T {}

/// Parses an integer like Go's `strconv.ParseInt` with base 0: `010` is 8, `0x10` is 16 and `1_000`
/// is 1000.
fn in_any_base(text: &str) -> Option<i64> {
    let (sign, number) = match text.strip_prefix('-') {
        Some(number) => ("-", number),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let prefixed = number.split_at_checked(2).filter(|(_, digits)| !digits.is_empty());
    let (base, digits) = match prefixed {
        Some(("0b" | "0B", digits)) => (2, digits),
        Some(("0o" | "0O", digits)) => (8, digits),
        Some(("0x" | "0X", digits)) => (16, digits),
        _ if number.starts_with('0') => (8, number),
        _ => (10, number),
    };
    // An underscore separates digits. One may follow the prefix.
    let is_separated = !digits.ends_with('_') && !digits.contains("__");
    let begins = digits.starts_with(|first: char| first.is_ascii_hexdigit() || first == '_' && base != 10);
    if !begins || !is_separated {
        return None;
    }
    i64::from_str_radix(&format!("{sign}{}", digits.replace('_', "")), base).ok()
}

/// A fraction.
pub fn ratio() -> Type<f64> {
    Type::of("a number from 0 to 1", |text| text.parse().ok().filter(|number| (0.0..=1.0).contains(number)))
}

/// A percentage, as a fraction.
pub fn percentage() -> Type<f64> {
    Type::of("a percentage from 0% to 100%, such as 1% or 0.5%", |text| {
        let digits = text.trim().strip_suffix('%')?.trim_end();
        let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let number: f64 = digits.parse().ok().filter(|_| is_plain)?;
        (number <= 100.0).then_some(number / 100.0)
    })
}

/// Parses a status, or a range of statuses such as `200-299`.
pub fn status_range(text: &str) -> Option<StatusRange> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let status = |text: &str| text.trim().parse().ok().filter(|status| (100..=599).contains(status));
    let range = StatusRange { first: status(first)?, last: status(last)? };
    (range.first <= range.last).then_some(range)
}

/// A comma-separated list of statuses from `least` to 599, with this description. ingress-nginx
/// accepts redirects only in the ConfigMap.
pub fn statuses(words: &'static str, least: u16) -> Type<Arc<[u16]>> {
    let status = move |word: &str| match word.parse() {
        Ok(code) if (least..=599).contains(&code) && word.len() == 3 => Ok(code),
        _ => Err(format!("has {word:?}, which is not a status from {least} to 599")),
    };
    list_of(words, status).map(Into::into)
}

/// Whole seconds from 1.
pub fn seconds() -> Type<Duration> {
    let words = format!("whole seconds from 1 to {LARGEST}, without a unit");
    integer_called(words, 1..=LARGEST).map(|seconds| Duration::from_secs(seconds.into()))
}

/// Whole seconds from 0.
pub fn seconds_or_zero() -> Type<Duration> {
    count().map(|seconds| Duration::from_secs(seconds.into()))
}

/// A number of buffers and their size, in nginx's syntax: `4 8k`. The total is limited to 16 MiB,
/// so that an error does not let a single request head exhaust memory.
pub fn buffers() -> Type<HeaderBuffers> {
    Type::of("a number and a size such as 4 8k, together at most 16m", |text| {
        let mut words = text.split_whitespace();
        let (count, bytes) = (words.next()?.parse::<usize>().ok()?, size_of(words.next()?)?);
        let size = usize::try_from(bytes).ok()?;
        let fits = count.checked_mul(size).is_some_and(|all| (1..=LARGEST_HEAD).contains(&all));
        (fits && words.next().is_none()).then_some(HeaderBuffers { count, size })
    })
}

/// The size of one buffer for a request head, limited like [`buffers`].
pub fn buffer() -> Type<usize> {
    Type::of("bytes with an optional k or m, at most 16m", |text| {
        size_of(text).and_then(|bytes| usize::try_from(bytes).ok()).filter(|size| *size <= LARGEST_HEAD)
    })
}

/// Bytes: a number with an optional `k`, `m` or `g`. ingress-nginx also admits `b`, which nginx
/// does not have: the template leaves such a value out, or nginx refuses the configuration.
pub fn size() -> Type<u64> {
    Type::of("bytes with an optional k, m or g, at most 8191g", size_of)
}

fn size_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, shift) = match text.as_bytes().last().map(u8::to_ascii_lowercase) {
        Some(b'k') => (&text[..text.len() - 1], 10),
        Some(b'm') => (&text[..text.len() - 1], 20),
        Some(b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number = if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse::<u64>().ok() } else { None };
    number.and_then(|number| number.checked_mul(1 << shift)).filter(|bytes| *bytes < 8192 << 30)
}

/// A time in nginx's syntax: `240s`, `1h30m`, `500ms`; without a unit, seconds. The other units are
/// `d`, `w`, `M` (30 days) and `y` (365 days).
pub fn time() -> Type<Duration> {
    Type::new(time_words(), time_of)
}

/// A time in nginx's syntax that is not zero.
pub fn some_time() -> Type<Duration> {
    time().and_then(|time| match time.is_zero() {
        true => Err("must be longer than 0s"),
        false => Ok(time),
    })
}

/// A time in whole seconds within this range.
pub fn time_within(first: u32, last: u32) -> Type<Duration> {
    let words = format!("a time from {first}s to {last}s, such as {first}s or 1m30s");
    let range = Duration::from_secs(first.into())..=Duration::from_secs(last.into());
    Type::of(words, move |text| read_time(text).filter(|time| range.contains(time)))
}

fn time_words() -> String {
    format!("a time such as 240s or 1h30m, from 0 to {LARGEST}s")
}

/// Parses a time in nginx's syntax.
///
/// # Errors
/// The text is not a time. The error completes "the value ...".
pub fn time_of(text: &str) -> Result<Duration, String> {
    read_time(text).ok_or_else(|| format!("must be {}", time_words()))
}

fn read_time(text: &str) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest[..digits].parse().ok()?;
        let tail = &rest[digits..];
        let letters = tail.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = match &tail[..letters] {
            "ms" => Duration::from_millis(1),
            "" | "s" => Duration::from_secs(1),
            "m" => Duration::from_secs(60),
            "h" => Duration::from_secs(3600),
            "d" => DAY,
            "w" => 7 * DAY,
            "M" => 30 * DAY,
            "y" => 365 * DAY,
            _ => return None,
        };
        total = total.checked_add(unit.checked_mul(u32::try_from(number).ok()?)?)?;
        rest = tail[letters..].trim_start();
    }
    (total <= Duration::from_secs(LARGEST.into())).then_some(total)
}
