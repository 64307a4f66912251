//! A copy of a request body, made while the body passes to the endpoint.
//!
//! The request never waits for the receiver of the copy: pieces are queued for it, up to a limit
//! and while memory is plentiful. Beyond that the copy is abandoned, without effect on the request.
//!
//! A copy has the transfer coding of the original, byte for byte.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::io::budget::{self, Reservation};
use crate::io::counted::counted;
use crate::io::failure::FailureKind;
use crate::message::framing::Framing;

/// Bytes of one body that may be queued.
const MOST_QUEUED: usize = 1024 * 1024;
/// Approximate memory of a piece besides its bytes, so that a client gains nothing by sending
/// single bytes.
const OVERHEAD: usize = 128;

/// The sending side of a copy.
#[derive(Debug)]
pub(crate) struct Tee {
    to: UnboundedSender<Piece>,
    queued: Arc<AtomicUsize>,
    /// Bytes that have passed since the start of the body.
    passed: u64,
    /// Of these, bytes that were copied.
    copied: u64,
    /// Reports how the copy ended; `None` once it has.
    copy_end: Option<oneshot::Sender<CopyEnd>>,
}

/// How a copy ended. Dropped without a value if its request broke off.
#[derive(Debug)]
enum CopyEnd {
    Whole,
    /// There was no memory for a part of it.
    Lost,
}

/// The receiving side of a copy.
#[derive(Debug)]
pub(crate) struct Feed {
    /// The framing of the body.
    pub(crate) framing: Framing,
    from: UnboundedReceiver<Piece>,
    queued: Arc<AtomicUsize>,
    /// The end was received.
    has_ended: bool,
    /// How the copy will end; `None` once that is known.
    copy_end: Option<oneshot::Receiver<CopyEnd>>,
    /// Why the rest of the copy never arrives.
    failure: Option<FailureKind>,
}

#[derive(Debug)]
enum Piece {
    Content(Bytes),
    End,
}

/// Creates both sides of the copy of a body with this framing.
pub(crate) fn tee(framing: Framing) -> (Tee, Feed) {
    let (to, from) = unbounded_channel();
    let queued = Arc::new(AtomicUsize::new(0));
    let (sender, receiver) = oneshot::channel();
    let tee = Tee { to, queued: queued.clone(), passed: 0, copied: 0, copy_end: Some(sender) };
    let feed = Feed { framing, from, queued, has_ended: false, copy_end: Some(receiver), failure: None };
    (tee, feed)
}

impl Tee {
    /// Copies a piece that passes. Bytes that passed before a rewind are not copied again.
    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        let begin = self.passed;
        self.passed += bytes.len() as u64;
        if self.passed <= self.copied || self.copy_end.is_none() {
            return;
        }
        let known = usize::try_from(self.copied.saturating_sub(begin)).unwrap_or(usize::MAX);
        let fresh = &bytes[known.min(bytes.len())..];
        let mut share = Reservation::default();
        let size = fresh.len() + OVERHEAD;
        let waiting = self.queued.load(Relaxed) + size;
        if waiting > MOST_QUEUED || !budget::has_plenty() || !share.try_hold(size) {
            self.report_end(CopyEnd::Lost);
            return;
        }
        self.copied = self.passed;
        self.queued.fetch_add(size, Relaxed);
        if self.to.send(Piece::Content(counted(fresh.to_vec(), share))).is_err() {
            // The receiver has ended.
            self.copy_end = None;
        }
    }

    /// Restarts the body from its beginning.
    pub(crate) fn rewind(&mut self) {
        self.passed = 0;
    }

    /// Completes the copy.
    pub(crate) fn end(mut self) {
        if self.copy_end.is_some() && self.passed == self.copied {
            let _ = self.to.send(Piece::End);
            self.report_end(CopyEnd::Whole);
        }
    }

    fn report_end(&mut self, copy_end: CopyEnd) {
        if let Some(receiver) = self.copy_end.take() {
            // The receiver may have ended.
            let _ = receiver.send(copy_end);
        }
    }
}

impl Feed {
    /// Returns whether the whole body was received.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Ready with the next piece in its transfer coding, or `None` at the end.
    ///
    /// # Errors
    /// As [`poll_given_up`](Self::poll_given_up).
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, FailureKind>> {
        match self.from.poll_recv(cx) {
            Poll::Ready(Some(Piece::Content(bytes))) => {
                self.queued.fetch_sub(bytes.len() + OVERHEAD, Relaxed);
                Poll::Ready(Ok(Some(bytes)))
            }
            Poll::Ready(Some(Piece::End)) => {
                self.has_ended = true;
                Poll::Ready(Ok(None))
            }
            Poll::Ready(None) | Poll::Pending => self.poll_given_up(cx).map(Err),
        }
    }

    /// Ready when the rest of the body will never arrive: `Client` if the request broke off,
    /// `Memory` if there was no memory for the copy. Queued pieces need not be sent then.
    pub(crate) fn poll_given_up(&mut self, cx: &mut Context<'_>) -> Poll<FailureKind> {
        if let Some(copy_end) = &mut self.copy_end {
            self.failure = match ready!(Pin::new(copy_end).poll(cx)) {
                Err(_) => Some(FailureKind::Client),
                Ok(CopyEnd::Lost) => Some(FailureKind::Memory),
                Ok(CopyEnd::Whole) => None,
            };
            self.copy_end = None;
        }
        self.failure.map_or(Poll::Pending, Poll::Ready)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    async fn all(feed: &mut Feed) -> (Vec<u8>, Result<(), FailureKind>) {
        let mut got = Vec::new();
        loop {
            match poll_fn(|cx| feed.poll_next(cx)).await {
                Ok(Some(bytes)) => got.extend_from_slice(&bytes),
                Ok(None) => return (got, Ok(())),
                Err(kind) => return (got, Err(kind)),
            }
        }
    }

    #[tokio::test]
    async fn bytes_that_pass_again_are_copied_once() {
        let (mut tee, mut feed) = tee(Framing::Length(9));
        tee.copy(b"one");
        tee.rewind();
        tee.copy(b"o");
        tee.copy(b"ne two");
        tee.rewind();
        tee.copy(b"one two 3");
        tee.end();
        assert_eq!(all(&mut feed).await, (b"one two 3".to_vec(), Ok(())));
        assert!(feed.has_ended());
    }

    #[tokio::test]
    async fn a_copy_that_is_not_received_is_bounded_and_then_lost() {
        let (mut tee, mut feed) = tee(Framing::CHUNKED);
        let piece = vec![7; 64 * 1024];
        for _ in 0..MOST_QUEUED / piece.len() + 5 {
            tee.copy(&piece);
        }
        tee.end();
        let (got, end) = all(&mut feed).await;
        let most = MOST_QUEUED / (piece.len() + OVERHEAD);
        assert_eq!((got.len() / piece.len(), end), (most, Err(FailureKind::Memory)));
        assert!(!feed.has_ended());
    }

    #[tokio::test]
    async fn single_bytes_count_with_the_memory_that_they_need() {
        let (mut tee, mut feed) = tee(Framing::CHUNKED);
        for _ in 0..MOST_QUEUED {
            tee.copy(b"x");
        }
        let (got, end) = all(&mut feed).await;
        assert_eq!((got.len(), end), (MOST_QUEUED / (1 + OVERHEAD), Err(FailureKind::Memory)));
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_has_no_end() {
        let (mut broken, mut feed) = tee(Framing::Length(9));
        broken.copy(b"one");
        drop(broken);
        assert_eq!(all(&mut feed).await, (b"one".to_vec(), Err(FailureKind::Client)));
        let (mut rewound, mut feed) = tee(Framing::Length(9));
        rewound.copy(b"one two 3");
        rewound.rewind();
        rewound.copy(b"one");
        drop(rewound);
        let got = all(&mut feed).await;
        assert_eq!(got, (b"one two 3".to_vec(), Err(FailureKind::Client)), "its end was not reported");
    }
}
