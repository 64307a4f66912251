//! Numbers and times in the format of log lines.

use std::time::Duration;

/// Writes a decimal number.
pub(crate) fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writes seconds with milliseconds.
pub(crate) fn seconds(out: &mut Vec<u8>, time: Duration) {
    let mut buffer = itoa::Buffer::new();
    out.extend_from_slice(buffer.format(time.as_secs()).as_bytes());
    let thousandths = buffer.format(1000 + time.subsec_millis());
    out.push(b'.');
    out.extend_from_slice(&thousandths.as_bytes()[1..]);
}
