//! Buffering of a whole request body before an endpoint is chosen (`proxy-request-buffering`,
//! nginx's default).
//!
//! A slow client then occupies no endpoint, every body has a known length, and each attempt can
//! send all of it. Bodies are held in memory up to `client-body-buffer-size`, but at least up to
//! the size that is kept for a retry anyway, so typical bodies never touch the disk. The rest goes
//! to disk, and does so earlier while memory is short.
//!
//! A body with trailers is forwarded in chunks: a body with a `Content-Length` cannot carry
//! trailers.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::disk::Disk;
use super::spill::{Spill, Unwritten};
use crate::body::downstream::Downstream;
use crate::io::budget::{self, Reservation, WaitTicket};
use crate::io::deadlines::Deadlines;
use crate::io::failure::FailureKind;
use crate::message::framing::Framing;
use crate::message::response::Response;

/// Minimum number of bytes held in memory, whatever `client-body-buffer-size` is.
const LEAST: usize = 64 * 1024;
/// Bytes that are written to disk, read from disk or passed on at a time.
const PIECE: usize = 64 * 1024;

/// A buffered request body.
#[derive(Debug)]
pub(crate) struct RequestBuffer {
    /// Framing of the body as the client sends it.
    framing: Framing,
    /// Maximum length of the body in bytes.
    limit: Option<u64>,
    /// Maximum number of bytes in memory.
    most: usize,
    /// Before the first write to disk: the whole content so far. Afterwards: content that is not
    /// yet on disk, or that was read back from it.
    memory: Vec<u8>,
    share: Reservation,
    ticket: WaitTicket,
    disk: Arc<Disk>,
    spill: Option<Spill>,
    /// Bytes of content received.
    length: u64,
    /// The encoded trailer section with its final empty line. Empty without trailers.
    trailers: Vec<u8>,
    /// Bytes of content that were passed on since the last rewind.
    given: u64,
    /// Maximum that `given` has reached. Only bytes beyond it count as new.
    counted: u64,
    begun: bool,
    ended: bool,
    /// Offset in the content of the first byte in `memory`.
    before: u64,
}

impl RequestBuffer {
    pub(crate) fn new(framing: Framing, limit: Option<u64>, memory: u64, disk: Arc<Disk>) -> Self {
        Self {
            framing,
            limit,
            most: usize::try_from(memory).unwrap_or(usize::MAX).max(LEAST),
            memory: Vec::new(),
            share: Reservation::default(),
            ticket: WaitTicket::default(),
            disk,
            spill: None,
            length: 0,
            trailers: Vec::new(),
            given: 0,
            counted: 0,
            begun: false,
            ended: false,
            before: 0,
        }
    }

    /// Returns the bytes of content received.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Returns the content of a body that is whole, if none of it is on disk.
    pub(crate) fn content(&self) -> Option<&[u8]> {
        let is_in_memory = self.spill.is_none() && self.memory.len() as u64 == self.length;
        is_in_memory.then_some(&self.memory)
    }

    /// Returns the framing in which the body is passed on.
    pub(crate) fn coding(&self) -> Framing {
        match self.trailers.is_empty() {
            true => Framing::Length(self.length),
            false => Framing::CHUNKED,
        }
    }

    /// Reads the whole body from the client. `time_limit` limits the wait for each piece.
    ///
    /// # Errors
    /// The client fails, exceeds `time_limit` or the size limit, or the body cannot be stored.
    pub(crate) fn poll_collect(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut impl Downstream,
        deadlines: &mut Deadlines,
        time_limit: Duration,
    ) -> Poll<Result<(), FailureKind>> {
        ready!(send_continue(cx, from, deadlines))?;
        loop {
            // A complete body that fits in memory needs no more room.
            if !from.is_spent() || self.memory.len() > self.most {
                ready!(self.poll_make_room(cx, deadlines))?;
            }
            if from.is_spent() {
                return self.poll_finish(cx);
            }
            let mut taken = Ok(());
            let read = from.poll_body(cx, |_, bytes, _| taken = self.take(bytes));
            if read.is_pending() {
                deadlines.body.begin(Some(time_limit));
            }
            ready!(read)?;
            deadlines.body.end();
            taken?;
        }
    }

    /// Appends a piece of the body to the memory buffer.
    fn take(&mut self, bytes: &[u8]) -> Result<(), FailureKind> {
        let Self { framing, memory, trailers, .. } = self;
        if memory.capacity() == 0 {
            let expected = framing.left().and_then(|left| usize::try_from(left).ok());
            memory.reserve(expected.unwrap_or(bytes.len()).min(PIECE));
        }
        let before = memory.len();
        let read = framing.read_all(
            bytes,
            |piece| memory.extend_from_slice(piece),
            |trailer| trailers.push(trailer),
        );
        read.map_err(|_| FailureKind::ClientMalformed)?;
        self.length += (memory.len() - before) as u64;
        self.count();
        match self.limit.is_some_and(|limit| self.length > limit) {
            true => Err(FailureKind::BodyTooLarge),
            false => Ok(()),
        }
    }

    /// Ready when more may be read. Moves the buffer to disk when it is full or memory is short.
    fn poll_make_room(
        &mut self,
        cx: &mut Context<'_>,
        deadlines: &mut Deadlines,
    ) -> Poll<Result<(), FailureKind>> {
        loop {
            let has_room = budget::has_room();
            let most = if self.spill.is_some() { PIECE } else { self.most };
            if has_room && self.memory.len() < most {
                self.ticket = WaitTicket::default();
                deadlines.room.end();
                return Poll::Ready(Ok(()));
            }
            if self.memory.is_empty() {
                if let Some(spill) = &mut self.spill {
                    ready!(spill.poll_written(cx)).map_err(unwritten)?;
                }
                self.memory = Vec::new();
                self.count();
                // The memory is held by other requests, so this one has to wait.
                ready!(deadlines.poll_room(cx, &mut self.ticket));
                continue;
            }
            ready!(self.poll_spill(cx))?;
        }
    }

    /// Starts to write the memory buffer to disk once the previous write is complete.
    fn poll_spill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FailureKind>> {
        let disk = &self.disk;
        let spill = self.spill.get_or_insert_with(|| Spill::new(disk.clone()));
        let spare = ready!(spill.poll_written(cx)).map_err(unwritten)?;
        let full = mem::replace(&mut self.memory, spare.unwrap_or_default());
        spill.write(full).map_err(unwritten)?;
        self.count();
        Poll::Ready(Ok(()))
    }

    /// Completes the buffer after the client has sent the whole body.
    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FailureKind>> {
        if self.spill.is_some() && !self.memory.is_empty() {
            ready!(self.poll_spill(cx))?;
        }
        if let Some(spill) = &mut self.spill {
            ready!(spill.poll_written(cx)).map_err(unwritten)?;
            self.memory = Vec::new();
            self.count();
        }
        Poll::Ready(Ok(()))
    }

    /// Updates the reservation, including memory that waits for the disk: a write may take any
    /// time.
    fn count(&mut self) {
        let disk = self.spill.as_ref().map_or(0, Spill::memory);
        self.share.hold(self.memory.capacity() + self.trailers.capacity() + disk);
    }

    /// Returns whether the whole body was passed on.
    pub(crate) fn is_given(&self) -> bool {
        match self.trailers.is_empty() {
            true => self.given == self.length,
            false => self.ended,
        }
    }

    /// Restarts the body from its beginning.
    pub(crate) fn rewind(&mut self) {
        self.given = 0;
        (self.begun, self.ended) = (false, false);
    }

    /// Passes the next piece to `pass`. Bytes that were passed before the last rewind do not count
    /// again.
    pub(crate) fn poll_give(
        &mut self,
        cx: &mut Context<'_>,
        pass: impl FnOnce(&mut Context<'_>, &[u8], usize),
    ) -> Poll<Result<(), FailureKind>> {
        let chunked = !self.trailers.is_empty();
        if chunked && !self.begun && self.length > 0 {
            self.begun = true;
            pass(cx, format!("{:x}\r\n", self.length).as_bytes(), 0);
        } else if self.given < self.length {
            ready!(self.poll_load(cx))?;
            let at = usize::try_from(self.given - self.before).unwrap_or(usize::MAX);
            let piece = self.memory.get(at..).unwrap_or_default();
            let piece = &piece[..piece.len().min(PIECE)];
            let length = piece.len();
            self.given += length as u64;
            let fresh = self.given.saturating_sub(self.counted);
            self.counted = self.counted.max(self.given);
            pass(cx, piece, usize::try_from(fresh).unwrap_or(usize::MAX));
            if self.spill.is_some() && at + length == self.memory.len() {
                // Memory that stays reserved could keep this connection itself from reading.
                self.memory = Vec::new();
                self.count();
            }
        } else {
            self.ended = true;
            let mut end = if self.length > 0 { b"\r\n0\r\n".to_vec() } else { b"0\r\n".to_vec() };
            end.extend_from_slice(&self.trailers);
            pass(cx, if chunked { &end } else { &[] }, 0);
        }
        Poll::Ready(Ok(()))
    }

    /// Ensures that the next bytes are in memory.
    fn poll_load(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), FailureKind>> {
        let Some(spill) = &mut self.spill else { return Poll::Ready(Ok(())) };
        let (before, behind) = (self.before, self.before + self.memory.len() as u64);
        if (before..behind).contains(&self.given) {
            return Poll::Ready(Ok(()));
        }
        self.memory = ready!(spill.poll_read(cx, self.given, budget::portion(PIECE))).map_err(failed)?;
        self.before = self.given;
        self.count();
        Poll::Ready(Ok(()))
    }
}

/// Sends `100 Continue` to a client that waits for it.
fn send_continue(
    cx: &mut Context<'_>,
    client: &mut impl Downstream,
    deadlines: &mut Deadlines,
) -> Poll<Result<(), FailureKind>> {
    if client.awaits_continue() {
        client.interim(cx, &mut Response::go_on())?;
    }
    client.poll_flush(cx, deadlines)
}

fn unwritten(unwritten: Unwritten) -> FailureKind {
    failed(unwritten.error)
}

fn failed(error: std::io::Error) -> FailureKind {
    tracing::warn!(%error, "a request body cannot be kept on disk; see --body-temp-path and body-temp-max-size");
    FailureKind::Storage
}

#[cfg(test)]
mod tests;
