//! Bytes that own their reservation in the memory budget.
//!
//! A page or a piece of a body is passed on, cloned and split, and may wait in code without access
//! to the budget, such as the send buffers of HTTP/2. The reservation is therefore stored with the
//! bytes and returned when the last clone is dropped.

use bytes::Bytes;

use crate::io::budget::Reservation;

struct Counted<B> {
    bytes: B,
    _share: Reservation,
}

impl<B: AsRef<[u8]>> AsRef<[u8]> for Counted<B> {
    fn as_ref(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

/// Attaches `share` to `bytes`. The last clone must be dropped on the thread of the reservation.
pub(crate) fn counted<B: AsRef<[u8]> + Send + 'static>(bytes: B, share: Reservation) -> Bytes {
    match bytes.as_ref().is_empty() {
        true => Bytes::new(),
        false => Bytes::from_owner(Counted { bytes, _share: share }),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::io::budget::{self, Budget};

    #[test]
    fn the_share_goes_back_with_the_last_piece() {
        let budget = Budget::new(10 << 20);
        let shared = budget.clone();
        let run = move || {
            budget::serve(budget.clone());
            let mut share = Reservation::default();
            share.hold(5 << 20);
            let mut whole = counted(vec![7; 5 << 20], share);
            let piece = whole.split_to(10);
            drop(whole);
            assert!(budget.taken() >= 5 << 20);
            drop(piece);
            assert!(budget.taken() < 1 << 20);
            let mut share = Reservation::default();
            share.hold(5 << 20);
            drop(counted(Vec::<u8>::new(), share));
            assert!(budget.taken() < 1 << 20, "nothing needs no memory");
        };
        thread::spawn(run).join().unwrap();
        assert_eq!(shared.taken(), 0);
    }
}
