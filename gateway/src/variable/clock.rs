//! The time in the formats of the access log, formatted once per second and thread.

use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::{Timestamp, tz::TimeZone};

/// The current local time, with a resolution of one second.
#[derive(Clone, Copy)]
pub(crate) struct Now {
    /// In the format of nginx's `$time_local`: `21/Nov/2026:06:26:37 +0000`.
    pub(crate) local: [u8; 26],
    /// In the format of nginx's `$time_iso8601`: `2026-11-21T06:26:37+00:00`.
    pub(crate) iso8601: [u8; 25],
    /// In the format of a syslog header (RFC 3164 §4.1.2): `Nov 21 06:26:37`.
    pub(crate) syslog: [u8; 15],
}

thread_local! {
    static CACHE: RefCell<(i64, Now)> = const {
        RefCell::new((i64::MIN, Now { local: [b' '; 26], iso8601: [b' '; 25], syslog: [b' '; 15] }))
    };
}

/// Returns the time since the Unix epoch.
pub(crate) fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Returns the current time.
pub(crate) fn now() -> Now {
    let seconds = i64::try_from(since_1970().as_secs()).unwrap_or(i64::MAX);
    CACHE.with_borrow_mut(|(second, now)| {
        if *second != seconds {
            *now = format(seconds, TimeZone::system());
            *second = seconds;
        }
        *now
    })
}

fn format(seconds: i64, zone: TimeZone) -> Now {
    let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(zone);
    Now {
        local: text(&time.strftime("%d/%b/%Y:%H:%M:%S %z").to_string()),
        iso8601: text(&time.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string()),
        syslog: text(&time.strftime("%b %e %H:%M:%S").to_string()),
    }
}

fn text<const N: usize>(written: &str) -> [u8; N] {
    let mut text = [b' '; N];
    for (to, from) in text.iter_mut().zip(written.bytes()) {
        *to = from;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_has_nginx_forms() {
        let now = format(1_795_242_397, TimeZone::UTC);
        assert_eq!(&now.local, b"21/Nov/2026:06:26:37 +0000");
        assert_eq!(&now.iso8601, b"2026-11-21T06:26:37+00:00");
        assert_eq!(&now.syslog, b"Nov 21 06:26:37");
        let now = format(1_795_242_397, TimeZone::fixed(jiff::tz::offset(-3)));
        assert_eq!(&now.local, b"21/Nov/2026:03:26:37 -0300");
        assert_eq!(&now.iso8601, b"2026-11-21T03:26:37-03:00");
    }
}
