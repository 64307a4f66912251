//! A copy of a request body for somebody else, while it passes to the endpoint.
//!
//! Nobody waits for whoever takes the copy: pieces queue up for it, up to a bound and while memory is plenty. Beyond
//! that the copy ends where it is, and is worth nothing; the request itself notices none of it.
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

/// Bytes of one body that wait to be taken.
const MOST_QUEUED: usize = 1024 * 1024;
/// Bytes that are kept to be sent again over another connection, as many as of any request.
const REPLAY: usize = 64 * 1024;
/// What each piece costs besides its bytes, about: whoever sends single bytes must not make much of them.
const OVERHEAD: usize = 128;

/// Where pieces come in.
#[derive(Debug)]
pub(crate) struct Tee {
    to: UnboundedSender<Piece>,
    queued: Arc<AtomicUsize>,
    /// Bytes that have passed since the start of the body.
    passed: u64,
    /// Of which so many were copied.
    copied: u64,
    /// Tells how it goes on, while that is open.
    fate: Option<oneshot::Sender<Fate>>,
}

/// What becomes of a copy. One whose request breaks off has none.
#[derive(Debug)]
enum Fate {
    Whole,
    /// There was no room for some of it.
    Lost,
}

/// Where they come out.
#[derive(Debug)]
pub(crate) struct Feed {
    /// How the body is coded.
    pub(crate) framing: Framing,
    from: UnboundedReceiver<Piece>,
    queued: Arc<AtomicUsize>,
    /// All that came, as long as it is little.
    kept: VecDeque<Bytes>,
    kept_bytes: usize,
    /// How many of those were given since the start.
    given: usize,
    whole: bool,
    /// What was given cannot be given again.
    forgotten: bool,
    /// What becomes of it, while nobody knows.
    fate: Option<oneshot::Receiver<Fate>>,
}

/// What is next of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FeedItem {
    /// A piece, in its coding.
    Piece(Bytes),
    /// It is complete.
    End,
    /// It ends here, because the request does, and is not complete.
    Cut,
    /// It ends here, because there was no room for more.
    Lost,
}

#[derive(Debug)]
enum Piece {
    Content(Bytes),
    End,
}

/// Both ends of the copy of a body that is coded like this.
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
    /// A piece passes. What has passed before a rewind is not copied again.
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
            // Nobody takes it any more.
            self.fate = None;
        }
    }

    /// The body begins again.
    pub(crate) fn rewind(&mut self) {
        self.passed = 0;
    }

    /// The body is complete.
    pub(crate) fn end(mut self) {
        if self.fate.is_some() && self.passed == self.copied {
            let _ = self.to.send(Piece::End);
            self.tell(Fate::Whole);
        }
    }

    fn tell(&mut self, fate: Fate) {
        if let Some(tells) = self.fate.take() {
            // Without a listener it is nobody's trouble.
            let _ = tells.send(fate);
        }
    }
}

impl Feed {
    /// What is next.
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

    /// Ready when there is no use in sending what is there, because the rest never comes; says why.
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

    /// Whether all that was given can be given again.
    pub(crate) fn is_replayable(&self) -> bool {
        !self.forgotten
    }

    /// Goes back to the start.
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
