//! A small request body that has arrived in full before its endpoint is chosen.
//!
//! It needs no [stage](super::staged) that waits for it: the client side itself holds it in one piece and can give it
//! again to another attempt.

use bytes::Bytes;

use super::pieces::Piece;
use crate::io::budget::Reservation;

/// The content of a request body, free of its coding.
#[derive(Debug)]
pub(crate) struct WholeBody {
    content: Bytes,
    is_given: bool,
    is_counted: bool,
    /// Of the memory budget, for the content.
    _share: Reservation,
}

impl WholeBody {
    /// Bytes of the largest body that is held like this, as many as are kept for another attempt anyway.
    pub(crate) const MOST: u64 = 64 * 1024;

    /// A body that is not given yet.
    pub(crate) fn new(content: Bytes) -> Self {
        let mut share = Reservation::default();
        share.hold(content.len());
        Self { content, is_given: false, is_counted: false, _share: share }
    }

    /// Gives all of it, with the number of bytes that were not given before.
    pub(crate) fn give(&mut self) -> (&[u8], usize) {
        let fresh = if self.is_counted { 0 } else { self.content.len() };
        (self.is_given, self.is_counted) = (true, true);
        (&self.content, fresh)
    }

    /// Gives all of it without a copy, then its end.
    pub(crate) fn piece(&mut self) -> Piece {
        match std::mem::replace(&mut self.is_given, true) {
            true => Piece::End,
            false => Piece::Data { content: self.content.clone(), ends: true },
        }
    }

    /// Whether it was given since it was last rewound.
    pub(crate) fn is_given(&self) -> bool {
        self.is_given
    }

    /// Goes back to the start.
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
