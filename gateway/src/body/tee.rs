//! A copy of a request body for a mirror, made while the body passes to the endpoint.
//!
//! The request never waits for the reader of the copy: pieces queue up, up to a limit and while
//! memory is plentiful. Beyond that the copy is abandoned, without any effect on the request.
//!
//! A copy has the coding of the original, byte for byte.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::io::budget::{self, Reservation};
use crate::io::counted::counted;
use crate::message::framing::Framing;

/// Maximum number of queued bytes per copy.
const MOST_QUEUED: usize = 1024 * 1024;
/// Bytes kept so that the copy can be sent again over another connection; the same as for requests.
const REPLAY: usize = 64 * 1024;
/// Approximate cost in bytes of each piece besides its content, so that single-byte pieces count
/// for what they use.
const OVERHEAD: usize = 128;

/// The writing end of a copy.
#[derive(Debug)]
pub(crate) struct Tee {
    to: UnboundedSender<Piece>,
    queued: Arc<AtomicUsize>,
    /// Bytes that have passed since the start of the body.
    passed: u64,
    /// Bytes of the body that were copied.
    copied: u64,
    /// Reports the outcome to the reader. `None` once reported.
    fate: Option<oneshot::Sender<Fate>>,
}

/// The outcome of a copy. A request that breaks off drops the sender instead.
#[derive(Debug)]
enum Fate {
    Whole,
    /// A piece did not fit into the queue or the memory budget.
    Lost,
}

/// The reading end of a copy.
#[derive(Debug)]
pub(crate) struct Feed {
    /// The framing of the body.
    pub(crate) framing: Framing,
    from: UnboundedReceiver<Piece>,
    queued: Arc<AtomicUsize>,
    /// All pieces so far, while they are within the replay limit.
    kept: VecDeque<Bytes>,
    kept_bytes: usize,
    /// Number of `kept` pieces that were returned since the last rewind.
    given: usize,
    whole: bool,
    /// The kept pieces were dropped, so the body cannot be replayed.
    forgotten: bool,
    /// Receives the outcome. `None` once the copy is known to be whole.
    fate: Option<oneshot::Receiver<Fate>>,
}

/// The next part of a copied body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FeedItem {
    /// A piece, in its coding.
    Piece(Bytes),
    /// The end of a complete body.
    End,
    /// The end of an incomplete body: the request broke off.
    Cut,
    /// The end of an incomplete body: there was no room for more.
    Lost,
}

#[derive(Debug)]
enum Piece {
    Content(Bytes),
    End,
}

/// Returns both ends of the copy of a body with this framing.
pub(crate) fn tee(framing: Framing) -> (Tee, Feed) {
    let (to, from) = unbounded_channel();
    let queued = Arc::new(AtomicUsize::new(0));
    let (tells, fate) = oneshot::channel();
    let tee = Tee { to, queued: queued.clone(), passed: 0, copied: 0, fate: Some(tells) };
    let feed = Feed {
        framing,
        from,
        queued,
        kept: VecDeque::new(),
        kept_bytes: 0,
        given: 0,
        whole: false,
        forgotten: false,
        fate: Some(fate),
    };
    (tee, feed)
}

impl Tee {
    /// Copies a piece. Bytes that were already copied before a rewind are skipped.
    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        let begin = self.passed;
        self.passed += bytes.len() as u64;
        if self.passed <= self.copied || self.fate.is_none() {
            return;
        }
        let known = usize::try_from(self.copied.saturating_sub(begin)).unwrap_or(usize::MAX);
        let fresh = &bytes[known.min(bytes.len())..];
        let mut share = Reservation::default();
        let size = fresh.len() + OVERHEAD;
        let waiting = self.queued.load(Relaxed) + size;
        if waiting > MOST_QUEUED || !budget::has_plenty() || !share.try_hold(size) {
            self.tell(Fate::Lost);
            return;
        }
        self.copied = self.passed;
        self.queued.fetch_add(size, Relaxed);
        if self.to.send(Piece::Content(counted(fresh.to_vec(), share))).is_err() {
            // The reader is gone.
            self.fate = None;
        }
    }

    /// Restarts the body from its beginning.
    pub(crate) fn rewind(&mut self) {
        self.passed = 0;
    }

    /// Completes the copy.
    pub(crate) fn end(mut self) {
        if self.fate.is_some() && self.passed == self.copied {
            let _ = self.to.send(Piece::End);
            self.tell(Fate::Whole);
        }
    }

    fn tell(&mut self, fate: Fate) {
        if let Some(tells) = self.fate.take() {
            // An error means that the reader is gone and needs no outcome.
            let _ = tells.send(fate);
        }
    }
}

impl Feed {
    /// Waits for the next part.
    pub(crate) async fn next(&mut self) -> FeedItem {
        if let Some(bytes) = self.kept.get(self.given) {
            self.given += 1;
            return FeedItem::Piece(bytes.clone());
        }
        if self.whole {
            return FeedItem::End;
        }
        let next = tokio::select! {
            biased;
            next = self.from.recv() => next,
            why = given_up(&mut self.fate) => return why,
        };
        match next {
            Some(Piece::Content(bytes)) => {
                self.queued.fetch_sub(bytes.len() + OVERHEAD, Relaxed);
                self.keep(bytes.clone());
                FeedItem::Piece(bytes)
            }
            Some(Piece::End) => {
                self.whole = true;
                FeedItem::End
            }
            None => given_up(&mut self.fate).await,
        }
    }

    /// Ready with the reason when the copy was abandoned, so that sending the rest is pointless.
    pub(crate) async fn given_up(&mut self) -> FeedItem {
        given_up(&mut self.fate).await
    }

    fn keep(&mut self, bytes: Bytes) {
        self.kept_bytes += bytes.len() + OVERHEAD;
        self.forgotten |= self.kept_bytes > REPLAY;
        if self.forgotten {
            self.kept.clear();
            self.given = 0;
            return;
        }
        self.kept.push_back(bytes);
        self.given += 1;
    }

    /// Returns whether everything returned so far can be returned again.
    pub(crate) fn is_replayable(&self) -> bool {
        !self.forgotten
    }

    /// Restarts the body from its beginning.
    pub(crate) fn rewind(&mut self) {
        self.given = 0;
    }
}

async fn given_up(fate: &mut Option<oneshot::Receiver<Fate>>) -> FeedItem {
    let Some(told) = fate else { return pending().await };
    match told.await {
        Err(_) => FeedItem::Cut,
        Ok(Fate::Lost) => FeedItem::Lost,
        Ok(Fate::Whole) => {
            *fate = None;
            pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(feed: &mut Feed) -> (Vec<u8>, FeedItem) {
        let mut got = Vec::new();
        loop {
            match feed.next().await {
                FeedItem::Piece(bytes) => got.extend_from_slice(&bytes),
                end => return (got, end),
            }
        }
    }

    #[tokio::test]
    async fn what_passes_again_is_copied_once() {
        let (mut tee, mut feed) = tee(Framing::Length(9));
        tee.copy(b"one");
        tee.rewind();
        tee.copy(b"o");
        tee.copy(b"ne two");
        tee.rewind();
        tee.copy(b"one two 3");
        tee.end();
        assert_eq!(all(&mut feed).await, (b"one two 3".to_vec(), FeedItem::End));
        feed.rewind();
        assert_eq!(all(&mut feed).await, (b"one two 3".to_vec(), FeedItem::End), "given again");
    }

    #[tokio::test]
    async fn what_nobody_takes_is_bounded_and_then_cut() {
        let (mut tee, mut feed) = tee(Framing::CHUNKED);
        let piece = vec![7; 64 * 1024];
        for _ in 0..MOST_QUEUED / piece.len() + 5 {
            tee.copy(&piece);
        }
        tee.end();
        let (got, end) = all(&mut feed).await;
        assert_eq!((got.len() / piece.len(), end), (MOST_QUEUED / (piece.len() + OVERHEAD), FeedItem::Lost));
        assert!(!feed.is_replayable());
    }

    #[tokio::test]
    async fn single_bytes_cost_what_it_takes_to_keep_them() {
        let (mut tee, mut feed) = tee(Framing::CHUNKED);
        for _ in 0..MOST_QUEUED {
            tee.copy(b"x");
        }
        let (got, end) = all(&mut feed).await;
        assert_eq!((got.len(), end), (MOST_QUEUED / (1 + OVERHEAD), FeedItem::Lost));
        assert!(!feed.is_replayable());
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_has_no_end() {
        let (mut broken, mut feed) = tee(Framing::Length(9));
        broken.copy(b"one");
        drop(broken);
        assert_eq!(all(&mut feed).await, (b"one".to_vec(), FeedItem::Cut));
        let (mut rewound, mut feed) = tee(Framing::Length(9));
        rewound.copy(b"one two 3");
        rewound.rewind();
        rewound.copy(b"one");
        drop(rewound);
        assert_eq!(
            all(&mut feed).await,
            (b"one two 3".to_vec(), FeedItem::Cut),
            "nobody has said that it is whole"
        );
    }
}
