//! Numbers, sizes and times for people.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

use crate::telemetry::{Quantile, Traffic};

/// Formats a number with a space between thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            // A space that does not end a line.
            text.push('\u{a0}');
        }
        text.push(digit);
    }
    text
}

/// Formats a size in bytes with a binary unit.
pub fn bytes(size: u64) -> String {
    let (mut value, mut unit) = (size as f64, "B");
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if unit == "B" || value >= 100.0 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

/// Formats a number of events per second.
pub fn rate(events: u64, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if events == 0 || seconds <= 0.0 {
        return "0".to_owned();
    }
    match events as f64 / seconds {
        rate if rate >= 100.0 => count(rate.round() as u64),
        rate if rate >= 10.0 => format!("{rate:.1}"),
        rate if rate >= 0.01 => format!("{rate:.2}"),
        _ => "< 0.01".to_owned(),
    }
}

/// Formats the share of a part in percent; a dash if there is no whole.
pub fn share(part: u64, whole: u64) -> String {
    match (part, whole) {
        (_, 0) => "-".to_owned(),
        (0, _) => "0 %".to_owned(),
        (part, whole) => {
            let percent = part as f64 * 100.0 / whole as f64;
            if percent < 0.01 { "< 0.01 %".to_owned() } else { format!("{percent:.2} %") }
        }
    }
}

/// Formats a quantile of durations; a dash without requests.
pub fn quantile(traffic: &Traffic, share: f64, bounds: &[f64]) -> String {
    match traffic.quantile(share, bounds) {
        None => "-".to_owned(),
        Some(Quantile::Seconds(seconds)) => short(seconds),
        Some(Quantile::Above(seconds)) => format!("> {}", short(seconds)),
    }
}

/// Formats a short time.
fn short(seconds: f64) -> String {
    match seconds * 1000.0 {
        ms if ms >= 10_000.0 => format!("{seconds:.0} s"),
        ms if ms >= 1000.0 => format!("{seconds:.1} s"),
        ms if ms >= 10.0 => format!("{ms:.0} ms"),
        ms => format!("{ms:.1} ms"),
    }
}

/// Formats a short duration.
pub fn took(time: Duration) -> String {
    match time.as_micros() {
        us if us < 1000 => format!("{us} µs"),
        _ => short(time.as_secs_f64()),
    }
}

/// Formats a long duration with its two largest units.
pub fn long(time: Duration) -> String {
    let seconds = time.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min {} s", seconds % 60),
        (0, _, _) => format!("{hours} h {minutes} min"),
        _ => format!("{days} d {hours} h"),
    }
}

/// Formats a moment as a date and time in UTC.
pub fn moment(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    unix(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// Formats a moment as a date and time in UTC with milliseconds.
pub fn precise(at: SystemTime) -> String {
    Timestamp::try_from(at).map_or_else(|_| "-".to_owned(), |at| format!("{at:.3}"))
}

/// Returns a duration in milliseconds, rounded to microseconds.
pub fn millis(time: Duration) -> f64 {
    time.as_micros() as f64 / 1000.0
}

/// Formats Unix seconds as a date and time in UTC.
pub fn unix(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or_else(|_| "-".to_owned(), |at| at.to_string())
}

/// Formats the time since a moment.
pub fn ago(at: SystemTime) -> String {
    format!("{} ago", long(SystemTime::now().duration_since(at).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_few_digits_and_a_unit() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1\u{a0}000", "1\u{a0}234\u{a0}567"]);
        assert_eq!([5, 2048, 150 << 20, 3 << 30].map(bytes), ["5 B", "2.0 KiB", "150 MiB", "3.0 GiB"]);
        let minute = Duration::from_secs(60);
        assert_eq!(
            [0, 6, 1200, 600_000].map(|events| rate(events, minute)),
            ["0", "0.10", "20.0", "10\u{a0}000"]
        );
        assert_eq!(
            [(0, 0), (0, 5), (1, 3), (1, 1_000_000)].map(|(a, b)| share(a, b)),
            ["-", "0 %", "33.33 %", "< 0.01 %"]
        );
        assert_eq!([0.0005, 0.05, 2.5, 60.0].map(short), ["0.5 ms", "50 ms", "2.5 s", "60 s"]);
        assert_eq!(took(Duration::from_micros(250)), "250 µs");
        assert_eq!(
            [59, 61, 3700, 90_000].map(|s| long(Duration::from_secs(s))),
            ["59 s", "1 min 1 s", "1 h 1 min", "1 d 1 h"]
        );
        let later = UNIX_EPOCH + Duration::from_millis(1_234);
        assert_eq!(precise(later), "1970-01-01T00:00:01.234Z");
        assert_eq!(millis(Duration::from_nanos(1_234_567)), 1.234);
        assert_eq!(unix(0), "1970-01-01T00:00:00Z");
    }
}
