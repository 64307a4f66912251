//! The received part of a request body, kept for another attempt.

use crate::io::budget::Reservation;

/// Maximum size in bytes of the kept body, the same as Pingora's.
const MOST: usize = 64 * 1024;

/// The received body, unless it exceeds the maximum.
#[derive(Debug, Default)]
pub(super) struct Replay {
    bytes: Vec<u8>,
    lost: bool,
    /// Its memory.
    share: Reservation,
}

impl Replay {
    /// Appends a piece, if there is memory for it.
    pub(super) fn keep(&mut self, piece: &[u8]) {
        let length = self.bytes.len() + piece.len();
        if length > MOST || !self.lost && !self.share.try_hold(length) {
            *self = Self { lost: true, ..Self::default() };
        } else if !self.lost {
            self.bytes.extend_from_slice(piece);
        }
    }

    /// Drops the body: while memory is short, replay is given up first.
    pub(super) fn forget(&mut self) {
        if !self.bytes.is_empty() {
            *self = Self { lost: true, ..Self::default() };
        }
    }

    /// Returns whether the whole received body can be sent again.
    pub(super) fn is_whole(&self) -> bool {
        !self.lost
    }

    /// Returns the kept bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
