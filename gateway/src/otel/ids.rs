//! Ids of traces and spans.

use std::num::{NonZeroU64, NonZeroU128};

use crate::message::hex::write_hex;

/// The id of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceId(NonZeroU128);

/// The id of a span within its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanId(NonZeroU64);

impl TraceId {
    /// Number of hexadecimal digits.
    pub(crate) const DIGITS: usize = 32;

    /// Returns a new id.
    pub(crate) fn random() -> Self {
        Self(NonZeroU128::new(fastrand::u128(..)).unwrap_or(NonZeroU128::MIN))
    }

    /// Parses lower-case hexadecimal digits; `None` also if all of them are 0.
    pub(super) fn parse(digits: &[u8]) -> Option<Self> {
        NonZeroU128::new(number(digits, Self::DIGITS)?).map(Self)
    }

    /// Returns the bytes in network order.
    pub(crate) fn bytes(self) -> [u8; 16] {
        self.0.get().to_be_bytes()
    }

    /// Returns the hexadecimal digits.
    pub(crate) fn digits(self) -> [u8; Self::DIGITS] {
        let mut digits = [0; Self::DIGITS];
        write_hex(&self.bytes(), &mut digits);
        digits
    }

    /// Returns the last 64 bits, by which traces are sampled.
    pub(super) fn end(self) -> u64 {
        self.0.get() as u64
    }
}

impl SpanId {
    /// Number of hexadecimal digits.
    pub(crate) const DIGITS: usize = 16;

    /// Returns a new id.
    pub(crate) fn random() -> Self {
        Self(NonZeroU64::new(fastrand::u64(..)).unwrap_or(NonZeroU64::MIN))
    }

    /// Parses lower-case hexadecimal digits; `None` also if all of them are 0.
    pub(super) fn parse(digits: &[u8]) -> Option<Self> {
        NonZeroU64::new(u64::try_from(number(digits, Self::DIGITS)?).ok()?).map(Self)
    }

    /// Returns the bytes in network order.
    pub(crate) fn bytes(self) -> [u8; 8] {
        self.0.get().to_be_bytes()
    }

    /// Returns the hexadecimal digits.
    pub(crate) fn digits(self) -> [u8; Self::DIGITS] {
        let mut digits = [0; Self::DIGITS];
        write_hex(&self.bytes(), &mut digits);
        digits
    }
}

/// Parses exactly `count` lower-case hexadecimal digits, at most 32.
pub(super) fn number(digits: &[u8], count: usize) -> Option<u128> {
    let fits = digits.len() == count && digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    if !fits {
        return None;
    }
    let add = |number: u128, digit: &u8| number << 4 | u128::from((digit & 15) + 9 * (digit >> 6));
    Some(digits.iter().fold(0, add))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        let (trace, span) = (TraceId::random(), SpanId::random());
        assert_eq!(TraceId::parse(&trace.digits()), Some(trace));
        assert_eq!(SpanId::parse(&span.digits()), Some(span));
        let id = TraceId::parse(b"0af7651916cd43dd8448eb211c80319c").unwrap();
        assert_eq!(id.end(), 0x8448_eb21_1c80_319c);
        assert_eq!(&id.digits(), b"0af7651916cd43dd8448eb211c80319c");
    }

    #[test]
    fn ids_of_zeros_or_other_digits_are_none() {
        assert_eq!(TraceId::parse(&[b'0'; 32]), None);
        assert_eq!(SpanId::parse(&[b'0'; 16]), None);
        for bad in
            [&b"b7ad6b716920333"[..], b"b7ad6b71692033310", b"B7AD6B7169203331", b"b7ad6b716920333g", b""]
        {
            assert_eq!(SpanId::parse(bad), None);
        }
    }
}
