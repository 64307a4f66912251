//! The rate limit of a response (`limit-rate`, `limit-rate-after`): bytes per second, after an
//! initial number of bytes without a limit.
//!
//! As in nginx, the bytes of the first second may be sent at once, and the head counts. This stage
//! holds no bytes: it limits how many are read from the endpoint, in fractions of a second.

use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use crate::io::alarm::Alarm;

/// Maximum number of bytes that are accumulated before some are sent.
const MOST_WAITED_FOR: u64 = 16 * 1024;
/// Fraction of one second's bytes that is accumulated, as a divisor.
const PARTS: u64 = 8;
const SECOND: u64 = 1000;

/// The rate of one response.
#[derive(Debug)]
pub(crate) struct ResponseRate {
    /// Bytes per second.
    bytes: u64,
    /// Bytes sent without a limit.
    after: u64,
    /// When the response head arrived.
    began: Option<Instant>,
    /// The whole response has arrived.
    is_over: bool,
    alarm: Alarm,
}

impl ResponseRate {
    /// Creates the limit. A rate of 0 bytes per second is raised to 1.
    pub(crate) fn new(bytes: u64, after: u64) -> Self {
        Self { bytes: bytes.max(1), after, began: None, is_over: false, alarm: Alarm::default() }
    }

    /// Starts the clock with the response head.
    pub(crate) fn begin(&mut self) {
        self.began.get_or_insert_with(Instant::now);
    }

    /// Ends the limit: the response is complete.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }

    /// Returns how many of `most` bytes may be read now that `sent` bytes were sent. At least 1.
    pub(crate) fn portion(&self, sent: u64, most: usize) -> usize {
        let left = self.allowed().saturating_sub(sent).max(1);
        usize::try_from(left).map_or(most, |left| left.min(most))
    }

    /// Ready when more bytes may be sent, given that `sent` bytes were sent.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, sent: u64) -> Poll<()> {
        let Some(began) = self.began.filter(|_| !self.is_over) else { return Poll::Ready(()) };
        let some = (self.bytes / PARTS).clamp(1, MOST_WAITED_FOR);
        let wanted = sent.saturating_add(some).saturating_sub(self.after);
        let millis = wanted.saturating_mul(SECOND).div_ceil(self.bytes).saturating_sub(SECOND);
        match began.checked_add(Duration::from_millis(millis)) {
            Some(at) if at > Instant::now() => self.alarm.poll(cx, at),
            _ => Poll::Ready(()),
        }
    }

    /// Returns the total number of bytes that may have been sent by now.
    fn allowed(&self) -> u64 {
        let millis = self.began.map_or(0, |began| began.elapsed().as_millis());
        let millis = u64::try_from(millis).unwrap_or(u64::MAX).saturating_add(SECOND);
        self.after.saturating_add(self.bytes.saturating_mul(millis) / SECOND)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// Returns the milliseconds that sending `left` bytes takes, and the size of the largest piece.
    async fn send(mut rate: ResponseRate, mut left: u64) -> (u128, usize) {
        let (mut sent, mut largest) = (0, 0);
        let began = Instant::now();
        rate.begin();
        while left > 0 {
            poll_fn(|cx| rate.poll(cx, sent)).await;
            let piece = rate.portion(sent, 64 * 1024).min(usize::try_from(left).unwrap());
            largest = largest.max(piece);
            sent += piece as u64;
            left -= piece as u64;
        }
        rate.end();
        poll_fn(|cx| rate.poll(cx, sent)).await;
        (began.elapsed().as_millis(), largest)
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_go_out_at_the_rate_once_those_that_are_free_have() {
        for (bytes, after, length, least) in [
            (1024, 0, 1024, 0),
            (1024, 0, 10 * 1024, 9_000),
            (1024, 5 * 1024, 10 * 1024, 4_000),
            (1024, 10 * 1024, 10 * 1024, 0),
            (1 << 20, 0, 10 << 20, 9_000),
            (1, 0, 5, 4_000),
            (u64::MAX, u64::MAX, 1 << 30, 0),
        ] {
            let (took, largest) = send(ResponseRate::new(bytes, after), length).await;
            assert!((least..=least + 150).contains(&took), "{bytes} {after} {length}: {took}");
            assert!(largest as u64 <= bytes.saturating_add(after));
        }
    }
}
