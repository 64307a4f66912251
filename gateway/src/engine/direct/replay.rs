//! What came of a request body, kept for another attempt.

use crate::io::budget::Reservation;

/// Bytes of a request body that are kept, as many as Pingora keeps.
const MOST: usize = 64 * 1024;

/// All that came of a request body, unless that was too much.
#[derive(Debug, Default)]
pub(super) struct Replay {
    bytes: Vec<u8>,
    lost: bool,
    /// Of the memory for that.
    share: Reservation,
}

impl Replay {
    /// Keeps a piece, if there is memory for it.
    pub(super) fn keep(&mut self, piece: &[u8]) {
        let length = self.bytes.len() + piece.len();
        if length > MOST || !self.lost && !self.share.try_hold(length) {
            *self = Self { lost: true, ..Self::default() };
        } else if !self.lost {
            self.bytes.extend_from_slice(piece);
        }
    }

    /// Keeps nothing: memory is short, and this goes first.
    pub(super) fn forget(&mut self) {
        if !self.bytes.is_empty() {
            *self = Self { lost: true, ..Self::default() };
        }
    }

    /// Whether all that came can be sent again.
    pub(super) fn is_whole(&self) -> bool {
        !self.lost
    }

    /// That.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}
