//! Pieces of an HTTP/2 body that wait for their receiver.
//!
//! A piece costs more than the bytes in it, in memory and in `h2`'s budget for pieces, and one
//! message of gRPC is often one piece. Small ones are therefore joined as they arrive: the number
//! of waiting pieces depends on their bytes only, never on the size of the messages.

use std::collections::VecDeque;
use std::mem;

use bytes::{Bytes, BytesMut};

use super::pieces::JOIN;

/// The waiting pieces, in order.
#[derive(Debug, Default)]
pub(crate) struct PieceQueue {
    pieces: VecDeque<Bytes>,
    /// Small pieces behind them, joined; shorter than [`JOIN`].
    joined: BytesMut,
}

impl PieceQueue {
    /// Appends a piece. Copies it only if it is small.
    pub(crate) fn push(&mut self, piece: Bytes) {
        let is_small = piece.len() < JOIN;
        if is_small {
            self.joined.extend_from_slice(&piece);
        }
        if !self.joined.is_empty() && (!is_small || self.joined.len() >= JOIN) {
            self.pieces.push_back(mem::take(&mut self.joined).freeze());
        }
        if !is_small {
            self.pieces.push_back(piece);
        }
    }

    /// Removes the first piece; empty if none waits.
    pub(crate) fn pop(&mut self) -> Bytes {
        self.pieces.pop_front().unwrap_or_else(|| mem::take(&mut self.joined).freeze())
    }

    /// Number of waiting bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.pieces.iter().map(Bytes::len).sum::<usize>() + self.joined.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_keep_their_order_and_small_ones_are_joined() {
        let mut queue = PieceQueue::default();
        let large = Bytes::from(vec![b'l'; JOIN]);
        for piece in [&b"a"[..], b"bc", &large, &large, b"d", &large, b"", b"e", b"f"] {
            queue.push(Bytes::copy_from_slice(piece));
        }
        assert_eq!(queue.bytes(), 3 * JOIN + 6);
        for expected in [&b"abc"[..], &large, &large, b"d", &large, b"ef", b"", b""] {
            assert_eq!(queue.pop(), expected);
        }
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn small_messages_that_arrive_one_at_a_time_used_up_the_places() {
        let mut queue = PieceQueue::default();
        let window = 128 * 1024;
        for _ in 0..window / 7 {
            queue.push(Bytes::from_static(b"message"));
        }
        assert_eq!(queue.bytes(), window / 7 * 7);
        let pieces = std::iter::from_fn(|| Some(queue.pop()).filter(|piece| !piece.is_empty())).count();
        assert!(pieces <= window / JOIN, "{pieces}");
    }

    #[test]
    fn a_large_piece_is_not_copied() {
        let mut queue = PieceQueue::default();
        let large = Bytes::from(vec![0; JOIN]);
        queue.push(large.clone());
        assert_eq!(queue.pop().as_ptr(), large.as_ptr());
    }
}
