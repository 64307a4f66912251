//! How long a reply may be cached by its own fields, with the rules of nginx's `proxy_cache`.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{CACHE_CONTROL, EXPIRES, HeaderName};
use jiff::fmt::rfc2822::DateTimeParser;

use crate::message::digits::decimal;

static X_ACCEL_EXPIRES: HeaderName = HeaderName::from_static("x-accel-expires");

/// Returns the time that the fields state, zero if the reply must not be cached; `None` if they
/// state none. `X-Accel-Expires` takes precedence over `Cache-Control`, and this over `Expires`.
pub(super) fn stated(fields: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let accel = fields.get(&X_ACCEL_EXPIRES).and_then(|value| accel_expires(value.as_bytes(), now));
    accel.or_else(|| cache_control(fields)).or_else(|| expires(fields, now))
}

/// Reads seconds, or the time of the end in seconds since 1970 behind an `@`. nginx ignores any
/// other value.
fn accel_expires(value: &[u8], now: SystemTime) -> Option<Duration> {
    match value.strip_prefix(b"@") {
        None => decimal(value).map(Duration::from_secs),
        Some(end) => {
            let end = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(decimal(end)?))?;
            Some(end.duration_since(now).unwrap_or_default())
        }
    }
}

fn cache_control(fields: &HeaderMap) -> Option<Duration> {
    let lines = fields.get_all(CACHE_CONTROL).iter();
    let directives = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let times = directives.filter_map(|directive| {
        let directive = directive.trim_ascii().to_ascii_lowercase();
        let mut parts = directive.splitn(2, |byte| *byte == b'=');
        match (parts.next()?, parts.next()) {
            // Also with names of fields, as `private="set-cookie"`.
            (b"no-cache" | b"no-store" | b"private", _) => Some(Duration::ZERO),
            (b"max-age" | b"s-maxage", Some(age)) => Some(Duration::from_secs(decimal(age).unwrap_or(0))),
            _ => None,
        }
    });
    times.min()
}

/// An unreadable time is in the past (RFC 9111 §5.3).
fn expires(fields: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = fields.get(EXPIRES)?.as_bytes();
    let end = DateTimeParser::new().relaxed_weekday(true).parse_timestamp(text).map(SystemTime::from);
    Some(end.ok().and_then(|end| end.duration_since(now).ok()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_reply_that_had_expired_was_kept() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        for (pairs, seconds) in [
            (&[][..], None),
            (&[("expires", "Thu, 01 Jan 1970 00:00:00 GMT")], Some(0)),
            (&[("expires", "Fri, 15 Jan 2027 08:00:00 GMT")], Some(0)),
            (&[("expires", "Fri, 15 Jan 2027 08:00:07 GMT")], Some(7)),
            (&[("expires", "Mon, 15 Jan 2027 08:00:07 GMT")], Some(7)),
            (&[("expires", "-1")], Some(0)),
            (&[("expires", "-1"), ("cache-control", "max-age=9")], Some(9)),
            (&[("expires", "-1"), ("cache-control", "public")], Some(0)),
            (&[("expires", "Fri, 15 Jan 2027 08:00:07 GMT"), ("cache-control", "no-store")], Some(0)),
            (&[("cache-control", "max-age=9, s-maxage=5")], Some(5)),
            (&[("cache-control", "max-age=9"), ("cache-control", "Private=\"x-user\"")], Some(0)),
            (&[("x-accel-expires", "0"), ("cache-control", "max-age=9")], Some(0)),
            (&[("x-accel-expires", "3"), ("cache-control", "no-cache"), ("expires", "-1")], Some(3)),
            (&[("x-accel-expires", "@1800000004")], Some(4)),
            (&[("x-accel-expires", "@1799999999")], Some(0)),
            (&[("x-accel-expires", "soon"), ("cache-control", "max-age=9")], Some(9)),
            (&[("x-accel-expires", "-1")], None),
        ] {
            let mut fields = HeaderMap::new();
            for (name, value) in pairs {
                fields.append(*name, HeaderValue::from_static(value));
            }
            assert_eq!(stated(&fields, now), seconds.map(Duration::from_secs), "{pairs:?}");
        }
    }
}
