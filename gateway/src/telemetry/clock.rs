//! The time as access log lines have it, formatted once a second and thread.

use std::cell::RefCell;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::{Timestamp, tz::TimeZone};

/// Length of `21/Nov/2026:06:26:37 +0000`.
pub(super) const LENGTH: usize = 26;

thread_local! {
    static CACHE: RefCell<(i64, [u8; LENGTH])> = const { RefCell::new((i64::MIN, [b' '; LENGTH])) };
}

/// The present in local time, as nginx's `$time_local`.
pub(super) fn now() -> [u8; LENGTH] {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    CACHE.with_borrow_mut(|(second, text)| {
        if *second != seconds {
            *text = format(seconds, TimeZone::system());
            *second = seconds;
        }
        *text
    })
}

fn format(seconds: i64, zone: TimeZone) -> [u8; LENGTH] {
    let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(zone);
    let mut text = [b' '; LENGTH];
    let written = time.strftime("%d/%b/%Y:%H:%M:%S %z").to_string();
    for (to, from) in text.iter_mut().zip(written.bytes()) {
        *to = from;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_has_nginx_form() {
        assert_eq!(&format(1_795_242_397, TimeZone::UTC), b"21/Nov/2026:06:26:37 +0000");
        let zone = TimeZone::fixed(jiff::tz::offset(-3));
        assert_eq!(&format(1_795_242_397, zone), b"21/Nov/2026:03:26:37 -0300");
    }
}
