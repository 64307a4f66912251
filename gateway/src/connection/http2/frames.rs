//! The frames of a connection, as they pass on their way to `h2`.
//!
//! `h2` ends a connection with its 101st DATA frame that is empty and does not end its stream, however long it has
//! lived. Such a frame means nothing, but some clients send one whenever they flush. So it is dropped here while
//! they are few; those that come faster are left to `h2`.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};

use super::rate::Rate;

/// Empty frames at a time, and then one for each of these.
const EMPTY: u32 = 1000;
const EMPTY_LEAK: Duration = Duration::from_millis(10);

/// Octets of a connection before its first frame (RFC 9113 §3.4).
const PREFACE: usize = 24;
/// Octets of a frame before its payload (RFC 9113 §4.1).
const HEAD: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// Where in its frames a connection is.
#[derive(Debug)]
pub(crate) struct Frames {
    /// Octets of the present payload that have not come yet.
    payload: usize,
    /// A frame's head that came in pieces, how much of it has come, and how much of it was passed on.
    head: [u8; HEAD],
    come: usize,
    passed: usize,
    /// More of a field block has to follow at once (RFC 9113 §4.3).
    in_block: bool,
    empty: Rate,
}

impl Frames {
    pub(crate) fn new() -> Self {
        let empty = Rate::new(EMPTY, EMPTY_LEAK);
        Self { payload: PREFACE, head: [0; HEAD], come: 0, passed: 0, in_block: false, empty }
    }

    /// Reads what `h2` is to see. As with any reader, nothing at all is the end.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        mut from: impl AsyncRead + Unpin,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.come == HEAD {
                let piece = (HEAD - self.passed).min(buf.remaining());
                buf.put_slice(&self.head[self.passed..][..piece]);
                self.passed += piece;
                if self.passed == HEAD {
                    (self.come, self.passed) = (0, 0);
                }
                return Poll::Ready(Ok(()));
            }
            if self.come > 0 {
                let mut rest = ReadBuf::new(&mut self.head[self.come..]);
                ready!(Pin::new(&mut from).poll_read(cx, &mut rest))?;
                match rest.filled().len() {
                    0 => return Poll::Ready(Ok(())),
                    read => self.come += read,
                }
                if self.come == HEAD && !self.passes(self.head) {
                    self.come = 0;
                }
                continue;
            }
            let before = buf.filled().len();
            ready!(Pin::new(&mut from).poll_read(cx, buf))?;
            let read = buf.filled().len() - before;
            let kept = self.pass(&mut buf.filled_mut()[before..]);
            buf.set_filled(before + kept);
            if kept > 0 || read == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Moves what passes to the front. Gives how much that is.
    fn pass(&mut self, octets: &mut [u8]) -> usize {
        let (mut at, mut kept) = (0, 0);
        while at < octets.len() {
            let piece = if self.payload > 0 {
                let piece = self.payload.min(octets.len() - at);
                self.payload -= piece;
                piece
            } else if let Some(head) = octets[at..].first_chunk::<HEAD>().copied() {
                if !self.passes(head) {
                    at += HEAD;
                    continue;
                }
                HEAD
            } else {
                self.come = octets.len() - at;
                self.head[..self.come].copy_from_slice(&octets[at..]);
                break;
            };
            if kept < at {
                octets.copy_within(at..at + piece, kept);
            }
            (at, kept) = (at + piece, kept + piece);
        }
        kept
    }

    /// Whether the frame that begins with this passes. If so, its payload comes next.
    fn passes(&mut self, head: [u8; HEAD]) -> bool {
        let [a, b, c, kind, flags, stream @ ..] = head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        let is_empty = kind == DATA
            && length == 0
            && flags & (END_STREAM | PADDED) == 0
            && u32::from_be_bytes(stream) << 1 != 0
            && !self.in_block;
        if is_empty && !self.empty.is_exceeded() {
            self.empty.count();
            return false;
        }
        self.in_block = matches!(kind, HEADERS | CONTINUATION) && flags & END_HEADERS == 0;
        self.payload = length;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, length: usize) -> Vec<u8> {
        let mut frame = (length as u32).to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        // Looks like empty frames.
        frame.resize(HEAD + length, 0);
        frame
    }

    /// What comes out of octets that come in pieces of `cut` and are read into buffers of `room`.
    fn read(octets: &[u8], cut: usize, room: usize) -> Vec<u8> {
        let mut frames = Frames::new();
        let mut cx = Context::from_waker(Waker::noop());
        let mut out = Vec::new();
        for piece in octets.chunks(cut) {
            let mut from = piece;
            loop {
                let mut space = vec![0; room];
                let mut buf = ReadBuf::new(&mut space);
                let polled = frames.poll_read(&mut cx, &mut from, &mut buf);
                assert!(matches!(polled, Poll::Ready(Ok(()))));
                if buf.filled().is_empty() {
                    break;
                }
                out.extend_from_slice(buf.filled());
            }
        }
        out
    }

    #[test]
    fn empty_frames_are_dropped_unless_they_mean_something() {
        let mut frames = Frames::new();
        frames.payload = 0;
        let passed = |frames: &mut Frames, kind, flags, stream, length| {
            let mut octets = frame(kind, flags, stream, length);
            frames.pass(&mut octets) > 0
        };
        assert!(!passed(&mut frames, DATA, 0, 1, 0));
        assert!(passed(&mut frames, DATA, END_STREAM, 1, 0), "the end of a stream");
        assert!(passed(&mut frames, DATA, 0, 1, 1));
        assert!(passed(&mut frames, DATA, PADDED, 1, 0), "an error");
        assert!(passed(&mut frames, DATA, 0, 0, 0), "an error");
        assert!(passed(&mut frames, CONTINUATION, 0, 1, 0));
        assert!(passed(&mut frames, DATA, 0, 1, 0), "an error within a field block");
        assert!(!passed(&mut frames, DATA, 0, 1, 0));
        let few = (0..10 * EMPTY).position(|_| passed(&mut frames, DATA, 0, 1, 0));
        assert!(few.is_some_and(|few| few >= EMPTY as usize - 5), "{few:?}: a flood is left to h2");
    }

    proptest! {
        #[test]
        fn however_octets_are_cut_all_frames_but_empty_ones_pass(
            kinds in prop::collection::vec((0_u8..10, prop::sample::select(vec![0, 1, 4, 5]), 0_u32..3, prop::sample::select(vec![0, 0, 1, 9, 30])), 0..12),
            cut in 1_usize..80,
            room in 1_usize..80,
        ) {
            let mut all = vec![b'P'; PREFACE];
            let mut expected = all.clone();
            let mut in_block = false;
            for (kind, flags, stream, length) in kinds {
                let octets = frame(kind, flags, stream, length);
                all.extend(&octets);
                let dropped = kind == DATA && length == 0 && flags & 1 == 0 && stream > 0 && !in_block;
                if !dropped {
                    expected.extend(&octets);
                    in_block = matches!(kind, HEADERS | CONTINUATION) && flags & 4 == 0;
                }
            }
            prop_assert_eq!(read(&all, cut, room), expected);
        }
    }
}
