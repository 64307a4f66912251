//! A filter for the frames of an HTTP/2 connection on their way to `h2`.
//!
//! `h2` ends the whole connection for two conditions that concern one stream at most, and has no
//! option to change either.
//!
//! The first is the 101st DATA frame that is empty and does not end its stream, over the life of
//! the connection. Such a frame has no effect, but some clients and endpoints send one with each
//! flush. It is dropped here. A client whose frames arrive faster than a rate gets no more of them
//! dropped, and `h2` ends its connection. For an endpoint there is no rate: its connection carries
//! the calls of many clients, and each turn reads a bounded number of bytes. Padded ones are left
//! to `h2`.
//!
//! The second is a field of a client that `h2` cannot decode. Paths that `h2` refuses, although
//! they are served, are escaped with it (`downstream/http2/hpack.rs`).

use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};

use super::rate::LeakyBucket;

/// Empty frames that a client may send at a time, and then one per [`EMPTY_LEAK`].
const EMPTY: u32 = 1000;
const EMPTY_LEAK: Duration = Duration::from_millis(10);

/// Length in bytes of the connection preface (RFC 9113 §3.4).
const PREFACE: usize = 24;
/// Length in bytes of a frame header (RFC 9113 §4.1), and of the longest payload allowed.
const HEAD: usize = 9;
const MAX_PAYLOAD: usize = 16 * 1024;
/// Length in bytes of the priority fields in HEADERS (RFC 9113 §6.2).
const PRIORITY_LENGTH: usize = 5;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 32;

/// Parser state of the frames of one connection.
#[derive(Debug)]
pub(crate) struct Frames {
    /// Bytes of the current payload that have not arrived and that pass unchanged.
    payload: usize,
    /// The received part of a frame that must be complete before it passes, and the frame's length.
    partial: Vec<u8>,
    whole: usize,
    /// Bytes that pass next, and how many of them have passed.
    out: Vec<u8>,
    passed: usize,
    /// The field block must be continued by the next frame (RFC 9113 §4.3).
    in_block: bool,
    /// Rules for the frames of a client; `None` for those of an endpoint.
    client: Option<ClientRules>,
    /// Frames of an endpoint so far that only show that it is alive: PING and empty DATA.
    signs_of_life: u64,
}

/// Replaces a field block; `None` if it passes unchanged.
type RepairBlock = fn(&[u8]) -> Option<Vec<u8>>;

/// Rules for the frames of a client.
#[derive(Debug)]
struct ClientRules {
    repair: RepairBlock,
    /// Whether a field block has passed without inspection.
    uninspected: Arc<AtomicBool>,
    empty: LeakyBucket,
}

/// How a received frame is handled.
#[derive(Clone, Copy, Debug)]
enum FrameAction {
    Drop,
    /// Forward unchanged.
    Pass,
    /// Inspect before forwarding.
    Inspect(RepairBlock),
}

impl Frames {
    /// Returns a filter for a client, which begins with the preface. `uninspected` is set as soon
    /// as a field block passes without inspection.
    pub(crate) fn of_client(repair: RepairBlock, uninspected: Arc<AtomicBool>) -> Self {
        let empty = LeakyBucket::new(EMPTY, EMPTY_LEAK);
        Self::new(PREFACE, Some(ClientRules { repair, uninspected, empty }))
    }

    /// Returns a filter for an endpoint.
    pub(crate) fn of_endpoint() -> Self {
        Self::new(0, None)
    }

    fn new(payload: usize, client: Option<ClientRules>) -> Self {
        let (partial, out) = (Vec::new(), Vec::new());
        Self { payload, partial, whole: HEAD, out, passed: 0, in_block: false, client, signs_of_life: 0 }
    }

    /// Returns the number of frames of an endpoint that only showed that it is alive.
    pub(crate) fn signs_of_life(&self) -> u64 {
        self.signs_of_life
    }

    /// Reads the bytes for `h2`. As with any reader, 0 bytes mean the end of the stream.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        mut from: impl AsyncRead + Unpin,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.passed < self.out.len() {
                let piece = (self.out.len() - self.passed).min(buf.remaining());
                buf.put_slice(&self.out[self.passed..][..piece]);
                self.passed += piece;
                if self.passed == self.out.len() {
                    (self.out, self.passed) = (Vec::new(), 0);
                }
                return Poll::Ready(Ok(()));
            }
            if !self.partial.is_empty() {
                let mut space = [0; 1024];
                let missing = (self.whole - self.partial.len()).min(space.len());
                let mut rest = ReadBuf::new(&mut space[..missing]);
                ready!(Pin::new(&mut from).poll_read(cx, &mut rest))?;
                if rest.filled().is_empty() {
                    return Poll::Ready(Ok(()));
                }
                self.partial.extend_from_slice(rest.filled());
                if self.partial.len() < self.whole {
                    continue;
                }
                let mut bytes = mem::take(&mut self.partial);
                let kept = self.pass(&mut bytes);
                bytes.truncate(kept);
                self.out.splice(..0, bytes);
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

    /// Moves the bytes that pass to the front of `bytes` and returns their number. Once a frame was
    /// replaced, that frame and all later bytes go to `out`.
    fn pass(&mut self, bytes: &mut [u8]) -> usize {
        let (mut at, mut kept) = (0, 0);
        while at < bytes.len() {
            let rest = &bytes[at..];
            let length = if self.payload > 0 {
                let length = self.payload.min(rest.len());
                self.payload -= length;
                length
            } else {
                let Some(head) = rest.first_chunk::<HEAD>().copied() else {
                    return self.keep_partial(rest, HEAD, kept);
                };
                let payload = length_of(head);
                match self.action_for(head) {
                    FrameAction::Drop => {
                        at += HEAD;
                        continue;
                    }
                    FrameAction::Pass => {
                        if let Some(client) = &self.client
                            && matches!(head[3], HEADERS | CONTINUATION)
                        {
                            client.uninspected.store(true, Ordering::Relaxed);
                        }
                        self.settle(head);
                        self.payload = payload;
                        HEAD
                    }
                    FrameAction::Inspect(repair_block) => {
                        let Some(frame) = rest.get(..HEAD + payload) else {
                            return self.keep_partial(rest, HEAD + payload, kept);
                        };
                        self.settle(head);
                        if let Some(repaired) = repair(frame, repair_block) {
                            self.out.extend_from_slice(&repaired);
                            at += HEAD + payload;
                            continue;
                        }
                        HEAD + payload
                    }
                }
            };
            if self.out.is_empty() {
                if kept < at {
                    bytes.copy_within(at..at + length, kept);
                }
                kept += length;
            } else {
                self.out.extend_from_slice(&bytes[at..at + length]);
            }
            at += length;
        }
        kept
    }

    fn keep_partial(&mut self, rest: &[u8], whole: usize, kept: usize) -> usize {
        self.partial = rest.to_vec();
        self.whole = whole;
        kept
    }

    fn action_for(&mut self, head: [u8; HEAD]) -> FrameAction {
        let [.., kind, flags, a, b, c, d] = head;
        let length = length_of(head);
        let is_inspected = kind == HEADERS && flags & END_HEADERS != 0 && length <= MAX_PAYLOAD;
        if let Some(client) = &self.client
            && is_inspected
            && !self.in_block
        {
            return FrameAction::Inspect(client.repair);
        }
        let is_empty = kind == DATA
            && length == 0
            && flags & (END_STREAM | PADDED) == 0
            && u32::from_be_bytes([a, b, c, d]) << 1 != 0
            && !self.in_block;
        let Some(client) = &self.client else {
            self.signs_of_life += u64::from(is_empty || kind == PING && flags & ACK == 0);
            return if is_empty { FrameAction::Drop } else { FrameAction::Pass };
        };
        if is_empty && !client.empty.is_exceeded() {
            client.empty.count();
            return FrameAction::Drop;
        }
        FrameAction::Pass
    }

    /// Records what this frame means for the next one.
    fn settle(&mut self, head: [u8; HEAD]) {
        let [.., kind, flags, _, _, _, _] = head;
        self.in_block = matches!(kind, HEADERS | CONTINUATION) && flags & END_HEADERS == 0;
    }
}

fn length_of([a, b, c, ..]: [u8; HEAD]) -> usize {
    u32::from_be_bytes([0, a, b, c]) as usize
}

/// Returns HEADERS with replaced fields, and CONTINUATION if they need it. `None` if the frame
/// passes unchanged.
fn repair(frame: &[u8], repair_block: RepairBlock) -> Option<Vec<u8>> {
    let (head, payload) = frame.split_first_chunk::<HEAD>()?;
    let [.., kind, flags, _, _, _, _] = *head;
    let (padding, payload) = match flags & PADDED {
        0 => (0, payload),
        _ => payload.split_first().map(|(padding, payload)| (usize::from(*padding), payload))?,
    };
    let priority = if flags & PRIORITY == 0 { 0 } else { PRIORITY_LENGTH };
    let block = payload.get(priority..payload.len().checked_sub(padding)?)?;
    let block = [&payload[..priority], &repair_block(block)?].concat();
    let mut repaired = Vec::with_capacity(HEAD + block.len());
    let mut pieces = block.chunks(MAX_PAYLOAD).peekable();
    let (mut kind, mut flags) = (kind, flags & !(PADDED | END_HEADERS));
    while let Some(piece) = pieces.next() {
        let end = if pieces.peek().is_none() { END_HEADERS } else { 0 };
        repaired.extend(&(piece.len() as u32).to_be_bytes()[1..]);
        repaired.extend([kind, flags | end]);
        repaired.extend(&head[5..]);
        repaired.extend(piece);
        (kind, flags) = (CONTINUATION, 0);
    }
    Some(repaired)
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use proptest::prelude::*;
    use sluice_testing::http2::frame;

    use super::*;
    use crate::downstream::http2::repair_block;

    /// Filters bytes that arrive in pieces of `cut` bytes and are read into buffers of `room`
    /// bytes.
    fn read(bytes: &[u8], cut: usize, room: usize) -> Vec<u8> {
        let mut frames = Frames::of_client(repair_block, Arc::default());
        let mut cx = Context::from_waker(Waker::noop());
        let mut out = Vec::new();
        for piece in bytes.chunks(cut) {
            let mut from = std::io::Cursor::new(piece);
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
        let mut frames = Frames::of_client(repair_block, Arc::default());
        frames.payload = 0;
        let passed = |frames: &mut Frames, kind, flags, stream, payload: &[u8]| {
            let mut bytes = frame(kind, flags, stream, payload);
            frames.pass(&mut bytes) > 0
        };
        assert!(!passed(&mut frames, DATA, 0, 1, b""));
        assert!(passed(&mut frames, DATA, END_STREAM, 1, b""), "the end of a stream");
        assert!(passed(&mut frames, DATA, 0, 1, b"x"));
        assert!(passed(&mut frames, DATA, PADDED, 1, b""), "an error");
        assert!(passed(&mut frames, DATA, 0, 0, b""), "an error");
        assert!(passed(&mut frames, CONTINUATION, 0, 1, b""));
        assert!(passed(&mut frames, DATA, 0, 1, b""), "an error within a field block");
        assert!(!passed(&mut frames, DATA, 0, 1, b""));
        let few = (0..10 * EMPTY).position(|_| passed(&mut frames, DATA, 0, 1, b""));
        assert!(few.is_some_and(|few| few >= EMPTY as usize - 5), "{few:?}: a flood is left to h2");
    }

    #[test]
    fn frames_of_endpoints_pass_without_inspection_and_without_empty_ones() {
        let head = frame(HEADERS, END_HEADERS, 1, BAD);
        let data = frame(DATA, 0, 1, b"x");
        let empty = frame(DATA, 0, 1, b"");
        let [ping, pong] = [0, ACK].map(|flags| frame(PING, flags, 0, &[0; 8]));
        let all = [&head[..], &empty.repeat(10 * EMPTY as usize), &ping, &pong, &data].concat();
        let mut frames = Frames::of_endpoint();
        let mut bytes = all.clone();
        let kept = frames.pass(&mut bytes);
        assert_eq!(bytes[..kept], [head, ping, pong, data].concat());
        assert_eq!(frames.signs_of_life(), u64::from(10 * EMPTY) + 1);
        assert!(frames.out.is_empty() && frames.partial.is_empty());
    }

    /// The field `X: 1`, and its replacement.
    const BAD: &[u8] = b"\0\x01X\x011";
    const REPAIRED: &[u8] = b"\0\x01\"\x01 ";

    #[test]
    fn heads_keep_what_is_around_their_fields() {
        let priority = b"\x80\0\0\0\x01";
        for (flags, before, after) in [
            (0, &b""[..], &b""[..]),
            (PADDED, b"\x03", b"\0\0\0"),
            (PRIORITY, priority, b""),
            (PADDED | PRIORITY, b"\x01\x80\0\0\0\x01", b"\0"),
        ] {
            let bad = frame(HEADERS, END_HEADERS | flags, 5, &[before, BAD, after].concat());
            let kept = if flags & PRIORITY == 0 { &b""[..] } else { priority };
            let expected = frame(HEADERS, END_HEADERS | flags & !PADDED, 5, &[kept, REPAIRED].concat());
            assert_eq!(repair(&bad, repair_block), Some(expected));
        }
        for odd in [&b""[..], b"\xff", b"\x05\0\0\0\0"] {
            let frame = frame(HEADERS, END_HEADERS | PADDED | PRIORITY, 5, odd);
            assert_eq!(repair(&frame, repair_block), None, "an error");
        }
    }

    #[test]
    fn a_block_that_becomes_too_long_for_a_frame_is_continued() {
        // Fields without a value become two fields.
        let bad = frame(HEADERS, END_HEADERS | END_STREAM, 5, &b"\0\x01X\0".repeat(4000));
        let repaired = repair(&bad, repair_block).unwrap();
        let (mut frames, mut rest) = (Vec::new(), &repaired[..]);
        while let Some((head, after)) = rest.split_first_chunk::<HEAD>() {
            frames.push((head[3], head[4], length_of(*head)));
            rest = &after[length_of(*head)..];
        }
        let expected = [
            (HEADERS, END_STREAM, MAX_PAYLOAD),
            (CONTINUATION, 0, MAX_PAYLOAD),
            (CONTINUATION, END_HEADERS, 9 * 4000 - 2 * MAX_PAYLOAD),
        ];
        assert_eq!(frames, expected);
    }

    #[test]
    fn a_head_in_small_pieces_is_not_copied_with_each_of_them() {
        let mut frames = Frames::of_client(repair_block, Arc::default());
        frames.payload = 0;
        let mut cx = Context::from_waker(Waker::noop());
        let bytes = frame(HEADERS, END_HEADERS, 1, &[0x82; 10_000]);
        let mut moved = std::collections::BTreeSet::new();
        for piece in bytes.chunks(1) {
            let (mut from, mut space) = (std::io::Cursor::new(piece), [0; 100]);
            let polled = frames.poll_read(&mut cx, &mut from, &mut ReadBuf::new(&mut space));
            assert!(polled.is_ready());
            moved.insert(frames.partial.capacity());
        }
        assert!(moved.len() < 30, "{}", moved.len());
    }

    proptest! {
        #[test]
        fn however_bytes_are_cut_all_frames_but_empty_ones_pass(
            kinds in prop::collection::vec((0_u8..10, prop::sample::select(vec![0, 1, 4, 5]), 0_u32..3, prop::sample::select(vec![0, 0, 1, 9, 30])), 0..12),
            bad in prop::collection::vec(any::<bool>(), 12),
            cut in 1_usize..80,
            room in 1_usize..80,
        ) {
            let mut all = vec![b'P'; PREFACE];
            let mut expected = all.clone();
            let mut in_block = false;
            for ((kind, flags, stream, length), bad) in kinds.into_iter().zip(bad) {
                // Payloads that look like empty frames.
                let mut bytes = frame(kind, flags, stream, &vec![0; length]);
                let dropped = kind == DATA && length == 0 && flags & 1 == 0 && stream > 0 && !in_block;
                let is_inspected = kind == HEADERS && flags & END_HEADERS != 0 && !in_block;
                if is_inspected && bad {
                    bytes = frame(kind, flags, stream, BAD);
                }
                all.extend(&bytes);
                if dropped {
                    continue;
                }
                match is_inspected {
                    true => expected.extend(repair(&bytes, repair_block).unwrap_or(bytes)),
                    false => expected.extend(&bytes),
                }
                in_block = matches!(kind, HEADERS | CONTINUATION) && flags & 4 == 0;
            }
            prop_assert_eq!(read(&all, cut, room), expected);
        }
    }
}
