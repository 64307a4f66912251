//! A small request body that has arrived in full before an endpoint is chosen.
//!
//! It needs no [stage](super::staged): the client side holds it in one piece and can send it again
//! for another attempt.

use bytes::Bytes;

use super::pieces::Piece;
use crate::io::budget::Reservation;

/// The content of a request body, without its coding.
#[derive(Debug)]
pub(crate) struct WholeBody {
    content: Bytes,
    is_given: bool,
    is_counted: bool,
    /// Reservation of the content in the memory budget.
    _share: Reservation,
}

impl WholeBody {
    /// Maximum length in bytes: as much as is kept for a retry in any case.
    pub(crate) const MOST: u64 = 64 * 1024;

    /// Creates a body of which nothing was passed on yet.
    pub(crate) fn new(content: Bytes) -> Self {
        let mut share = Reservation::default();
        share.hold(content.len());
        Self { content, is_given: false, is_counted: false, _share: share }
    }

    /// Returns the whole content and the number of bytes that were not returned before.
    pub(crate) fn give(&mut self) -> (&[u8], usize) {
        let fresh = if self.is_counted { 0 } else { self.content.len() };
        (self.is_given, self.is_counted) = (true, true);
        (&self.content, fresh)
    }

    /// Returns the content without a copy, then the end.
    pub(crate) fn piece(&mut self) -> Piece {
        match std::mem::replace(&mut self.is_given, true) {
            true => Piece::End,
            false => Piece::Data { content: self.content.clone(), ends: true },
        }
    }

    /// Returns whether the content was returned since the last rewind.
    pub(crate) fn is_given(&self) -> bool {
        self.is_given
    }

    /// Restarts the body from its beginning.
    pub(crate) fn rewind(&mut self) {
        self.is_given = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_is_given_again_counts_once() {
        let mut body = WholeBody::new(Bytes::from_static(b"hello"));
        assert!(!body.is_given());
        assert_eq!(body.give(), (&b"hello"[..], 5));
        assert!(body.is_given());
        body.rewind();
        assert!(!body.is_given());
        assert_eq!(body.give(), (&b"hello"[..], 0));
    }
}
